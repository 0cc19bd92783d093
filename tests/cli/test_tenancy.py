"""Commands that change a tenant."""

from __future__ import annotations

import pytest
import typer

from app.cli import tenancy


def test_who_deletes_a_tenant_without_its_name_once_more_is_told_how_to_say_it() -> None:
    with pytest.raises(typer.BadParameter, match=r"--confirm 'the family'\. Nothing was changed"):
        tenancy.tenant_delete("the family", confirm=None)

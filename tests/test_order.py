"""Long files are handed out first."""

from __future__ import annotations

import pytest

from tests.order import LONGEST, ROOT, ordered


def test_every_long_file_exists() -> None:
    assert [name for name in LONGEST if not (ROOT / name).is_file()] == []


def test_the_long_files_of_a_run_come_first(request: pytest.FixtureRequest) -> None:
    assert ordered(request.session.items) == request.session.items

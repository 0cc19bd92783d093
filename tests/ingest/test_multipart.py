"""A form is read as it comes, and no form takes more than it may."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.ingest.multipart import FIELDS, Multipart


async def test_fields_without_a_byte_in_them_are_counted_too() -> None:
    form = Multipart("multipart/form-data; boundary=x", files=1)
    empty = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % number for number in range(FIELDS + 2)
    )
    with pytest.raises(InvalidInput, match="at most 1 files"):
        await form.feed(empty)
    assert len(form.fields) <= FIELDS + 1

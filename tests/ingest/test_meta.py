"""Moments that senders name."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from app.ingest.meta import Meta, instant
from app.ingest.showing import moment


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "1969-07-20T20:17:40Z", "9998-12-31T23:59:59Z"])
def test_what_is_taken_can_be_shown_again(text: str) -> None:
    assert moment(instant(text)) == text.replace("Z", ".000Z")


@pytest.mark.parametrize(
    "text", ["0001-01-01T00:00:00+14:00", "9998-12-31T23:59:59-12:00", "9999-12-31T23:59:59-12:00", "yesterday", ""]
)
def test_a_moment_beyond_the_years_that_can_be_shown_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        instant(text)
    with pytest.raises(ValidationError, match="ISO 8601"):
        Meta(through=text)

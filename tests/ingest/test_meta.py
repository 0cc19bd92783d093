"""Moments that senders name."""

from __future__ import annotations

import time

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


def test_a_session_is_not_read_up_to_a_moment_that_is_still_to_come() -> None:
    """Who believed it would pass over all that is said until then; a clock may be some minutes ahead."""
    now = time.time()
    assert Meta(through=moment(now + 240)).through == moment(now + 240)
    for later in (moment(now + 400), "9990-01-01T00:00:00Z"):
        with pytest.raises(ValidationError, match="lies in the future"):
            Meta(through=later)

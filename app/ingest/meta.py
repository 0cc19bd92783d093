"""What a sender says about a file."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

__all__ = ["Meta", "instant"]

_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_END: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_CLOCKS: Final = 300.0
"""Seconds that a sender's clock may be ahead of ours."""
_WANTED: Final = "is an ISO 8601 moment in the years 1 to 9998, for example 2026-03-01T12:00:00Z"


def instant(text: str) -> float:
    """Unix seconds of an ISO 8601 moment; without a zone it is UTC.

    Raises:
        ValueError: it is none, or in UTC not in the years 1 to 9998: others could not be shown again.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(_WANTED) from None
    seconds = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if not _FIRST <= seconds < _END:
        raise ValueError(_WANTED)
    return seconds


def _past(text: str) -> str:
    if instant(text) > time.time() + _CLOCKS:
        raise ValueError("lies in the future: the messages that are said until then would be passed over")
    return text.strip()


LONGEST: Final = 4096

Short = Annotated[str, Field(max_length=200)]


class Meta(BaseModel):
    """Where a document comes from and how to read it."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    source: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="With url: the url without its query."
    )
    author: Short | None = None
    date: Short | None = None
    topic_hints: list[Short] | None = Field(default=None, max_length=50)
    weight_override: float | None = Field(default=None, ge=0, le=1, description="Weight of what is learned from it.")
    session_id: Short | None = Field(default=None, description="Session that the messages belong to.")
    through: Annotated[str, Field(max_length=64), AfterValidator(_past)] | None = Field(
        default=None, description="ISO moment of the last message inside."
    )
    last_event_id: Short | None = None

    @model_validator(mode="after")
    def _short(self) -> Meta:
        if len(self.model_dump_json(exclude_none=True)) > LONGEST:
            raise ValueError(f"meta has at most {LONGEST} characters in all")
        return self

    def given(self) -> dict[str, Any]:
        """What was said, without the rest."""
        return self.model_dump(exclude_none=True)

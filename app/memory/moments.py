"""Moments in time, as callers write them: one strict form, one helpful refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, WithJsonSchema

from app.store.values import spelt_moment

__all__ = ["MOMENTS", "Moment", "moment", "moment_text", "read_properties", "stored_moment"]

MOMENTS: Final = frozenset(
    {"first_seen", "last_seen", "valid_at", "invalid_at", "ended_at", "ingested_at", "last_confirmed"}
)
"""Properties that hold moments."""

_FORM: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:[Zz]|[+-]\d{2}:\d{2})?)?\Z", re.ASCII
)
_RULE: Final = (
    "a moment is a date or a date with a time and a zone, for example '2026-03-01' or '2026-03-01T09:30:00Z'; "
    "without a zone it is read as UTC, and numbers (seconds since 1970) are not accepted"
)


def moment(value: Any) -> datetime:
    """Read a moment.

    Raises:
        ValueError: it is not in the one accepted form, or no such day or hour exists; the message has an example.
    """
    if isinstance(value, datetime):
        return _universal(value)
    if not isinstance(value, str) or not _FORM.match(value.strip()):
        raise ValueError(_RULE)
    try:
        return _universal(datetime.fromisoformat(value.strip().upper()))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{_RULE}; no such day or hour exists") from error


def stored_moment(value: Any) -> datetime | None:
    """A moment as the store gives it back (ISO text or None)."""
    return None if value is None else moment(value)


def moment_text(value: datetime | None) -> str | None:
    """Spell a moment as the store does: UTC, with a ``Z``."""
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_properties(pairs: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Properties from the pairs that a statement projects, moments in the store's one spelling."""
    return {key: spelt_moment(value) if key in MOMENTS else value for key, value in pairs}


def _universal(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(moment),
    WithJsonSchema(
        {
            "type": "string",
            "description": "ISO date or date-time, e.g. 2026-03-01 or 2026-03-01T09:30:00Z; no zone means UTC.",
        }
    ),
]
"""A moment as a tool's argument."""

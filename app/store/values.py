"""Values as they come from the database, made plain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

from neo4j import Record
from neo4j.time import Date, DateTime, Duration, Time
from neo4j.vector import Vector

__all__ = ["plain_rows", "spelt_moment"]

_SCALARS: Final = frozenset({str, int, float, bool, type(None), bytes})


def plain_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Records as dictionaries of plain values: moments become ISO 8601 text in UTC, "2026-01-02T03:04:05Z".

    Vectors become the bytes of their coordinates, big-endian.

    Raises:
        TypeError: a statement returned a whole node, relationship or path; statements project what they need.
    """
    if not records:
        return []
    keys = records[0].keys()
    return [
        {key: value if type(value) in _SCALARS else _plain(value) for key, value in zip(keys, record, strict=True)}
        for record in records
    ]


def spelt_moment(value: Any) -> Any:
    """The server's text of a moment (seconds left out where they are zero, fractions padded) as :func:`plain_rows`."""
    if not isinstance(value, str) or not value.endswith("Z"):
        return value
    if len(value) == len("2026-01-01T00:00Z"):
        return f"{value[:-1]}:00Z"
    return f"{value[:-1].rstrip('0')}Z" if "." in value else value


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list:
        return [item if type(item) in _SCALARS else _plain(item) for item in value]
    if kind is dict:
        return {key: item if type(item) in _SCALARS else _plain(item) for key, item in value.items()}
    if kind is DateTime:
        return _moment(value)
    if kind is Vector:
        return value.raw()
    if kind in {Date, Time, Duration}:
        return value.iso_format()
    raise TypeError(f"a statement returned a {kind.__name__}")


def _moment(value: DateTime) -> str:
    offset = value.utcoffset()
    if offset is None:
        return value.iso_format()
    utc = value.astimezone(UTC) if offset else value
    text = f"{utc.year:04d}-{utc.month:02d}-{utc.day:02d}T{utc.hour:02d}:{utc.minute:02d}:{utc.second:02d}"
    fraction = f"{utc.nanosecond:09d}".rstrip("0")
    return f"{text}.{fraction}Z" if fraction else f"{text}Z"

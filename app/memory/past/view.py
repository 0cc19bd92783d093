"""From which moment a reading tool looks: the present, or an earlier one in one of two senses.

``validity``: what was true at the moment, as far as is known today. ``ingestion``: what was believed at the moment,
later knowledge left out. Names and properties are those of today: only relations have a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import orjson

from app.memory.moments import read_properties, stored_moment
from app.memory.past.queries import (
    ENTITY_AT,
    EXPANSION_AT,
    NEIGHBOURHOOD_AT,
    PAGE_AT,
    PICKED_AT,
    WIDE_NEIGHBOURHOOD_AT,
)
from app.memory.queries import ENTITY, EXPANSION, NEIGHBOURHOOD, PAGE, PICKED, WIDE_NEIGHBOURHOOD
from app.store.statement import Statement

__all__ = ["PRESENT", "Basis", "View", "view"]

Basis = Literal["validity", "ingestion"]

_INTERVAL: Final = ("valid_at", "invalid_at", "ingested_at", "ended_at")


@dataclass(frozen=True, slots=True)
class View:
    """The statements that read from one moment, and what they need to know of it."""

    neighbourhood: Statement = NEIGHBOURHOOD
    wide: Statement = WIDE_NEIGHBOURHOOD
    entity: Statement = ENTITY
    page: Statement = PAGE
    picked: Statement = PICKED
    expansion: Statement = EXPANSION
    parameters: Mapping[str, Any] = field(default_factory=dict)
    at: datetime | None = None
    believed: bool = False

    @property
    def seen_by(self) -> datetime | None:
        """The moment after which a record that was first seen then is not there."""
        return self.at if self.believed else None

    def copies(self, copies: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Copies of one relation as they were: those that held, each with the interval in which it did; else all."""
        read = [{**copy, "properties": read_properties(copy["properties"])} for copy in copies]
        if self.at is not None:
            read = [then for copy in read if (then := self._then(copy)) is not None] or read
        return [{**copy, "properties": list(copy["properties"].items())} for copy in read]

    def _then(self, copy: dict[str, Any]) -> dict[str, Any] | None:
        now = copy["properties"]
        for interval in (now, *reversed(orjson.loads(now.get("past") or "[]"))):
            if self._held(interval):
                moments = {key: interval.get(key) for key in _INTERVAL}
                weight = interval.get("weight", now.get("weight"))
                return {**copy, "properties": {**now, **moments, "weight": weight}}
        return None

    def _held(self, interval: Mapping[str, Any]) -> bool:
        first, last = ("ingested_at", "ended_at") if self.believed else ("valid_at", "invalid_at")
        start, end = stored_moment(interval.get(first)), stored_moment(interval.get(last))
        if self.at is None or (start is None and self.believed):
            return False
        return (start is None or start <= self.at) and (end is None or end > self.at)


PRESENT: Final = View()


def view(as_of: datetime | None, basis: Basis) -> View:
    """The view from ``as_of``; None is the present."""
    if as_of is None:
        return PRESENT
    believed = basis == "ingestion"
    return View(
        *(NEIGHBOURHOOD_AT, WIDE_NEIGHBOURHOOD_AT, ENTITY_AT, PAGE_AT, PICKED_AT, EXPANSION_AT),
        parameters={"at": as_of, "believed": believed},
        at=as_of,
        believed=believed,
    )

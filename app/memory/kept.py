"""What was read of a whole memory, kept and read again only where somebody wrote: the same is asked for often.

Two kinds are kept. A whole reading holds until something of the layers that it read is written. A reading by ranges of
entity ids has a row for each range, and only the ranges that hold an entity written to since are read again.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Protocol

import orjson

from app.memory.figures.queries import BOUNDS
from app.store.database import TenantSession
from app.store.statement import Statement
from app.together import together

__all__ = ["Kept", "Reader"]

LONGEST_SECONDS: Final = 60.0
"""How long what another gateway wrote may stay unseen; a write of this one is seen at once."""
_MOST: Final = 2_000
"""Readings kept; the one that was asked for longest ago goes first."""
_ROOM: Final = 16 * 1024 * 1024
"""Bytes of all of them as JSON; in memory they take some times as many."""
_SHARE: Final = 4
"""A reading that takes more than this part of the room is not kept: many others would go for it."""
_RANGES: Final = 128
_FEWEST: Final = 100
_AT_ONCE: Final = 16
_FIRST: Final = ""
_RARE: Final = "\ud7ff"
_RARER: Final = "\U00010000"
_BEHIND: Final = (("\ue000", "\uffff"), (_RARER, "\U0010ffff"))
"""Ranges of ids that begin with rare letters, each apart: the database compares texts by code points in one place
and by UTF-16 in another, and within each of these, as before them, both orders are one."""


class Reader(Protocol):
    """Reads a statement's rows; nobody changes them."""

    async def __call__(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a reading statement."""


@dataclass(frozen=True, slots=True)
class _Reading:
    rows: list[dict[str, Any]]
    mark: int
    """Commits that had ended when the reading began: one that ends later may not be in it."""
    until: float
    size: int
    bounds: tuple[str, ...] = ()
    """Where ranges of ids begin, if there is a row for each."""


class Kept:
    """Readings of one gateway, by tenant, layers, statement and parameters.

    Nothing stays longer than ``LONGEST_SECONDS``, whether or not somebody asks again: of a tenant that is erased nobody
    does.
    """

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}
        self._size = 0
        self._sweep: asyncio.TimerHandle | None = None

    def reader(self, session: TenantSession) -> Reader:
        """Reads as ``session.read`` does, and asks the database only where something may have changed."""

        async def read(statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
            key = _key(session, statement, parameters)
            known = self._readings.get(key)
            if known is None or known.until < time.monotonic() or session.touched_since(known.mark) != set():
                mark = session.mark
                known = _reading(key, await session.read(statement, **parameters), mark)
            self._keep(key, known)
            return known.rows

        return read

    async def by_ranges(self, session: TenantSession) -> Reader:
        """Reads a statement over ``$ranges``, each a map of place, first id and the id behind its last.

        The statement returns a row for each with its ``place``. What it tells of a range may depend on the entities
        whose ids lie there and on their relations, and on nothing else.

        Raises:
            CallError: what the store raises.
        """
        bounds = await self._bounds(session)

        async def read(statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
            key = _key(session, statement, parameters)
            mark = session.mark
            known = self._readings.get(key)
            touched = None
            if known is not None and known.bounds == bounds and known.until >= time.monotonic():
                touched = session.touched_since(known.mark)
            places = range(len(_spans(bounds))) if touched is None else {_place(bounds, id_) for id_ in touched}
            found = await _read_ranges(session, statement, parameters, bounds, places) if places else {}
            if known is None or touched is None:
                known = _reading(key, [found[place] for place in places], mark, bounds)
            elif found:
                rows = [found.get(place, row) for place, row in enumerate(known.rows)]
                known = _reading(key, rows, mark, bounds, known.until)
            self._keep(key, known)
            return known.rows

        return read

    def close(self) -> None:
        """Let go of everything."""
        self._readings.clear()
        self._size = 0
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    async def _bounds(self, session: TenantSession) -> tuple[str, ...]:
        """Where ranges begin that hold about as many entities each; any bounds are right, these are quick."""
        key = _key(session, BOUNDS, {})
        known = self._readings.get(key)
        if known is None or known.until < time.monotonic():
            rows = await session.read(BOUNDS, parts=_RANGES, fewest=_FEWEST)
            known = _reading(key, rows, 0, (_FIRST, *(one for one in rows[0]["bounds"] if max(one) < _RARE)))
        self._keep(key, known)
        return known.bounds

    def _keep(self, key: str, reading: _Reading) -> None:
        self._drop(key)
        if reading.size > _ROOM // _SHARE:
            return
        self._readings[key] = reading
        self._size += reading.size
        while len(self._readings) > _MOST or self._size > _ROOM:
            self._drop(next(iter(self._readings)))
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self._drop_old)

    def _drop(self, key: str) -> None:
        reading = self._readings.pop(key, None)
        self._size -= 0 if reading is None else reading.size

    def _drop_old(self) -> None:
        now = time.monotonic()
        for key in [key for key, reading in self._readings.items() if reading.until <= now]:
            self._drop(key)
        first = min((reading.until for reading in self._readings.values()), default=None)
        loop = asyncio.get_running_loop()
        self._sweep = None if first is None else loop.call_later(first - now, self._drop_old)


def _key(session: TenantSession, statement: Statement, parameters: Mapping[str, Any]) -> str:
    scope = session.scope
    writable = scope.writable if "writable" in statement.injected else ()
    return repr((scope.tenant, scope.layers, writable, statement.name, sorted(parameters.items())))


def _spans(bounds: Sequence[str]) -> list[tuple[str, str]]:
    """First id and the one behind the last of each range."""
    return [*pairwise((*bounds, _RARE)), *_BEHIND]


def _place(bounds: Sequence[str], id_: str) -> int:
    """The range in which an id lies."""
    return bisect_right(bounds, id_) - 1 if id_ < _RARE else len(bounds) + (id_ >= _RARER)


def _reading(
    key: str, rows: list[dict[str, Any]], mark: int, bounds: tuple[str, ...] = (), until: float | None = None
) -> _Reading:
    ends = time.monotonic() + LONGEST_SECONDS if until is None else until
    return _Reading(rows, mark, ends, len(key) + len(orjson.dumps(rows)), bounds)


async def _read_ranges(
    session: TenantSession,
    statement: Statement,
    parameters: Mapping[str, Any],
    bounds: Sequence[str],
    places: Iterable[int],
) -> dict[int, dict[str, Any]]:
    """The rows of these ranges by their places; many of them in two halves at the same time."""
    spans = _spans(bounds)
    ranges = [{"place": place, "start": spans[place][0], "end": spans[place][1]} for place in places]
    parts = [ranges[half::2] for half in range(2)] if len(ranges) > _AT_ONCE else [ranges]
    found = await together(*(session.read(statement, **parameters, ranges=part) for part in parts))
    return {row["place"]: row for rows in found for row in rows}

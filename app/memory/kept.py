"""What was read of a whole memory, kept until somebody writes to it: the same is asked for again and again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from app.store.database import TenantSession
from app.store.statement import Statement

__all__ = ["Kept", "Reader"]

LONGEST_SECONDS: Final = 60.0
"""How long what another gateway wrote may stay unseen; a write of this one is seen at once."""
_MOST: Final = 2_000
"""Readings kept; the one that was asked for longest ago goes first."""
_ROOM: Final = 16 * 1024 * 1024
"""Bytes of all of them as JSON; in memory they take some times as many."""


class Reader(Protocol):
    """Reads a statement's rows; nobody changes them."""

    async def __call__(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of a reading statement."""


@dataclass(frozen=True, slots=True)
class _Reading:
    rows: list[dict[str, Any]]
    commits: int
    """Commits that had ended when the reading began: one that ends later may not be in it."""
    until: float
    size: int


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
            scope = session.scope
            key = repr((scope.tenant, scope.layers, statement.name, sorted(parameters.items())))
            known = self._readings.get(key)
            if known is None or known.commits != session.commits or known.until < time.monotonic():
                commits = session.commits
                rows = await session.read(statement, **parameters)
                size = len(key) + len(orjson.dumps(rows))
                known = _Reading(rows, commits, time.monotonic() + LONGEST_SECONDS, size)
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

    def _keep(self, key: str, reading: _Reading) -> None:
        self._drop(key)
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

"""What was read of a whole memory, kept until somebody writes to it: a briefing asks for the same again and again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, Protocol

from app.store.database import TenantSession
from app.store.statement import Statement

__all__ = ["Kept", "Reader"]

LONGEST_SECONDS: Final = 60.0
"""How long what another gateway wrote may stay unseen; a write of this one is seen at once."""
_MOST: Final = 2_000
"""Readings kept; the oldest goes first."""


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


class Kept:
    """Readings of one gateway, by tenant, layers, statement and parameters."""

    def __init__(self) -> None:
        self._readings: dict[str, _Reading] = {}

    def reader(self, session: TenantSession) -> Reader:
        """Reads as ``session.read`` does, and asks the database only where something may have changed."""

        async def read(statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
            scope = session.scope
            key = repr((scope.tenant, scope.layers, statement.name, sorted(parameters.items())))
            known = self._readings.pop(key, None)
            if known is None or known.commits != session.commits or known.until < time.monotonic():
                commits = session.commits
                rows = await session.read(statement, **parameters)
                known = _Reading(rows, commits, time.monotonic() + LONGEST_SECONDS)
            self._readings[key] = known
            while len(self._readings) > _MOST:
                del self._readings[next(iter(self._readings))]
            return known.rows

        return read

"""How often a sign-in was tried, within a window that begins with the first try."""

from __future__ import annotations

from collections.abc import Mapping

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["AttemptStore"]

SPENT = statement(
    "attempts.spent",
    """
    MATCH (a:_SignInAttempts) WHERE a.id IN $ids AND a.until > $now
    RETURN a.id AS id, a.count AS count
    """,
    control=True,
)
# The write lock is taken before the count is read: attempts at once cannot both be the last one that is allowed. What
# was forgotten meanwhile has no `until`: this attempt is a first one.
COUNT = statement(
    "attempts.count",
    """
    MERGE (a:_SignInAttempts {id: $id}) ON CREATE SET a.count = 0, a.until = $until
    SET a.locked = true
    WITH a, CASE WHEN coalesce(a.until, 0) <= $now THEN 0 ELSE a.count END AS before,
         CASE WHEN coalesce(a.until, 0) <= $now THEN $until ELSE a.until END AS until
    SET a.count = CASE WHEN before < $most THEN before + 1 ELSE before END, a.until = until
    REMOVE a.locked
    RETURN before < $most AS within
    """,
    writes=True,
    control=True,
)
FORGET = statement(
    "attempts.forget",
    "MATCH (a:_SignInAttempts {id: $id}) DELETE a",
    writes=True,
    control=True,
)
SWEEP = statement(
    "attempts.sweep",
    "MATCH (a:_SignInAttempts) WHERE a.until < $now WITH a LIMIT 10000 DELETE a",
    writes=True,
    control=True,
)


class AttemptStore:
    """Counts by the hash of what was tried."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def spent(self, limits: Mapping[str, int], now: float) -> bool:
        """Whether any of these counts has reached its limit; nothing is written."""
        rows = await self._control.read(SPENT, ids=list(limits), now=now)
        return any(row["count"] >= limits[row["id"]] for row in rows)

    async def count(self, key: str, *, most: int, now: float, window: float) -> bool:
        """Count one attempt, unless there were ``most`` within the present window of ``window`` seconds already."""
        rows = await self._control.write(
            lambda writing: writing.run(COUNT, id=key, most=most, now=now, until=now + window)
        )
        return bool(rows[0]["within"])

    async def forget(self, key: str) -> None:
        """Begin to count anew: the person proved to be the one."""
        await self._control.write(lambda writing: writing.run(FORGET, id=key))

    async def sweep(self, now: float) -> None:
        """Remove counts whose window is over, ten thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

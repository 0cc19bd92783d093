"""What may count only once, on any replica: a mark says that it did."""

from __future__ import annotations

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["OnceStore"]

MARK = statement(
    "once.mark",
    """
    MERGE (o:_Once {id: $id}) ON CREATE SET o.fresh = true, o.expires_at = $until
    WITH o, o.fresh AS first
    REMOVE o.fresh
    RETURN first IS NOT NULL AS first
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "once.sweep",
    "MATCH (o:_Once) WHERE o.expires_at < $now WITH o LIMIT 10000 DELETE o",
    writes=True,
    control=True,
)


class OnceStore:
    """Marks by the hash of what was used."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def first(self, key: str, *, until: float) -> bool:
        """Whether this is the first use; the mark is kept till ``until`` (Unix seconds)."""
        rows = await self._control.write(lambda writing: writing.run(MARK, id=key, until=until))
        return bool(rows[0]["first"])

    async def sweep(self, now: float) -> None:
        """Remove marks of what has expired anyway, ten thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

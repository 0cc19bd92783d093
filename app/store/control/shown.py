"""What a page shows once after a form was posted, a new token say: sealed, taken by the first look, gone in minutes."""

from __future__ import annotations

from app.store.session import ControlSession
from app.store.statement import statement

__all__ = ["ShownStore"]

PUT = statement(
    "shown.put",
    "CREATE (o:_ShownOnce {id: $id, sealed: $sealed, expires_at: $expires_at}) RETURN o.id AS id",
    writes=True,
    control=True,
)
# The write lock is taken before the text is read: of two looks one sees it.
TAKE = statement(
    "shown.take",
    """
    MATCH (o:_ShownOnce {id: $id}) WHERE o.expires_at > $now
    SET o.locked = true
    WITH o, o.sealed AS sealed WHERE o.locked AND sealed IS NOT NULL
    REMOVE o.sealed
    RETURN sealed
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "shown.sweep",
    "MATCH (o:_ShownOnce) WHERE o.expires_at < $now WITH o LIMIT 1000 DELETE o",
    writes=True,
    control=True,
)


class ShownStore:
    """Sealed texts by the hash of their handle. Times are Unix seconds."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def put(self, key: str, sealed: str, expires_at: float) -> None:
        """Keep a sealed text until it is taken or expires."""
        await self._control.write(lambda writing: writing.run(PUT, id=key, sealed=sealed, expires_at=expires_at))

    async def take(self, key: str, now: float) -> str | None:
        """The sealed text, for the first who asks; None afterwards."""
        rows = await self._control.write(lambda writing: writing.run(TAKE, id=key, now=now))
        return str(rows[0]["sealed"]) if rows else None

    async def sweep(self, now: float) -> None:
        """Remove what nobody looked at, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

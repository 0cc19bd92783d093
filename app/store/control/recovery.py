"""Recovery codes of local accounts: only their hashes."""

from __future__ import annotations

from collections.abc import Sequence

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["RecoveryCodeStore"]

REPLACE = statement(
    "recovery.replace",
    """
    MATCH (u:_User {id: $user}) SET u.locked = true
    WITH u WHERE u.locked
    REMOVE u.locked
    WITH u
    CALL () { MATCH (old:_RecoveryCode {user: $user}) DELETE old }
    UNWIND $codes AS code
    CREATE (c:_RecoveryCode {id: code, user: $user, created_at: $now})
    RETURN count(c) AS made
    """,
    writes=True,
    control=True,
)
# The write lock is taken before `used_at` is read: of two uses of one code exactly one counts.
USE = statement(
    "recovery.use",
    """
    MATCH (c:_RecoveryCode {id: $id, user: $user})
    SET c.locked = true
    WITH c WHERE c.locked AND c.used_at IS NULL
    SET c.used_at = $now
    RETURN c.id AS id
    """,
    writes=True,
    control=True,
)
LEFT = statement(
    "recovery.left",
    "MATCH (c:_RecoveryCode {user: $user}) WHERE c.used_at IS NULL RETURN count(c) AS left",
    control=True,
)


class RecoveryCodeStore:
    """Hashes by user; each code counts once."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def replace(self, user: str, hashes: Sequence[str], now: float) -> bool:
        """Keep these instead of all that the user had; False if there is no such user."""
        rows = await self._control.write(lambda writing: writing.run(REPLACE, user=user, codes=list(hashes), now=now))
        return bool(rows) and rows[0]["made"] == len(hashes)

    async def use(self, user: str, hashed: str, now: float) -> bool:
        """Use a code up; False if the user has no unused one with this hash."""
        return bool(await self._control.write(lambda writing: writing.run(USE, id=hashed, user=user, now=now)))

    async def left(self, user: str) -> int:
        """How many the user has left."""
        rows = await self._control.read(LEFT, user=user)
        return int(rows[0]["left"])

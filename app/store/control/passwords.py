"""Password hashes of local accounts, by user; nobody else reads them."""

from __future__ import annotations

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["PasswordStore"]

SET = statement(
    "passwords.set",
    "MERGE (p:_Password {id: $id}) SET p.hash = $hash, p.changed_at = $now RETURN p.id AS id",
    writes=True,
    control=True,
)
FIND = statement(
    "passwords.find",
    "MATCH (p:_Password {id: $id}) RETURN p.hash AS hash",
    control=True,
)


class PasswordStore:
    """One hash (argon2id, PHC form) per user."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def set(self, user: str, hashed: str, now: float) -> None:
        """Keep the hash of a user's new password; ``now`` is Unix seconds."""
        await self._control.write(lambda writing: writing.run(SET, id=user, hash=hashed, now=now))

    async def find(self, user: str) -> str | None:
        """The hash, None for a user who never set a password."""
        rows = await self._control.read(FIND, id=user)
        return rows[0]["hash"] if rows else None

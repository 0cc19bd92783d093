"""Passkeys (WebAuthn credentials) of local accounts: public keys only."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["LARGEST_NUMBER", "Passkey", "Passkeys", "passkey_id"]

LARGEST_NUMBER = 20
"""Passkeys of one user."""

# The user's node is locked first: two additions at once cannot both be the last one that is allowed.
ADD = statement(
    "passkeys.add",
    """
    MATCH (u:_User {id: $user}) SET u.locked = true
    WITH u WHERE u.locked
    REMOVE u.locked
    WITH u WHERE COUNT { MATCH (other:_Passkey {user: $user}) } < $most
    CREATE (p:_Passkey) SET p = $record
    RETURN p.id AS id
    """,
    writes=True,
    control=True,
)
FIND = statement("passkeys.find", "MATCH (p:_Passkey {id: $id}) RETURN properties(p) AS passkey", control=True)
OF_USER = statement(
    "passkeys.of_user",
    "MATCH (p:_Passkey {user: $user}) RETURN properties(p) AS passkey ORDER BY p.created_at, p.id",
    control=True,
)
RENAME = statement(
    "passkeys.rename",
    "MATCH (p:_Passkey {id: $id, user: $user}) SET p.name = $name RETURN p.id AS id",
    writes=True,
    control=True,
)
REMOVE = statement(
    "passkeys.remove",
    "MATCH (p:_Passkey {id: $id, user: $user}) WITH p, p.id AS id DELETE p RETURN id",
    writes=True,
    control=True,
)
# The write lock is taken before the counter is read: of two copies of one authenticator at most one gets on.
USED = statement(
    "passkeys.used",
    """
    MATCH (p:_Passkey {id: $id}) SET p.locked = true
    WITH p WHERE p.locked
    REMOVE p.locked
    WITH p WHERE $count > p.sign_count OR ($count = 0 AND p.sign_count = 0)
    SET p.sign_count = $count, p.used_at = $now, p.backed_up = $backed_up
    RETURN p.id AS id
    """,
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class Passkey:
    """A passkey. ``id`` is the SHA-256 of the credential id; times are Unix seconds.

    ``credential`` and ``public_key`` are base64url; ``rp_id`` is the host that it works at; ``backed_up`` says whether
    the person's other devices have it too.
    """

    id: str
    user: str
    name: str
    rp_id: str
    credential: str
    public_key: str
    sign_count: int
    transports: list[str]
    backed_up: bool
    created_at: float
    used_at: float | None = None


def passkey_id(credential: bytes) -> str:
    """The id of the passkey with this credential id."""
    return hashlib.sha256(credential).hexdigest()


class Passkeys:
    """The store of passkeys."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add(self, passkey: Passkey) -> bool:
        """Keep a passkey; False if the user has as many as one may, or is gone.

        Raises:
            Conflict: a passkey with this credential id exists.
        """
        record = {name: value for name, value in asdict(passkey).items() if value is not None}
        rows = await self._control.write(
            lambda writing: writing.run(ADD, user=passkey.user, record=record, most=LARGEST_NUMBER)
        )
        return bool(rows)

    async def find(self, passkey: str) -> Passkey | None:
        """The passkey with this id."""
        rows = await self._control.read(FIND, id=passkey)
        return Passkey(**rows[0]["passkey"]) if rows else None

    async def of_user(self, user: str) -> list[Passkey]:
        """Every passkey of a user, oldest first."""
        return [Passkey(**row["passkey"]) for row in await self._control.read(OF_USER, user=user)]

    async def rename(self, user: str, passkey: str, name: str) -> bool:
        """Give one of the user's passkeys another name; False if they have none of this id."""
        return bool(
            await self._control.write(lambda writing: writing.run(RENAME, id=passkey, user=user, name=name[:64]))
        )

    async def remove(self, user: str, passkey: str) -> bool:
        """Take a passkey away; False if the user has none of this id."""
        return bool(await self._control.write(lambda writing: writing.run(REMOVE, id=passkey, user=user)))

    async def used(self, passkey: str, *, sign_count: int, backed_up: bool, now: float) -> bool:
        """Record a sign-in; False, and nothing changed, if the counter did not rise (WebAuthn 3 §6.1.1: a copy)."""
        return bool(
            await self._control.write(
                lambda writing: writing.run(USED, id=passkey, count=sign_count, backed_up=backed_up, now=now)
            )
        )

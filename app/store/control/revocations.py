"""What no longer counts, until the last token it could concern has expired anyway."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["Revocation", "RevocationKind", "Revocations", "client_key", "member_key", "revoke_in"]

DAY_MS: Final = 24 * 3600 * 1000

PUT = statement(
    "revocations.put",
    """
    MERGE (r:_Revocation {id: $id})
    ON CREATE SET r.kind = $kind, r.key = $key, r.before = $before, r.expires = $expires
    ON MATCH SET r.before = CASE WHEN r.before > $before THEN r.before ELSE $before END,
                 r.expires = CASE WHEN r.expires > $expires THEN r.expires ELSE $expires END
    RETURN r.id AS id
    """,
    writes=True,
    control=True,
)
CURRENT = statement(
    "revocations.current",
    """
    MATCH (r:_Revocation) WHERE r.expires > $now
    RETURN r.kind AS kind, r.key AS key, r.before AS before, r.expires AS expires
    """,
    control=True,
)
FIND = statement("revocations.find", "MATCH (r:_Revocation {id: $id}) RETURN r.id AS id", control=True)
FIND_SINCE = statement(
    "revocations.find_since",
    "MATCH (r:_Revocation {id: $id}) WHERE r.before >= $issued RETURN r.id AS id",
    control=True,
)
SWEEP = statement(
    "revocations.sweep",
    "MATCH (r:_Revocation) WHERE r.expires <= $now WITH r LIMIT 10000 DELETE r",
    writes=True,
    control=True,
)


class RevocationKind(StrEnum):
    """What the key of a revocation names."""

    GRANT = "grant"
    CHANGE = "change"
    """A grant that was changed: its access tokens issued before ``before``; the next refresh gives what holds now."""
    TOKEN = "token"  # noqa: S105 (a kind, not a secret)
    CLIENT = "client"
    MEMBER = "member"
    """A user in one tenant: all of their tokens issued before ``before``."""
    USER = "user"
    """A user everywhere: all of their tokens issued before ``before``."""


_LIFE_MS: Final = {
    RevocationKind.GRANT: 2 * DAY_MS,  # an access token lives a day at most; its refresh token ends in the store
    RevocationKind.CHANGE: 2 * DAY_MS,
    RevocationKind.TOKEN: 366 * DAY_MS,  # a personal token lives 365 days at most
    RevocationKind.CLIENT: 36_500 * DAY_MS,  # a registered client's id never expires by itself
    RevocationKind.MEMBER: 366 * DAY_MS,
    RevocationKind.USER: 366 * DAY_MS,
}


@dataclass(frozen=True, slots=True)
class Revocation:
    """One revocation. ``before`` and ``expires`` are Unix milliseconds; tokens issued at ``before`` or earlier end."""

    kind: RevocationKind
    key: str
    before: int
    expires: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Revocation:
        """A revocation from a row of the statements above."""
        return cls(RevocationKind(row["kind"]), row["key"], row["before"], row["expires"])

    @classmethod
    def of_grant(cls, grant: str) -> Revocation:
        """Every token of a grant."""
        return cls._from_now(RevocationKind.GRANT, grant)

    @classmethod
    def of_change(cls, grant: str) -> Revocation:
        """Every access token that a grant gave before it was changed."""
        return cls._from_now(RevocationKind.CHANGE, grant)

    @classmethod
    def of_token(cls, token: str, *, expires: int | None = None) -> Revocation:
        """One token by its ``jti``; ``expires`` is the token's own end in Unix milliseconds where it is known."""
        made = cls._from_now(RevocationKind.TOKEN, token)
        return made if expires is None else cls(made.kind, made.key, made.before, expires)

    @classmethod
    def of_client(cls, key: str) -> Revocation:
        """Every token of a client that was deleted, and the client itself, by :func:`client_key`."""
        return cls._from_now(RevocationKind.CLIENT, key)

    @classmethod
    def of_member(cls, user: str, tenant: str) -> Revocation:
        """Every token that a user holds in a tenant up to now."""
        return cls._from_now(RevocationKind.MEMBER, member_key(user, tenant))

    @classmethod
    def of_user(cls, user: str) -> Revocation:
        """Every token that a user holds anywhere up to now."""
        return cls._from_now(RevocationKind.USER, user)

    @classmethod
    def _from_now(cls, kind: RevocationKind, key: str) -> Revocation:
        now = int(time.time() * 1000)
        return cls(kind, key, now, now + _LIFE_MS[kind])


def client_key(client: str) -> str:
    """How a client is known to the stores: SHA-256 of its id, which is up to 1,024 characters long."""
    return hashlib.sha256(client.encode("utf-8", "surrogatepass")).hexdigest()


def member_key(user: str, tenant: str) -> str:
    """Key of a MEMBER revocation."""
    return f"{user}|{tenant}"


async def revoke_in(writing: Writing, revocation: Revocation) -> None:
    """Record a revocation as part of a transaction that is under way; the later ``before`` stands."""
    await writing.run(
        PUT,
        id=_id(revocation),
        kind=revocation.kind.value,
        key=revocation.key,
        before=revocation.before,
        expires=revocation.expires,
    )


class Revocations:
    """The store of revocations."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def revoke(self, revocation: Revocation) -> None:
        """Record a revocation; every replica honours it within 5 seconds."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await revoke_in(writing, revocation)
            return []

        await self._control.write(work)

    async def current(self) -> list[Revocation]:
        """Every revocation that may still concern a living token."""
        return [Revocation.of(row) for row in await self._control.read(CURRENT, now=int(time.time() * 1000))]

    async def names(self, kind: RevocationKind, key: str) -> bool:
        """Whether this token, grant or client was revoked for good."""
        return bool(await self._control.read(FIND, id=f"{kind.value}:{key}"))

    async def ends(self, kind: RevocationKind, key: str, issued: int) -> bool:
        """Whether a token issued at ``issued`` (Unix milliseconds) was revoked with others of its time."""
        return bool(await self._control.read(FIND_SINCE, id=f"{kind.value}:{key}", issued=issued))

    async def sweep(self, now: float) -> None:
        """Remove what no living token can need, ten thousand at a time. ``now`` is Unix seconds."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=int(now * 1000)))


def _id(revocation: Revocation) -> str:
    return f"{revocation.kind.value}:{revocation.key}"

"""Personal access tokens: what is known of them. The token itself is signed and kept by nobody but its owner."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.store.control.revocations import Revocation, revoke_in
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["PersonalToken", "PersonalTokens"]

_FIELDS: Final = """t.id AS id, t.user AS user, t.tenant AS tenant, t.scopes AS scopes, t.read AS read,
           t.write AS write, t.created AS created, t.expires AS expires, t.used AS used, t.revoked AS revoked"""

PUT = statement(
    "tokens.put",
    f"""
    CREATE (t:_PersonalToken {{id: $id, user: $user, tenant: $tenant, scopes: $scopes, read: $read, write: $write,
                               created: $created, expires: $expires}})
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
OF_USER = statement(
    "tokens.of_user", f"MATCH (t:_PersonalToken {{user: $user}}) RETURN {_FIELDS} ORDER BY created, id", control=True
)
OF_TENANT = statement(
    "tokens.of_tenant",
    f"MATCH (t:_PersonalToken {{tenant: $of}}) RETURN {_FIELDS} ORDER BY created, id",
    control=True,
)
ALL = statement("tokens.all", f"MATCH (t:_PersonalToken) RETURN {_FIELDS} ORDER BY created, id", control=True)
REVOKE = statement(
    "tokens.revoke",
    f"MATCH (t:_PersonalToken {{id: $id}}) SET t.revoked = coalesce(t.revoked, $now) RETURN {_FIELDS}",
    writes=True,
    control=True,
)
USED = statement(
    "tokens.note_use",
    """
    UNWIND keys($uses) AS token
    MATCH (t:_PersonalToken {id: token})
    SET t.used = CASE WHEN t.used > $uses[token] THEN t.used ELSE $uses[token] END
    RETURN count(t) AS noted
    """,
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class PersonalToken:
    """A personal token without its text. Layers as the data spells them or ``*``, times in Unix milliseconds."""

    id: str
    user: str
    tenant: str
    scopes: tuple[str, ...]
    read_layers: tuple[str, ...]
    write_layers: tuple[str, ...]
    """The first is where writes go by default."""
    created: int
    expires: int
    used: int | None = None
    """Last use, noted within a minute of it."""
    revoked: int | None = None

    @property
    def alive(self) -> bool:
        """Whether it was neither revoked nor has expired."""
        return self.revoked is None and self.expires > time.time() * 1000

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> PersonalToken:
        """A token from a row of the statements above."""
        return cls(
            id=row["id"],
            user=row["user"],
            tenant=row["tenant"],
            scopes=tuple(row["scopes"]),
            read_layers=tuple(row["read"]),
            write_layers=tuple(row["write"]),
            created=row["created"],
            expires=row["expires"],
            used=row["used"],
            revoked=row["revoked"],
        )


class PersonalTokens:
    """The store of personal tokens."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def put(self, token: PersonalToken) -> PersonalToken:
        """Remember a token that was just made."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(
                PUT,
                id=token.id,
                user=token.user,
                tenant=token.tenant,
                scopes=list(token.scopes),
                read=list(token.read_layers),
                write=list(token.write_layers),
                created=token.created,
                expires=token.expires,
            )

        return PersonalToken.of((await self._control.write(work))[0])

    async def of_user(self, user: str) -> list[PersonalToken]:
        """A user's tokens, oldest first, revoked and expired ones too."""
        return [PersonalToken.of(row) for row in await self._control.read(OF_USER, user=user)]

    async def of_tenant(self, tenant: str) -> list[PersonalToken]:
        """Everybody's tokens for a tenant, oldest first, revoked and expired ones too."""
        return [PersonalToken.of(row) for row in await self._control.read(OF_TENANT, of=tenant)]

    async def all(self) -> list[PersonalToken]:
        """Every user's tokens, oldest first."""
        return [PersonalToken.of(row) for row in await self._control.read(ALL)]

    async def revoke(self, token_id: str) -> PersonalToken | None:
        """End a token at every replica within 5 seconds; None if there is no such token."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            rows = await writing.run(REVOKE, id=token_id, now=int(time.time() * 1000))
            if rows:
                await revoke_in(writing, Revocation.of_token(token_id, expires=rows[0]["expires"]))
            return rows

        rows = await self._control.write(work)
        return PersonalToken.of(rows[0]) if rows else None

    async def note_use(self, uses: Mapping[str, int]) -> None:
        """Record last uses, token id to Unix milliseconds."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(USED, uses=dict(uses))

        if uses:
            await self._control.write(work)

"""Clients that are kept: those that a person consented to, and those that an operator added with a secret.

Registration itself stores nothing (design §6): a row appears at the first consent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.store.control.revocations import Revocation, RevocationKind, revoke_in
from app.store.database import ControlSession, Writing
from app.store.statement import statement

__all__ = ["ClientRecord", "ClientStore"]

LONGEST_LIST: Final = 1000

_FIELDS: Final = """c.id AS id, c.client_id AS client_id, c.issuer AS issuer, c.name AS name, c.host AS host,
           c.created_at AS created_at, c.last_used AS last_used, c.deleted_at AS deleted_at,
           c.redirect_uris AS redirect_uris, c.authentication AS authentication, c.secret AS secret"""

# A document that a person consented to is kept, as the client is (see `documents.put`).
REMEMBER = statement(
    "clients.remember",
    """
    MERGE (c:_Client {id: $id})
      ON CREATE SET c.client_id = $client_id, c.issuer = $issuer, c.name = $name, c.host = $host, c.created_at = $now
      SET c.last_used = $now
    WITH c
    OPTIONAL MATCH (d:_ClientDocument {id: $id})
    SET d.consented = true
    RETURN c.id AS id
    """,
    writes=True,
    control=True,
)
ADD = statement(
    "clients.add",
    f"""
    CREATE (c:_Client {{id: $id, client_id: $client_id, issuer: '', name: $name, host: $host, created_at: $now,
                        redirect_uris: $redirect_uris, authentication: $authentication, secret: $secret}})
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
FIND = statement("clients.find", f"MATCH (c:_Client {{id: $id}}) RETURN {_FIELDS}", control=True)
ALL = statement(
    "clients.all",
    f"MATCH (c:_Client) RETURN {_FIELDS} ORDER BY created_at DESC, id LIMIT $limit",
    control=True,
)
DELETE = statement(
    "clients.delete",
    """
    MATCH (c:_Client {id: $id})
    SET c.deleted_at = coalesce(c.deleted_at, $now)
    WITH c
    OPTIONAL MATCH (g:_Grant {client: $id}) WHERE g.revoked_at IS NULL
    SET g.revoked_at = $now, g.revoked_for = 'the client was deleted'
    RETURN c.id AS id LIMIT 1
    """,
    writes=True,
    control=True,
)
GRANTS_OF = statement("clients.grants_of", "MATCH (g:_Grant {client: $id}) RETURN g.id AS id", control=True)
RESTORE = statement(
    "clients.restore",
    """
    MATCH (c:_Client {id: $id}) WHERE c.deleted_at IS NOT NULL
    REMOVE c.deleted_at
    WITH c
    OPTIONAL MATCH (r:_Revocation {id: $revocation})
    DELETE r
    RETURN c.id AS id
    """,
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """A client that someone connected or that an operator added. Times are Unix seconds; ``id`` is the SHA-256 of
    ``client_id``. ``redirect_uris``, ``authentication`` and ``secret`` (a hash) only of what an operator added."""

    id: str
    client_id: str
    issuer: str
    name: str
    host: str
    created_at: float
    last_used: float | None = None
    deleted_at: float | None = None
    redirect_uris: tuple[str, ...] = ()
    authentication: str = ""
    secret: str = ""

    @property
    def preset(self) -> bool:
        """Whether an operator added it."""
        return bool(self.redirect_uris)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ClientRecord:
        """A client from a row of the statements above."""
        return cls(
            **{
                **row,
                "redirect_uris": tuple(row["redirect_uris"] or ()),
                "authentication": row["authentication"] or "",
                "secret": row["secret"] or "",
            }
        )


class ClientStore:
    """Clients by the hash of their id."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def remember(self, *, key: str, client_id: str, issuer: str, name: str, host: str, now: float) -> None:
        """Keep a client that a person consented to; when it was used last, if it is kept already."""
        await self._control.write(
            lambda writing: writing.run(
                REMEMBER, id=key, client_id=client_id, issuer=issuer, name=name, host=host, now=now
            )
        )

    async def add(self, client: ClientRecord) -> None:
        """Keep a client that an operator adds.

        Raises:
            Conflict: one with that id exists.
        """
        await self._control.write(
            lambda writing: writing.run(
                ADD,
                id=client.id,
                client_id=client.client_id,
                name=client.name,
                host=client.host,
                now=client.created_at,
                redirect_uris=list(client.redirect_uris),
                authentication=client.authentication,
                secret=client.secret,
            )
        )

    async def find(self, key: str) -> ClientRecord | None:
        """The client, deleted or not; None when no one consented to it or added it."""
        rows = await self._control.read(FIND, id=key)
        return ClientRecord.of(rows[0]) if rows else None

    async def all(self) -> list[ClientRecord]:
        """The clients, deleted ones too, the newest first; at most 1,000."""
        return [ClientRecord.of(row) for row in await self._control.read(ALL, limit=LONGEST_LIST)]

    async def delete(self, key: str, now: float) -> bool:
        """Delete a client: whoever holds its id is unknown from now on, and its tokens end; whether there was one."""

        async def work(writing: Writing) -> bool:
            found = bool(await writing.run(DELETE, id=key, now=now))
            if found:
                await revoke_in(writing, Revocation.of_client(key))
            return found

        return await self._control.write(work)

    async def restore(self, key: str) -> bool:
        """Let a deleted client ask again; what people had granted it stays revoked. Whether there was one."""

        async def work(writing: Writing) -> bool:
            if not await writing.run(RESTORE, id=key, revocation=f"{RevocationKind.CLIENT.value}:{key}"):
                return False
            # Their access tokens had ended with the client's revocation, which is gone: each grant gets its own.
            for row in await writing.run(GRANTS_OF, id=key):
                await revoke_in(writing, Revocation.of_grant(row["id"]))
            return True

        return await self._control.write(work)

"""Registered clients that a person consented to, and the one secret that their ids are authenticated with.

Registration itself stores nothing (design §6): a row appears at the first consent.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.store.control.revocations import Revocation, revoke_in
from app.store.database import ControlSession, Writing
from app.store.statement import statement

__all__ = ["ClientRecord", "ClientStore"]

REMEMBER = statement(
    "clients.remember",
    """
    MERGE (c:_Client {id: $id})
      ON CREATE SET c.client_id = $client_id, c.issuer = $issuer, c.name = $name, c.host = $host, c.created_at = $now
      SET c.last_used = $now
    RETURN c.id AS id
    """,
    writes=True,
    control=True,
)
FIND = statement(
    "clients.find",
    "MATCH (c:_Client {id: $id}) RETURN properties(c) AS client",
    control=True,
)
DELETE = statement(
    "clients.delete",
    "MATCH (c:_Client {id: $id}) SET c.deleted_at = coalesce(c.deleted_at, $now) RETURN c.id AS id",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """A client that someone connected. Times are Unix seconds; ``id`` is the SHA-256 of ``client_id``."""

    id: str
    client_id: str
    issuer: str
    name: str
    host: str
    created_at: float
    last_used: float
    deleted_at: float | None = None


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

    async def find(self, key: str) -> ClientRecord | None:
        """The client, None when no one consented to it."""
        rows = await self._control.read(FIND, id=key)
        return ClientRecord(**rows[0]["client"]) if rows else None

    async def delete(self, key: str, now: float) -> bool:
        """Delete a client: whoever holds its id is unknown from now on, and its tokens end; whether there was one."""

        async def work(writing: Writing) -> bool:
            found = bool(await writing.run(DELETE, id=key, now=now))
            if found:
                await revoke_in(writing, Revocation.of_client(key))
            return found

        return await self._control.write(work)

"""Metadata documents of clients, as they were fetched: shared by all replicas, so that a restart keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.store.database import ControlSession, Writing
from app.store.statement import statement

__all__ = ["ClientDocument", "DocumentStore"]

UNCONSENTED: Final = 500
"""So many documents are kept at most of clients that nobody consented to: whoever publishes more pushes out others."""

DAY: Final = 24 * 3600

FIND = statement(
    "documents.find",
    """
    MATCH (d:_ClientDocument {id: $id})
    RETURN d.id AS id, d.url AS url, d.metadata AS metadata, d.fetched_at AS fetched_at, d.fresh_until AS fresh_until
    """,
    control=True,
)
PUT = statement(
    "documents.put",
    """
    MERGE (d:_ClientDocument {id: $id})
    SET d.url = $url, d.metadata = $metadata, d.fetched_at = $fetched_at, d.fresh_until = $fresh_until
    RETURN d.id AS id
    """,
    writes=True,
    control=True,
)
CROWD_OUT = statement(
    "documents.crowd_out",
    """
    MATCH (d:_ClientDocument) WHERE d.consented IS NULL
    WITH d ORDER BY d.fetched_at DESC SKIP $most
    DELETE d
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "documents.sweep",
    "MATCH (d:_ClientDocument) WHERE d.fetched_at < $before AND d.consented IS NULL WITH d LIMIT 1000 DELETE d",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ClientDocument:
    """What a client says of itself at its own address. ``id`` is the hash of ``url``, times are Unix seconds."""

    id: str
    url: str
    metadata: Mapping[str, Any]
    fetched_at: float
    fresh_until: float


class DocumentStore:
    """Documents by the hash of their address."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def find(self, key: str) -> ClientDocument | None:
        """The last good copy, fresh or not."""
        rows = await self._control.read(FIND, id=key)
        return ClientDocument(**{**rows[0], "metadata": json.loads(rows[0]["metadata"])}) if rows else None

    async def put(self, document: ClientDocument) -> None:
        """Keep a copy that was just fetched: for a day, and as long as the client once a person has consented to it."""

        async def work(writing: Writing) -> None:
            await writing.run(
                PUT,
                id=document.id,
                url=document.url,
                metadata=json.dumps(
                    dict(document.metadata)
                ),  # in ASCII: what a stranger wrote may hold half a character
                fetched_at=document.fetched_at,
                fresh_until=document.fresh_until,
            )
            await writing.run(CROWD_OUT, most=UNCONSENTED)

        await self._control.write(work)

    async def sweep(self, now: float) -> None:
        """Remove what nobody consented to within a day, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, before=now - DAY))

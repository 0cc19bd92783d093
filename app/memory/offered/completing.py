"""Completion of entities and types, among what the caller's layers show.

Names take one read of the database that stops at the limit; types are those of the tenant's last count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from app.contract import Call, Fill
from app.errors import InvalidInput
from app.graph.identity import entity_id
from app.graph.vocabulary import ENTITY_TYPES
from app.memory.offered.queries import NAMES_FROM
from app.memory.service import MemoryService

__all__ = ["complete"]

LIMIT: Final = 101
"""One more than a client may be sent, so that it can be told that there are more."""

_HASH: Final = re.compile(r"-?[0-9a-f]{6}\Z")


async def complete(service: MemoryService, call: Call, fill: Fill, beginning: str) -> Sequence[str]:
    """Names (or ids) of entities, or types, that begin so; whatever their case and spelling. Every name begins with
    nothing: then there is none.

    Raises:
        CallError: what the store raises.
    """
    if fill is Fill.TYPE:
        return await _types(service, call, beginning.strip().casefold())
    wanted = _beginning(beginning)
    if not wanted:
        return []
    session = service.database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    rows = await session.read(NAMES_FROM, beginning=wanted, limit=LIMIT)
    found = [row["id" if fill is Fill.ENTITY_ID else "name"] for row in rows]
    return list(dict.fromkeys(found))


async def _types(service: MemoryService, call: Call, wanted: str) -> list[str]:
    tally = await service.census.of(call.scope.tenant, call.principal.tenant_layers | set(call.scope.layers))
    known = set(ENTITY_TYPES).union(*(tally.types.get(layer, ()) for layer in call.scope.layers))
    return sorted(type_ for type_ in known if type_.casefold().startswith(wanted))[:LIMIT]


def _beginning(text: str) -> str:
    """How the ids of names begin that begin with ``text``: its own id, without the hash of characters that a slug
    cannot hold."""
    try:
        id_ = entity_id(text)
    except InvalidInput:
        return ""
    plain = entity_id(re.sub(r"[^\w\s]", " ", text)) if re.search(r"\w", text) else ""
    return plain if _HASH.search(id_) and id_.startswith(plain) else id_

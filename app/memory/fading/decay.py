"""``graph_decay``: what was not seen for long counts less, by how long that is and by nothing else.

Batch after batch of entities, each with the relations that start there, in the order of their ids, one transaction
each with its entry in the audit trail. A run that is cut short leaves every record as some run would: the next one
brings all to where they belong. One that runs out of time says where to go on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.contract import Call, Cursor, Json
from app.memory.calls import noted, once
from app.memory.fading.queries import FADE, FADING, FADING_MERGED, IDS
from app.memory.fading.rest import FLOOR
from app.memory.fading.schemas import DecayInput
from app.memory.queries import LOCK_COPIES
from app.settings import MemorySettings
from app.store.control.standing import require_in_place
from app.store.database import Database, Idempotency, TenantSession, Writing

__all__ = ["decay"]

_BATCH: Final = 2_000
_RESERVE: Final = 15.0
"""Seconds of the deadline that a batch and the report may need."""
_QUESTION: Final[Mapping[str, Any]] = {"tool": "graph_decay"}


class _NotYet(Exception):
    """There is no answer under the caller's key."""


@dataclass(slots=True)
class _Tally:
    """Figures of the batches so far, of merged records."""

    entities: int = 0
    relations: int = 0
    flagged: int = 0
    below: int = 0
    details: list[Sequence[Any]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any], limit: int) -> None:
        self.entities += row["entities"]
        self.relations += row["relations"]
        self.flagged += row["flagged"]
        self.below += row["below"]
        self.details = sorted([*self.details, *row["details"]], key=lambda entry: (-entry[0], entry[1]))[:limit]


async def decay(database: Database, settings: MemorySettings, call: Call, arguments: DecayInput) -> Mapping[str, Any]:
    """Answer ``graph_decay``; a dry run computes the same and writes nothing.

    Raises:
        InvalidInput: a cursor that this tool did not give out.
        CallError: what the store raises; batches that were committed before it stay, and running again is safe.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    key = once(call, arguments.idempotency_key)
    if key is not None and (first := await _answered(session, key)) is not None:
        return first
    after = Cursor.decode(arguments.cursor, call.scope, _QUESTION, (str,)).position[0] if arguments.cursor else ""
    answer = await _faded(session, settings, call, arguments, after)
    if key is None:
        return answer

    async def told(writing: Writing) -> Json:
        await require_in_place(writing.control(), call.scope.tenant)
        return answer

    return await session.write(told, idempotency=key)


async def _answered(session: TenantSession, key: Idempotency) -> Json | None:
    async def nothing(_: Writing) -> Json:
        raise _NotYet

    try:
        return await session.write(nothing, idempotency=key)
    except _NotYet:
        return None


async def _faded(
    session: TenantSession, settings: MemorySettings, call: Call, arguments: DecayInput, after: str
) -> Json:
    found = (await session.read(IDS, from_id=after))[0]
    ids: list[str] = sorted(found["ids"])
    terms = _terms(settings) | {"exempt": found["exempt"], "limit": arguments.limit}
    tally, done = _Tally(), 0
    while done < len(ids) and (done == 0 or call.deadline.remaining() > _RESERVE):
        batch = terms | {"ids": ids[done : done + _BATCH]}
        row = await _read(session, batch) if arguments.dry_run else await _write(session, call, batch)
        tally.add(row, arguments.limit)
        done = min(done + _BATCH, len(ids))
        await call.progress(done, len(ids), "entities")
    complete = done >= len(ids)
    answer: Json = {
        "dry_run": arguments.dry_run,
        "nodes_decayed": tally.entities,
        "edges_decayed": tally.relations,
        "nodes_flagged_for_pruning": tally.flagged,
        "edges_below_threshold": tally.below,
        "details": [_detail(entry) for entry in tally.details],
        "complete": complete,
    }
    return answer if complete else answer | {"next_cursor": Cursor((ids[done - 1],)).encode(call.scope, _QUESTION)}


def _terms(settings: MemorySettings) -> dict[str, Any]:
    return {
        "moment": float(int(time.time())),
        "floor": FLOOR,
        "rates": settings.rates,
        "other_rate": settings.decay_other_rate,
        "edge_rate": settings.decay_edge_rate,
        "node_threshold": settings.prune_node_threshold,
        "edge_threshold": settings.prune_edge_threshold,
    }


async def _read(session: TenantSession, batch: Mapping[str, Any]) -> dict[str, Any]:
    return (await session.read(FADING_MERGED if _merges(session) else FADING, **batch))[0]


async def _write(session: TenantSession, call: Call, batch: Mapping[str, Any]) -> dict[str, Any]:
    async def work(writing: Writing) -> Json:
        # Those of the starts hold their relations too: no boost or mention comes between reading and writing.
        await writing.run(LOCK_COPIES, ids=batch["ids"])
        merged = (await writing.run(FADING_MERGED, **batch))[0] if _merges(session) else None
        copies = (await writing.run(FADE, **batch))[0]
        told = merged or copies
        if copies["entities"] or copies["relations"]:
            figures = {"nodes_decayed": told["entities"], "edges_decayed": told["relations"]}
            await noted(writing, call, "", call.scope.writable, **figures)
        await require_in_place(writing.control(), session.scope.tenant)
        return told

    return await session.write(work)


def _merges(session: TenantSession) -> bool:
    """Whether a record may have several copies."""
    return len(session.scope.layers) > 1


def _detail(entry: Sequence[Any]) -> Json:
    _, id_, kind, name, old, new = entry
    return {"id": id_, "type": kind, "name": name, "old_confidence": old, "new_confidence": new}

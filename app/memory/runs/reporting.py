"""``graph_audit``: what a run did, appended with what graphkeep itself knows of it: who, when, for which tenant."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson

from app.contract import Call, Json
from app.errors import InvalidInput, NotFound
from app.memory.runs.lease import beaten, leads, readable, under_way
from app.memory.runs.schemas import AuditInput
from app.memory.runs.shown import when
from app.store.control.run_events import RunEvent, RunEvents
from app.store.control.runs import Run, RunStore, run_of
from app.store.database import Database, Idempotency, Writing

__all__ = ["FIELDS", "OWN", "report"]

LARGEST: Final = 8 * 1024
"""Bytes of one entry's data."""

OWN: Final = frozenset(
    {"event", "timestamp", "at", "id", "tenant", "tenant_id", "layers", "principal", "subject", "client", "run"}
) | {"run_id", "origin"}
"""What graphkeep says itself of an entry; a caller's data cannot say it."""

_SOURCE: Final = ("source",)
_COUNTS: Final = ("entities_extracted", "edges_created")

FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "run_start": (*_SOURCE, "transcripts_pending", "ingest_pending"),
        "run_end": (
            *(*_SOURCE, "duration_ms", "transcripts_processed", "ingest_processed"),
            *("entities_created", "edges_created", "errors"),
        ),
        "transcript_start": ("session_id", "file_path", "line_count"),
        "transcript_end": ("session_id", *_COUNTS),
        "transcript_skipped": ("session_id", "file_path", "reason"),
        "entity_created": ("name", "entity_type", "confidence", "source_session"),
        "entity_resolved": ("candidate_name", "action", "reason"),
        "edge_created": ("from_name", "to_name", "relation", "weight", "source_session"),
        "edge_modified": ("from_name", "to_name", "relation", "old_weight", "new_weight"),
        "merge_flagged": ("entity_a", "entity_b", "reason"),
        "contradiction_found": ("entity_a", "entity_b", "relation", "description"),
        "ingest_start": ("file_path",),
        "ingest_end": ("file_path", *_COUNTS),
        "decay_applied": ("nodes_affected", "edges_affected"),
        "format_warning": ("file_path", "format_version", "warnings"),
        "error": ("context", "message"),
    }
)
"""Usual keys of each event's data (contract §12); others may stand beside them."""


async def report(database: Database, call: Call, given: AuditInput) -> Mapping[str, Any]:
    """Answer ``graph_audit``; the entry stands once this returns.

    Raises:
        InvalidInput: the data is too large. NotFound: no such run shows to the caller.
        CallError: what the store raises; then nothing was logged, or its ``outcome`` says that this is unknown.
    """
    data = {key: value for key, value in given.data.items() if key not in OWN}
    size = len(orjson.dumps(data))
    if size > LARGEST:
        raise InvalidInput(
            f"data has {size} bytes, at most {LARGEST} are kept; name what happened and leave the text out. Nothing "
            "was logged.",
            field="data",
        )
    runs, now = RunStore(database.control.until(call.deadline, call.request_id)), int(time.time() * 1000)
    named = run_of(given.lease or "") or given.run_id or await under_way(runs, call, now)
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)

    async def work(tenants: Writing) -> Json:
        writing = tenants.control()
        run = await _renewed(runs, writing, call, named, given.lease, now) if named else None
        layers = tuple(sorted(readable(call) | set(run.layers if run is not None else ())))
        caller = call.principal
        entry = RunEvent(run.id if run else "", given.event, now, caller.subject, caller.client, layers, data, "agent")
        await RunEvents(database.control).append(writing, call.scope.tenant, entry)
        return {
            "logged": True,
            "event": given.event,
            "timestamp": when(now),
            "run_id": entry.run or None,
            "principal": caller.subject,
            "ignored": sorted(given.data.keys() & OWN),
            "missing": [name for name in FIELDS[given.event] if name not in data],
        }

    key = given.idempotency_key
    idempotency = None if key is None else Idempotency(key, call.tool, call.arguments_digest)
    return await session.write(work, idempotency=idempotency)


async def _renewed(runs: RunStore, writing: Writing, call: Call, id_: str, lease: str | None, now: int) -> Run:
    """The run under its lock; a report by who leads it is a heartbeat too."""
    run = await runs.lock(writing, call.scope.tenant, id_)
    if run is None or not readable(call).issuperset(run.layers):
        raise NotFound("there is no such run; leave run_id out, or take it from graph_run. Nothing was logged.")
    if run.state == "running" and leads(run, call, lease):
        run = beaten(run, now)
        await runs.save(writing, call.scope.tenant, run)
    return run

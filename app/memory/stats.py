"""``graph_stats``: how much there is, and what may need attention. Counts are of merged records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.contract import Call
from app.memory.queries import STATS
from app.store.database import Database
from app.store.schema import VERSION

__all__ = ["stats"]


async def stats(database: Database, call: Call) -> Mapping[str, Any]:
    """Answer ``graph_stats``.

    Raises:
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    row = (await session.read(STATS))[0]
    types, relations = row["types"], row["relations"]
    current = sum(found["current"] for found in relations)
    weight = sum(found["weight"] for found in relations)
    return {
        "schema_version": str(VERSION),
        "nodes": {
            "total": sum(found["entities"] for found in types),
            "by_type": {found["type"]: found["entities"] for found in types},
        },
        "edges": {
            "total": current,
            "by_type": {found["type"]: found["current"] for found in relations if found["current"]},
            "ended": sum(found["ended"] for found in relations),
        },
        "health": {
            "avg_weight": round(weight / current, 2) if current else None,
            "orphaned_nodes": sum(found["orphaned"] for found in types),
            "unresolved_contradictions": sum(
                found["unresolved"] for found in relations if found["type"] == "CONTRADICTS"
            ),
            "stale_nodes": sum(found["stale"] for found in types),
            "last_dream_run": None,
            "pending_ingest_docs": 0,
            "total_ingested_docs": 0,
        },
    }

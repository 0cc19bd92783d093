"""``graph_stats``: how much there is, and what may need attention. Counts are of merged records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.contract import Call
from app.memory.figures.queries import STATS, STATS_OF_ONE_LAYER, STATS_OF_ONE_LAYER_SINCE, STATS_SINCE
from app.memory.kept import Reader
from app.memory.pending import pending
from app.store.database import Database
from app.store.schema import VERSION

__all__ = ["figures", "figures_since", "stats"]


async def stats(database: Database, call: Call) -> Mapping[str, Any]:
    """Answer ``graph_stats``.

    Raises:
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    waiting = asyncio.create_task(pending(database.control.until(call.deadline, call.request_id), call.scope))
    try:
        held = await figures(session.read, len(session.scope.layers))
        work = await waiting
    finally:
        waiting.cancel()
    learnt = {
        "last_dream_run": work.last_dream_run,
        "dream_running": work.running is not None,
        "pending_ingest_docs": work.queue.pending,
        "total_ingested_docs": work.queue.completed,
    }
    return {**held, "health": {**held["health"], **learnt}}


async def figures(read: Reader, layers: int) -> dict[str, Any]:
    """The figures of the graph itself, over so many layers, in one round trip.

    Raises:
        CallError: what the store raises.
    """
    return _figures((await read(STATS_OF_ONE_LAYER if layers == 1 else STATS))[0])


async def figures_since(read: Reader, layers: int, since: datetime) -> tuple[dict[str, Any], int]:
    """The same, and how many relations were first told ``since`` then.

    Raises:
        CallError: what the store raises.
    """
    row = (await read(STATS_OF_ONE_LAYER_SINCE if layers == 1 else STATS_SINCE, since=since))[0]
    return _figures(row), row["fresh"]


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
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
            "stale_nodes": row["stale"],
        },
    }

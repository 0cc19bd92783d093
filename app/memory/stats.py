"""``graph_stats``: how much there is, and what may need attention. Counts are of merged records."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from app.contract import Call
from app.memory.figures.queries import STATS, STATS_OF_ONE_LAYER
from app.memory.kept import Kept, Reader
from app.memory.pending import pending
from app.store.database import Database
from app.store.schema import VERSION

__all__ = ["figures", "hour", "stats"]

DAYS: Final = 7
"""Days for which what is new is counted, unless a call says otherwise."""
_STALE_DAYS: Final = 90


async def stats(database: Database, kept: Kept, call: Call) -> Mapping[str, Any]:
    """Answer ``graph_stats``.

    Raises:
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    waiting = asyncio.create_task(pending(database.control.until(call.deadline, call.request_id), call.scope))
    try:
        held, _ = await figures(await kept.by_ranges(session), len(session.scope.layers))
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


async def figures(read: Reader, layers: int, days: int = DAYS) -> tuple[dict[str, Any], int]:
    """The figures of the graph itself, over so many layers, and how many relations were first told in these ``days``.

    Days are reckoned from the last full hour on, so that the same can be asked twice.

    Raises:
        CallError: what the store raises.
    """
    since, unseen_since = hour() - timedelta(days=days), hour() - timedelta(days=_STALE_DAYS)
    rows = await read(STATS_OF_ONE_LAYER if layers == 1 else STATS, since=since, unseen_since=unseen_since)
    types = _added(found for row in rows for found in row["types"])
    relations = _added(found for row in rows for found in row["relations"])
    return _figures(types, relations), sum(int(fresh) for *_, fresh in relations.values())


def hour() -> datetime:
    """The last full hour."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def _added(rows: Iterable[list[Any]]) -> dict[str, list[Any]]:
    """Figures by name, those with the greatest first number in front."""
    sums: dict[str, list[Any]] = {}
    for name, *figures_ in rows:
        known = sums.get(name)
        sums[name] = figures_ if known is None else [a + b for a, b in zip(known, figures_, strict=True)]
    return dict(sorted(sums.items(), key=lambda item: (-item[1][0], item[0])))


def _figures(types: Mapping[str, list[Any]], relations: Mapping[str, list[Any]]) -> dict[str, Any]:
    current = sum(found[0] for found in relations.values())
    weight = sum(found[2] for found in relations.values())
    return {
        "schema_version": str(VERSION),
        "nodes": {
            "total": sum(found[0] for found in types.values()),
            "by_type": {type_: found[0] for type_, found in types.items()},
        },
        "edges": {
            "total": current,
            "by_type": {type_: found[0] for type_, found in relations.items() if found[0]},
            "ended": sum(found[1] for found in relations.values()),
        },
        "health": {
            "avg_weight": round(weight / current, 2) if current else None,
            "orphaned_nodes": sum(found[1] for found in types.values()),
            "unresolved_contradictions": sum(found[3] for found in relations.values()),
            "stale_nodes": sum(found[2] for found in types.values()),
        },
    }

"""``graph_build_context``: what a session needs to know before it begins, what it needs first in front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import orjson

from app.contract import Call
from app.memory.analysis.queries import DEGREES, HUBS, RECENT, RECENT_IN_ONE_LAYER
from app.memory.analysis.schemas import ContextInput
from app.memory.changing.contradictions import contradictions
from app.memory.changing.schemas import ContradictionsInput
from app.memory.kept import Kept, Reader
from app.memory.moments import moment_text, read_properties
from app.memory.pending import pending
from app.memory.schemas import QueryInput
from app.memory.service import MemoryService
from app.memory.stats import figures, hour
from app.store.database import TenantSession
from app.together import together

__all__ = ["build_context"]

_CHARACTERS_A_TOKEN: Final = 3
_WIDTH, _EACH, _WIDER = 100, 10, 20
_HOPS, _LEAST, _NODES, _EDGES = 2, 0.3, 15, 25
_CONTRADICTIONS: Final = 10
_RULES: Final = 30
_TYPES: Final = 12
_CLIP: Final = 300
_SHORT: Final = 120

# What is cut when the budget is too small, the least needed first: a list by its path.
_CUT: Final = (
    ("recent_additions", "entities"),
    ("top_hubs",),
    ("recent_entities",),
    ("topic_neighbourhood", "edges"),
    ("contradictions",),
    ("topic_neighbourhood", "nodes"),
    ("rules",),
)


async def build_context(service: MemoryService, call: Call, arguments: ContextInput) -> Mapping[str, Any]:
    """Answer ``graph_build_context``; its parts are read at the same time.

    What is told of the memory as a whole is counted again once something was written. "Recent" is reckoned from the
    last full hour on, so that the same question can be asked twice.

    Raises:
        CallError: what the store raises.
    """
    database = service.database
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    read = service.kept.reader(session)
    by_ranges = await service.kept.by_ranges(session)
    since = hour() - timedelta(days=arguments.recent_days)
    (held, relations), recent, hubs, work, disputed, around = await together(
        figures(by_ranges, len(call.scope.layers), arguments.recent_days),
        read(
            RECENT_IN_ONE_LAYER if len(call.scope.layers) == 1 else RECENT,
            since=since,
            limit=arguments.max_recent,
            most=_RULES,
        ),
        _hubs(read, by_ranges, arguments.hub_count),
        pending(database.control.until(call.deadline, call.request_id), call.scope),
        _contradictions(service.kept, session, call, arguments),
        _around(service, call, arguments),
    )
    added = recent[0]
    entities = [_recent(entry) for entry in added["recent"]]
    nodes, edges = ({**held[key], "by_type": _most(held[key]["by_type"])} for key in ("nodes", "edges"))
    answer: dict[str, Any] = {
        "generated_at": moment_text(datetime.now(UTC)),
        "rules": [
            {"id": id_, "name": _clip(name, _SHORT), "text": _clip(text, _CLIP)} for id_, name, text in added["rules"]
        ],
        "pending_work": work.work(),
        "last_dream": work.dream(),
        "topic_neighbourhood": around,
        "contradictions": disputed,
        "recent_entities": entities,
        "top_hubs": [{**hub, "name": _clip(hub["name"], _SHORT)} for hub in hubs],
        "stats": {"nodes": nodes, "edges": edges},
        "graph_health": _health(held),
        "recent_additions": {
            "days": arguments.recent_days,
            "entity_count": added["entities"],
            "edge_count": relations,
            "entities": list(entities),
        },
    }
    return _within(answer, arguments.token_budget * _CHARACTERS_A_TOKEN)


async def _hubs(read: Reader, by_ranges: Reader, limit: int) -> list[dict[str, Any]]:
    """Those with the most strong relations, looked for among ever more until no other can have as many.

    None has more of them than it has relations in all: only those with the most in all are looked into.
    """
    each = _EACH
    while True:
        rows = await by_ranges(DEGREES, each=each)
        among = sorted(((-most, id_) for row in rows for id_, most in row["degrees"]))
        width = max(_WIDTH, each)
        bound = max([row["bound"] for row in rows] + [-most for most, _ in among[width : width + 1]])
        ids = [id_ for _, id_ in among[:width]]
        hubs: list[dict[str, Any]] = (await read(HUBS, ids=ids, min_weight=_LEAST, limit=limit))[0]["hubs"]
        if not bound or (len(hubs) == limit and hubs[-1]["degree"] > bound):
            return hubs
        each *= _WIDER


async def _contradictions(
    kept: Kept, session: TenantSession, call: Call, arguments: ContextInput
) -> list[dict[str, Any]] | None:
    if not arguments.include_contradictions:
        return None
    found = await contradictions(kept, session, call, ContradictionsInput(limit=_CONTRADICTIONS))
    return list(found["contradictions"])


async def _around(service: MemoryService, call: Call, arguments: ContextInput) -> dict[str, Any] | None:
    if arguments.topic is None:
        return None
    asked = QueryInput(
        entities=[arguments.topic],
        max_hops=_HOPS,
        min_weight=_LEAST,
        limit=_NODES,
        project_context=arguments.project_cwd,
    )
    found = await service.query(call, asked)
    nodes = [_node(node) for node in found["nodes"]]
    edges = [_edge(edge) for edge in found["edges"][:_EDGES]]
    shown = {
        "topic": arguments.topic,
        "node_count": len(nodes),
        "edge_count": len(edges),
        "nodes": nodes,
        "edges": edges,
    }
    return shown | ({"candidates": found["ambiguous"][0]["candidates"]} if found["ambiguous"] else {})


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: node.get(key) for key in ("id", "name", "type", "confidence", "distance")}
    texts = {key: _clip(value, _CLIP) for key, value in node.get("properties", {}).items() if isinstance(value, str)}
    return {**shown, "name": _clip(node["name"], _SHORT), "properties": dict(list(texts.items())[:6])}


def _edge(edge: Mapping[str, Any]) -> dict[str, Any]:
    shown = {key: edge.get(key) for key in ("from", "to", "type", "weight", "effective_weight", "valid_at")}
    return shown | ({"evidence": _clip(edge["evidence"], _CLIP)} if edge.get("evidence") else {})


def _recent(entry: Sequence[Any]) -> dict[str, Any]:
    id_, name, type_, first_seen, confidence = entry
    moments = read_properties([["first_seen", first_seen]])
    return {"id": id_, "name": _clip(name, _SHORT), "type": type_, **moments, "confidence": confidence}


def _health(held: Mapping[str, Any]) -> dict[str, Any]:
    health = held["health"]
    return {
        "nodes": held["nodes"]["total"],
        "edges": held["edges"]["total"],
        "by_node_type": _most(held["nodes"]["by_type"]),
        "avg_weight": health["avg_weight"],
        "orphaned": health["orphaned_nodes"],
        "stale": health["stale_nodes"],
        "unresolved_contradictions": health["unresolved_contradictions"],
    }


def _most(by_type: Mapping[str, int]) -> dict[str, int]:
    """The types with the most records; they come sorted."""
    return dict(list(by_type.items())[:_TYPES])


def _within(answer: dict[str, Any], room: int) -> dict[str, Any]:
    """The answer cut to ``room`` characters: whole items, from the ends of what is needed least."""
    over = len(orjson.dumps(answer).decode()) - room
    omitted: dict[str, int] = {}
    for path in _CUT:
        held: Any = answer
        for key in path:
            held = held.get(key) if isinstance(held, dict) else None
        while over > 0 and isinstance(held, list) and held:
            over -= len(orjson.dumps(held.pop()).decode()) + 1
            omitted[".".join(path)] = omitted.get(".".join(path), 0) + 1
    return answer | ({"omitted": omitted} if omitted else {})


def _clip(text: Any, most: int) -> Any:
    return f"{text[:most]}…" if isinstance(text, str) and len(text) > most else text

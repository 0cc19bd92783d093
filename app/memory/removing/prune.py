"""``graph_prune``: what has faded away goes, in one transaction that can be undone. Both modes choose alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from app.contract import Call, Cursor, Json
from app.counting import counted
from app.errors import Conflict, InvalidInput
from app.memory.calls import noted, once
from app.memory.census import Census
from app.memory.kept import Kept, Reader
from app.memory.removing.queries import CANDIDATES, COPIES, FITTING, FITTING_OF_THESE, STILL_FITTING
from app.memory.removing.removal import Copy, Going, Triple, locked, removed
from app.memory.removing.schemas import PruneInput
from app.memory.shapes import ANSWER_CHARACTERS, fitting
from app.settings import MemorySettings
from app.store.control.standing import require_in_place
from app.store.database import Database, TenantSession, Writing
from app.store.undo import Recording, Retention

__all__ = ["prune"]

_ATTEMPTS: Final = 3
_LONGEST: Final = 36_500
_IN_RANGE: Final = 100
_CANDIDATES: Final = 2_000
_PLACES: Final = 10**9
"""More than a list can have; the database counts places in 32 bits."""
_ROOM: Final = ANSWER_CHARACTERS // 2 - 5_000


class _Changed(Exception):
    """Something of what was chosen no longer fits; nothing was applied."""


async def prune(
    database: Database,
    kept: Kept,
    census: Census,
    settings: MemorySettings,
    retention: Retention,
    call: Call,
    arguments: PruneInput,
) -> Mapping[str, Any]:
    """Answer ``graph_prune``.

    Raises:
        InvalidInput: a cursor of another question.
        Conflict: what was chosen goes on changing, or is too large to be undone; nothing was applied.
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    terms = _terms(settings, arguments)
    if arguments.mode == "preview":
        return await _preview(session, await kept.by_ranges(session), call, arguments, terms)
    if arguments.cursor:
        raise InvalidInput("cursor belongs to a preview; execute takes the first ones that fit. Nothing was applied.")
    recording = Recording(session.scope, call.tool, retention)

    taken = (0, 0)

    async def work(writing: Writing) -> Json:
        nonlocal taken
        row = (await writing.run(FITTING, **terms, at_node=0, at_edge=0, limit=arguments.limit))[0]
        ids, triples = [node[0] for node in row["nodes"]], [_triple(edge) for edge in row["edges"]]
        left = row["node_count"] - len(ids) + row["edge_count"] - len(triples)
        going = await locked(writing, recording, ids, triples)
        again = (await writing.run(STILL_FITTING, **terms, ids=ids, triples=row["edges"]))[0]
        if set(again["ids"]) != set(ids) or set(map(_triple, again["edges"])) != set(triples):
            raise _Changed
        aliases, undo_id = await removed(writing, recording, going, _summary(ids, going))
        taken = going.size()
        answer = _executed(going, aliases, left) | {"undo_id": undo_id}
        if undo_id is not None:
            figures = {name: answer[name] for name in ("nodes_pruned", "edges_pruned")}
            await noted(writing, call, "", going.layers(), reason=arguments.reason, undo_id=undo_id, **figures)
            await require_in_place(writing.control(), call.scope.tenant)
        return answer

    for _ in range(_ATTEMPTS):
        try:
            answer = await session.write(work, idempotency=once(call, arguments.idempotency_key))
        except _Changed:
            continue
        census.less(call.scope.tenant, entities=taken[0], relations=taken[1])
        return answer
    raise Conflict("what is to be pruned is being changed at this moment; try again. Nothing was applied.")


def _terms(settings: MemorySettings, arguments: PruneInput) -> dict[str, Any]:
    def chosen(given: float | None, default: float) -> float:
        return float(default if given is None else given)

    days = settings.prune_orphan_days if arguments.max_age_days is None else arguments.max_age_days
    return {
        "node_threshold": chosen(arguments.node_threshold, settings.prune_node_threshold),
        "edge_threshold": chosen(arguments.edge_threshold, settings.prune_edge_threshold),
        "include_orphans": arguments.include_orphans,
        "unseen_since": datetime.now(UTC) - timedelta(days=min(days, _LONGEST)),
    }


def _triple(edge: Sequence[Any]) -> Triple:
    return (edge[0], edge[1], edge[2])


async def _preview(
    session: TenantSession, by_ranges: Reader, call: Call, arguments: PruneInput, terms: Mapping[str, Any]
) -> Json:
    question = arguments.model_dump(exclude={"cursor", "layers", "limit", "reason", "idempotency_key"})
    at_node, at_edge = _places(call, arguments, question)
    page = {"at_node": at_node, "at_edge": at_edge, "limit": arguments.limit}
    row = await _fitting(session, by_ranges, terms, page)
    nodes = [_node(node) for node in row["nodes"]]
    edges = [_edge(edge) for edge in row["edges"]]
    nodes = nodes[: fitting(nodes, _ROOM)]
    edges = edges[: fitting(edges, _ROOM)]
    place = (at_node + len(nodes), at_edge + len(edges))
    remaining = max(0, row["node_count"] - place[0]) + max(0, row["edge_count"] - place[1])
    copies = [Copy(**copy) for copy in await session.read(COPIES, ids=[node["id"] for node in nodes])] if nodes else []
    answer: Json = {
        "mode": "preview",
        "nodes_to_prune": nodes,
        "edges_to_prune": edges,
        "node_count": row["node_count"],
        "edge_count": row["edge_count"],
        "nodes_pruned": row["node_count"],
        "edges_pruned": row["edge_count"],
        "kept": [copy.kept() for copy in copies if not copy.goes],
        "remaining": remaining,
    }
    return answer | {"next_cursor": Cursor(place).encode(call.scope, question)} if remaining else answer


async def _fitting(
    session: TenantSession, by_ranges: Reader, terms: Mapping[str, Any], page: Mapping[str, int]
) -> Mapping[str, Any]:
    """What fits, looked for among what may fit unless that is much: then everything is looked at."""
    soon = terms["unseen_since"] + timedelta(hours=1)
    rows = await by_ranges(
        CANDIDATES, **{**terms, "unseen_since": soon.replace(minute=0, second=0, microsecond=0)}, most=_IN_RANGE + 1
    )
    ids, triples = ([one for row in rows for one in row[kind]] for kind in ("nodes", "edges"))
    largest = max(len(row[kind]) for row in rows for kind in ("nodes", "edges"))
    if largest > _IN_RANGE or len(ids) + len(triples) > _CANDIDATES:
        return (await session.read(FITTING, **terms, **page))[0]
    return (await session.read(FITTING_OF_THESE, **terms, **page, ids=ids, triples=triples))[0]


def _places(call: Call, arguments: PruneInput, question: Mapping[str, Any]) -> tuple[int, int]:
    if not arguments.cursor:
        return 0, 0
    position = Cursor.decode(arguments.cursor, call.scope, question, (float, float)).position
    if not all(isinstance(place, int) and 0 <= place < _PLACES for place in position):
        raise InvalidInput("cursor is not one that this tool gave out; start again without it", field="cursor")
    return position[0], position[1]


def _node(node: Sequence[Any]) -> Json:
    id_, kind, name, confidence, last_seen, edge_count = node
    found = {"id": id_, "type": kind, "name": name, "confidence": confidence, "last_seen": last_seen}
    return {**found, "edge_count": edge_count}


def _edge(edge: Sequence[Any]) -> Json:
    return {"from": edge[0], "to": edge[2], "type": edge[1], "weight": edge[3]}


def _executed(going: Going, aliases: int, left: int) -> Json:
    others = set(going.aliases)
    gone = {copy.id: copy.type for copy in going.copies if copy.goes}
    nodes = [{"action": "deleted_node", "id": id_, "type": kind} for id_, kind in sorted(gone.items())]
    edges = [
        {"action": "deleted_edge", "from": source, "to": target, "type": verb}
        for source, verb, target in sorted(going.relations())
    ]
    return {
        "mode": "executed",
        "nodes_pruned": len(gone.keys() - others),
        "edges_pruned": len(edges),
        "aliases_pruned": aliases + len(gone.keys() & others),
        "details": [*nodes[: fitting(nodes, _ROOM)], *edges[: fitting(edges, _ROOM)]],
        "kept": [copy.kept() for copy in going.copies if not copy.goes],
        "remaining": left,
    }


def _summary(ids: Sequence[str], going: Going) -> str:
    entities, relations = counted(len(ids), "entity", "entities"), counted(len(going.relations()), "relation")
    return f"pruned {entities} and {relations}"

"""``graph_query``: what stands around named entities.

One statement finds the named entities and the relations around them, one more reads what is shown. A name that is
neither an id nor an alias costs a look-up by its words, and a project context one more statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.contract import Call, Cursor
from app.graph.identity import entity_id
from app.graph.lookup import Resolution, resolve
from app.graph.vocabulary import type_name
from app.memory.past.view import view
from app.memory.queries import AFFINITY, DETAILS
from app.memory.ranking import Affinity, Link, Place, ancestors, ranked
from app.memory.schemas import QueryInput
from app.memory.shapes import ANSWER_CHARACTERS, edge_shape, entity_of, fitting, node_shape, relation_of
from app.settings import MemorySettings
from app.store.database import Database, TenantSession

__all__ = ["query"]

_NEAR: Final = 2
"""Hops that the cheaper statement covers."""
_WIDTH: Final = 300
"""Ends of a hop from which the next one goes on, the strongest."""
_MOST: Final = 3_000
"""Relations of one hop, the strongest."""
_EDGES: Final = 400
"""Relations shown on one page."""


@dataclass(slots=True)
class _Start:
    """The named entities."""

    ids: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)
    ambiguous: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class _Around:
    """The neighbourhood, ranked."""

    links: list[Link] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    truncated: bool = False
    project: str | None = None


async def query(database: Database, call: Call, arguments: QueryInput, memory: MemorySettings) -> Mapping[str, Any]:
    """Answer ``graph_query``.

    Raises:
        InvalidInput: a blank name, or a cursor of another question.
        CallError: what the store raises.
    """
    question = arguments.model_dump(exclude={"cursor", "layers"})
    after = None
    if arguments.cursor:
        after = Cursor.decode(arguments.cursor, call.scope, question, (float, float, str)).position
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    start, rows = await _start(session, arguments)
    if not start.ids:
        return _nothing(start, arguments.context_level)
    around = await _around(session, arguments, memory, start, rows)
    answer, last = await _page(session, arguments, start, around, after)
    if last is not None:
        answer["next_cursor"] = Cursor(last).encode(call.scope, question)
    return answer


async def _start(session: TenantSession, arguments: QueryInput) -> tuple[_Start, Mapping[str, Any]]:
    names = list(dict.fromkeys(arguments.entities))
    slugs = {name: entity_id(name) for name in names}
    rows = await _neighbourhood(session, arguments, sorted(set(slugs.values())))
    exact = {seed["start"]: seed["ids"] for seed in rows["seeds"]}
    start = _Start()
    lost = []
    for name in names:
        ids = exact.get(slugs[name], [])
        if len(ids) == 1:
            start.ids.append(ids[0])
        else:
            lost.append(name)
    if lost:
        before = set(start.ids)
        found = await resolve(session.read, lost)
        _place_lost(start, lost, found)
        if set(start.ids) != before:
            rows = await _neighbourhood(session, arguments, sorted(set(start.ids)))
            _drop_unseen(start, found, rows)
    start.ids = sorted(set(start.ids))
    return start, rows


def _place_lost(start: _Start, lost: Sequence[str], found: Mapping[str, Resolution]) -> None:
    for name in lost:
        resolution = found[name]
        if resolution.id is not None:
            start.ids.append(resolution.id)
        elif resolution.candidates:
            candidates = [{"id": one.id, "name": one.name, "type": one.type} for one in resolution.candidates]
            start.ambiguous.append({"name": name, "candidates": candidates})
        else:
            start.not_found.append(name)


def _drop_unseen(start: _Start, found: Mapping[str, Resolution], rows: Mapping[str, Any]) -> None:
    """Names are looked up in the present: what was not known at the moment that is looked at was not found."""
    seen = {id_ for seed in rows["seeds"] for id_ in seed["ids"]}
    start.not_found += [name for name, resolution in found.items() if resolution.id and resolution.id not in seen]
    start.ids = [id_ for id_ in start.ids if id_ in seen]


async def _neighbourhood(session: TenantSession, arguments: QueryInput, starts: list[str]) -> Mapping[str, Any]:
    seen = view(arguments.as_of, arguments.as_of_basis)
    rows = await session.read(
        seen.neighbourhood if arguments.max_hops <= _NEAR else seen.wide,
        **seen.parameters,
        starts=starts,
        hops=arguments.max_hops,
        current_only=arguments.current_only,
        min_weight=arguments.min_weight,
        most=_MOST,
        width=_WIDTH,
    )
    return rows[0]


async def _around(
    session: TenantSession, arguments: QueryInput, memory: MemorySettings, start: _Start, rows: Mapping[str, Any]
) -> _Around:
    triples = {(source, verb, target): weight for hop in rows["hops"] for source, verb, target, weight in hop}
    around = _Around(
        truncated=any(len(hop) >= _MOST for hop in rows["hops"])
        or any(len(front) >= _WIDTH for front in rows["fronts"])
    )
    affinity = Affinity()
    if arguments.project_context is not None:
        among = sorted({end for source, _, target in triples for end in (source, target)})
        around.project, affinity = await _affinity(session, arguments.project_context, among, memory)
    around.links = [
        Link(source, verb, target, weight, affinity.of(source, target))
        for (source, verb, target), weight in sorted(triples.items())
    ]
    around.places = ranked(start.ids, around.links, arguments.max_hops)
    return around


async def _affinity(
    session: TenantSession, context: str, among: list[str], memory: MemorySettings
) -> tuple[str | None, Affinity]:
    place = context.strip().replace("\\", "/").rstrip("/").lower()
    rows = await session.read(AFFINITY, id=entity_id(context), place=place, among=among, width=_WIDTH)
    found = rows[0]
    project = found["projects"][0] if found["projects"] else None
    near, far = frozenset(found["near"]), frozenset(found["far"])
    return project, Affinity(near, far, memory.affinity_near, memory.affinity_far)


async def _page(
    session: TenantSession,
    arguments: QueryInput,
    start: _Start,
    around: _Around,
    after: tuple[Any, ...] | None,
) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    rest = [place for place in around.places if after is None or place.key > after]
    level, typed = arguments.context_level, arguments.entity_types is not None
    chosen = await _of_types(session, arguments, rest) if typed else rest[: arguments.limit]
    links = _links(around, chosen, typed=typed)
    shown_links = [] if level == "minimal" else links[:_EDGES]
    nodes, edges = await _read(session, arguments, chosen, shown_links, brief=level != "full")
    shown = [_node(nodes[place.id], place, level) for place in chosen if place.id in nodes]
    fits = fitting(shown, ANSWER_CHARACTERS // 2)
    if fits < len(shown):
        ids = {node["id"] for node in shown[:fits]}
        chosen = [place for place in chosen if place.id in ids]
        links = _links(around, chosen, typed=typed)
    more = bool(chosen) and chosen[-1].key < rest[-1].key
    answer: dict[str, Any] = {
        "found": True,
        "nodes": shown[:fits],
        "seeds": start.ids,
        "not_found": start.not_found,
        "ambiguous": start.ambiguous,
        "truncated": around.truncated or len(links) > _EDGES,
    }
    if arguments.project_context is not None:
        answer["project"] = around.project
    if level == "minimal":
        answer["edge_count"] = len(links)
    else:
        answer["edges"] = _edges(links, edges)
    if level == "full":
        answer["source_files"] = sorted({node["source_file"] for node in shown[:fits] if node.get("source_file")})
    return answer, chosen[-1].key if more else None


async def _of_types(session: TenantSession, arguments: QueryInput, rest: Sequence[Place]) -> list[Place]:
    """The places of this page whose entities are of the types asked for."""
    types = {type_name(name) for name in arguments.entity_types or ()}
    chosen: list[Place] = []
    for first in range(0, len(rest), _WIDTH):
        part = rest[first : first + _WIDTH]
        nodes, _ = await _read(session, arguments, part, [], brief=True)
        chosen += [place for place in part if place.id in nodes and nodes[place.id]["type"] in types]
        if len(chosen) >= arguments.limit:
            break
    return chosen[: arguments.limit]


async def _read(
    session: TenantSession, arguments: QueryInput, places: Sequence[Place], links: Sequence[Link], *, brief: bool
) -> tuple[dict[str, dict[str, Any]], dict[tuple[str, ...], dict[str, Any]]]:
    """Merged entities by id and merged relations by triple, in one round trip."""
    row = (
        await session.read(
            DETAILS, ids=[place.id for place in places], triples=[list(link.triple) for link in links], brief=brief
        )
    )[0]
    nodes = {node["id"]: entity_of(node["copies"]) for node in row["nodes"]}
    seen = view(arguments.as_of, arguments.as_of_basis)
    edges = {tuple(edge["triple"]): relation_of(edge["triple"], seen.copies(edge["copies"])) for edge in row["edges"]}
    return nodes, edges


def _links(around: _Around, chosen: Sequence[Place], *, typed: bool) -> list[Link]:
    """Relations of this page, strongest first: those of its nodes with nodes up to its end.

    Where only some types are shown, those on the way to its nodes, so that the answer says how they hang together.
    """
    if not chosen:
        return []
    page = {place.id for place in chosen}
    kept = ancestors(chosen, {place.id: place for place in around.places})
    if not typed:
        kept |= {place.id for place in around.places if place.key <= chosen[-1].key}
    links = [
        link
        for link in around.links
        if link.source in kept and link.target in kept and (typed or link.source in page or link.target in page)
    ]
    return sorted(links, key=lambda link: (-link.effective, link.triple))


def _edges(links: Sequence[Link], found: Mapping[tuple[str, ...], Mapping[str, Any]]) -> list[dict[str, Any]]:
    edges = [
        edge_shape(found[link.triple], found[link.triple]["weight"] * link.factor)
        for link in links[:_EDGES]
        if link.triple in found
    ]
    edges.sort(key=lambda edge: (-edge["effective_weight"], edge["from"], edge["type"], edge["to"]))
    return edges[: fitting(edges, ANSWER_CHARACTERS // 2)]


def _node(entity: Mapping[str, Any], place: Place, level: str) -> dict[str, Any]:
    if level == "full":
        return node_shape(entity) | {"distance": place.distance}
    shown = {"id": entity["id"], "name": entity["name"], "type": entity["type"], "distance": place.distance}
    return shown | {"confidence": entity["confidence"]} if level == "minimal" else shown


def _nothing(start: _Start, level: str) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "found": False,
        "nodes": [],
        "seeds": [],
        "not_found": start.not_found,
        "ambiguous": start.ambiguous,
        "truncated": False,
    }
    if level == "minimal":
        return answer | {"edge_count": 0}
    return answer | {"edges": []} | ({"source_files": []} if level == "full" else {})

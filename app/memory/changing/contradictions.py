"""``graph_contradictions`` and ``graph_resolve``: what contradicts what, what may do so unseen, how it was decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from app.contract import Call, Cursor, Json
from app.errors import InvalidInput, NotFound
from app.memory.calls import noted, once
from app.memory.changing.found import CONTRADICTS, Candidate, Found, Part, Place, found
from app.memory.changing.queries import HELD, HELD_IN_ALL, RESOLVE, SHOWN
from app.memory.changing.schemas import ContradictionsInput, ResolveInput
from app.memory.ends import certain, read_only, sorted_names
from app.memory.kept import Kept, Reader
from app.memory.shapes import entity_of, fitting, relation_of
from app.memory.timeline import SINGLE_VALUED
from app.store.database import Database, TenantSession, Writing

__all__ = ["contradictions", "resolve"]

_CANDIDATES: Final = 50
_VALUES: Final = 20
"""Values of a candidate that are shown."""
_IN_RANGE: Final = 200
_IN_ALL: Final = 5_000
"""Ends that are looked at here, of what contradicts or may; where there are more the database chooses what is shown."""
_AT_ONCE: Final = 500
"""Ends that are sorted beside nothing else: more of them would keep everybody waiting for milliseconds."""
_ROOM: Final = 20_000
_CLIP: Final = 500
_TEXTS: Final = ("content", "description", "summary")
_ADVICE: Final = "graph_contradictions shows those that are recorded."


async def contradictions(
    kept: Kept, session: TenantSession, call: Call, arguments: ContradictionsInput
) -> Mapping[str, Any]:
    """Answer ``graph_contradictions``, the newest first.

    Raises:
        InvalidInput: a cursor of another question.
        CallError: what the store raises.
    """
    question = arguments.model_dump(exclude={"cursor", "layers"})
    after = None
    if arguments.cursor:
        after = list(Cursor.decode(arguments.cursor, call.scope, question, (str, str, str)).position)
    rules = call.principal.rules
    single = SINGLE_VALUED if rules.single_valued is None else rules.single_valued
    held = await _found(
        kept,
        session,
        [CONTRADICTS, *sorted(single - {CONTRADICTS})],
        Part(arguments.include_resolved, after, arguments.limit + 1, 0 if after else _CANDIDATES, _VALUES),
    )
    shown, doubled = await _read(kept.reader(session), held.places[: arguments.limit], held.candidates)
    fits = fitting([entry for _, entry in shown])
    answer: Json = {
        "contradictions": [entry for _, entry in shown[:fits]],
        "count": held.count,
        "candidates": doubled[: fitting(doubled, _ROOM)],
    }
    if after is None:
        answer["candidate_count"] = held.candidate_count
    if fits < len(shown) or len(held.places) > arguments.limit:
        last = shown[fits - 1][0] if fits < len(shown) else held.places[arguments.limit - 1]
        answer["next_cursor"] = Cursor(tuple(last)).encode(call.scope, question)
    return answer


async def _found(kept: Kept, session: TenantSession, verbs: Sequence[str], part: Part) -> Found:
    """Looked for among what is kept of the ranges, unless that is much."""
    rows = await (await kept.by_ranges(session))(HELD, verbs=verbs, most=_IN_RANGE)
    many = [row["many"] for row in rows]
    if max(many) > _IN_RANGE or sum(many) > _IN_ALL:
        return await _found_in_all(kept.reader(session), verbs, part)
    return found(rows, part) if sum(many) <= _AT_ONCE else await asyncio.to_thread(found, rows, part)


async def _found_in_all(read: Reader, verbs: Sequence[str], part: Part) -> Found:
    row = (
        await read(
            HELD_IN_ALL,
            verbs=verbs,
            include_resolved=part.resolved,
            after=part.after,
            limit=part.limit,
            most=part.candidates,
            width=part.values,
        )
    )[0]
    places = [Place(*place) for place in row["places"]]
    return Found(row["count"], places, row["candidate_count"], [Candidate(*one) for one in row["candidates"]])


async def _read(
    read: Reader, places: Sequence[Place], candidates: Sequence[Candidate]
) -> tuple[list[tuple[Place, Json]], list[Json]]:
    """How they are shown; what has gone meanwhile is left out."""
    if not places and not candidates:
        return [], []
    row = (
        await read(
            SHOWN,
            pairs=[{"source": place.source, "target": place.target} for place in places],
            doubled=[
                {"source": one.source, "relation": one.relation, "targets": list(one.targets)} for one in candidates
            ],
        )
    )[0]
    nodes = {node["id"]: entity_of(node["copies"]) for node in row["nodes"]}
    page = {(copies[0]["source"], copies[0]["target"]): copies for copies in row["page"]}
    shown = [(place, _shown(page[place[1:]], nodes)) for place in places if place[1:] in page]
    values = {(copies[0]["source"], copies[0]["relation"]): copies for copies in row["doubled"]}
    there = [(one, values[one.source, one.relation]) for one in candidates if (one.source, one.relation) in values]
    return shown, [_candidate(one, copies, nodes) for one, copies in there]


async def resolve(database: Database, call: Call, arguments: ResolveInput) -> Mapping[str, Any]:
    """Answer ``graph_resolve``: every copy of the contradiction that may be written is resolved.

    Raises:
        NotFound: the two do not contradict each other.
        InvalidInput: a name fits several entities, or both names one.
        Forbidden: no copy of it may be written.
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)

    async def work(writing: Writing) -> Json:
        one, other = await certain(writing.run, [arguments.from_name, arguments.to_name], _ADVICE)
        if one.id == other.id:
            raise InvalidInput("Both names are one entity, which cannot contradict itself. Nothing was applied.")
        ids = sorted({one.id or "", other.id or ""})
        row = (await writing.run(RESOLVE, ids=ids, resolution=arguments.resolution.strip()))[0]
        shown = f"{arguments.from_name!r} and {arguments.to_name!r}"
        if not row["before"]:
            raise NotFound(f"Nothing says that {shown} contradict each other. {_ADVICE} Nothing was applied.")
        if not row["changed"]:
            raise read_only(f"The contradiction of {shown}", [copy["layer"] for copy in row["before"]])
        await noted(writing, call, f" {CONTRADICTS} ".join(ids), row["changed"])
        return _resolved(row, arguments.resolution.strip())

    return await session.write(work, idempotency=once(call, arguments.idempotency_key))


def _resolved(row: Mapping[str, Any], resolution: str) -> Json:
    changed = set(row["changed"])
    decided = [["resolved", True], ["resolution", resolution]]
    copies = [
        {**copy, "properties": [*copy["properties"], *decided]} if copy["layer"] in changed else copy
        for copy in row["before"]
    ]
    by_id: dict[str, list[Any]] = {}
    for side in row["sides"]:
        by_id.setdefault(dict(side["properties"])["id"], []).append(side)
    nodes = {id_: entity_of(sides) for id_, sides in by_id.items()}
    first = (copies[0]["source"], copies[0]["target"])
    return {
        "action": "resolved",
        "contradiction": _shown([copy for copy in copies if (copy["source"], copy["target"]) == first], nodes),
        "kept_layers": sorted_names([copy["layer"] for copy in copies if copy["layer"] not in changed]),
    }


def _shown(copies: list[Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]]) -> Json:
    """A contradiction; it is resolved once every current copy that the caller sees is."""
    triple = (copies[0]["source"], copies[0]["relation"], copies[0]["target"])
    relation = relation_of(triple, copies)
    held = [relation_of(triple, [copy]) for copy in copies]
    current = [copy for copy in held if not copy.get("invalid_at")] or held
    told = relation.get("description")
    detected = relation.get("detected_date") or relation.get("ingested_at")
    decided = next((copy["resolution"] for copy in current if copy.get("resolution")), None)
    return {
        "node_a": _side(nodes[triple[0]]),
        "node_b": _side(nodes[triple[2]]),
        "description": None if told is None else _clipped(told),
        "detected_date": None if detected is None else str(detected),
        "resolved": all(_truth(copy.get("resolved")) for copy in current),
        "resolution": None if decided is None else _clipped(decided),
        "weight": relation["weight"],
        "layers": relation["layers"],
    }


def _truth(value: Any) -> bool:
    """As the statement reads it: callers may have stored words and numbers here."""
    return value.lower() == "true" if isinstance(value, str) else isinstance(value, int) and value != 0


def _side(entity: Mapping[str, Any]) -> Json:
    text = next((entity[name] for name in _TEXTS if isinstance(entity.get(name), str) and entity[name]), None)
    return {**_named(entity), "content": None if text is None else _clipped(text)}


def _named(entity: Mapping[str, Any]) -> Json:
    return {"id": entity["id"], "type": entity["type"], "name": entity["name"]}


def _clipped(value: Any) -> str:
    text = str(value)
    return f"{text[:_CLIP]}…" if len(text) > _CLIP else text


def _candidate(
    candidate: Candidate, copies: Iterable[Mapping[str, Any]], nodes: Mapping[str, Mapping[str, Any]]
) -> Json:
    values = []
    ordered = sorted(copies, key=lambda copy: str(copy["target"]))
    for target, same in groupby(ordered, key=lambda copy: str(copy["target"])):
        relation = relation_of((candidate.source, candidate.relation, target), list(same))
        values.append(
            {
                **_named(nodes[target]),
                "weight": relation["weight"],
                "valid_at": relation.get("valid_at"),
                "layers": relation["layers"],
            }
        )
    # All of them hold now, so they overlap from the moment on at which the second one began to.
    starts = sorted(value["valid_at"] for value in values if value["valid_at"] is not None)
    known = len(starts) == candidate.value_count
    return {
        "entity": _named(nodes[candidate.source]),
        "relation": candidate.relation,
        "values": values,
        "value_count": candidate.value_count,
        "since": starts[1] if known else None,
    }

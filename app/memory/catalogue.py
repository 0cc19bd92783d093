"""``graph_entities``: the catalogue of entities, one of them by id, or those that fit some words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.contract import Call, Cursor
from app.errors import InvalidInput
from app.graph.identity import entity_id
from app.graph.lookup import resolve
from app.graph.search import Hit, text_search
from app.graph.vocabulary import type_name
from app.memory.moments import stored_moment
from app.memory.past.view import View, view
from app.memory.schemas import EntitiesInput
from app.memory.shapes import entity_of, fitting, node_shape
from app.store.database import Database, TenantSession

__all__ = ["entities"]

_HITS: Final = 500
"""Matches of a search that are sorted and paged; the others are only counted."""
_CANDIDATES: Final = 5


async def entities(database: Database, call: Call, arguments: EntitiesInput) -> Mapping[str, Any]:
    """Answer ``graph_entities``.

    Raises:
        InvalidInput: a blank name, one that leads to several entities, a malformed type, or a cursor of another
            question.
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    if arguments.id is not None:
        return await _one(session, view(arguments.as_of, arguments.as_of_basis), arguments.id)
    question = arguments.model_dump(exclude={"cursor", "layers"})
    after = None
    if arguments.cursor:
        after = Cursor.decode(arguments.cursor, call.scope, question, *_forms(arguments)).position
    if arguments.search is not None and arguments.search.strip():
        answer, last = await _searched(session, arguments, after)
    else:
        answer, last = await _listed(session, arguments, after)
    if last is not None:
        answer["next_cursor"] = Cursor(last).encode(call.scope, question)
    return answer


def _forms(arguments: EntitiesInput) -> tuple[tuple[type, ...], ...]:
    """What a position in this list looks like: a number of matches, or the last one's place and id."""
    if arguments.search is not None and arguments.search.strip():
        return ((float,),)
    return ((str if arguments.sort_by == "name" else float, str),)


async def _one(session: TenantSession, seen: View, name: str) -> dict[str, Any]:
    rows = await session.read(seen.entity, id=entity_id(name), **seen.parameters)
    if not rows:
        resolution = (await resolve(session.read, [name], fuzzy=False))[name]
        if resolution.candidates:
            fits = ", ".join(f"{one.name!r} (id {one.id})" for one in resolution.candidates[:_CANDIDATES])
            raise InvalidInput(f"{name!r} fits several entities: {fits}. Ask again with an id.", field="id")
        if resolution.id is not None:
            rows = await session.read(seen.entity, id=resolution.id, **seen.parameters)
    if not rows:
        return {"found": False, "entities": [], "total": 0}
    row = rows[0]
    shown = node_shape(entity_of(row["copies"]), whole=True) | {"edge_count": row["edge_count"]}
    return {"found": True, "entities": [shown], "total": 1}


async def _listed(
    session: TenantSession, arguments: EntitiesInput, after: tuple[Any, ...] | None
) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    sort = arguments.sort_by if arguments.sort_by in {"last_seen", "name"} else "confidence"
    seen = view(arguments.as_of, arguments.as_of_basis)
    rows = await session.read(
        seen.page,
        **seen.parameters,
        type=None if arguments.type is None else type_name(arguments.type),
        min_confidence=arguments.min_confidence,
        sort=sort,
        after=None if after is None else list(after),
        limit=arguments.limit + 1,
    )
    page = rows[0]["page"]
    found = {row["id"]: row for row in rows[0]["rows"]}
    shown = [_row(entity_of(found[id_]["copies"]), found[id_]["edge_count"]) for id_, _ in page[: arguments.limit]]
    fits = fitting(shown)
    answer = _answer(shown[:fits], rows[0]["total"], rows[0]["everything"])
    return answer, tuple(reversed(page[fits - 1])) if fits < len(page) else None


async def _searched(
    session: TenantSession, arguments: EntitiesInput, after: tuple[Any, ...] | None
) -> tuple[dict[str, Any], tuple[Any, ...] | None]:
    start = _offset(after)
    seen = view(arguments.as_of, arguments.as_of_basis)
    type_ = None if arguments.type is None else type_name(arguments.type)
    matches = await text_search(
        *(session, arguments.search or ""),
        k=_HITS,
        types=() if type_ is None else (type_,),
        min_confidence=arguments.min_confidence or 0.0,
        seen_by=seen.seen_by,
    )
    hits = matches.hits
    page = _sorted(hits, arguments.sort_by)[start : start + arguments.limit]
    every = type_ is None and arguments.min_confidence is None and seen.seen_by is None
    judged = matches.doubtful if every else matches.beyond
    asked: dict[str, Any] = {
        "ids": [hit.entity["id"] for hit in page],
        "beyond": sorted(judged),
        "type": type_,
        "min_confidence": arguments.min_confidence,
    }
    row = (await session.read(seen.picked, **asked, **seen.parameters))[0]
    found = {one["id"]: one for one in row["rows"]}
    shown = [_row(entity_of(found[id_]["copies"]), found[id_]["edge_count"]) for id_ in asked["ids"] if id_ in found]
    fits = fitting(shown)
    total = len(hits) + len(matches.beyond) - len(judged) + row["fitting"]
    answer = _answer(shown[:fits], total, row["everything"])
    return answer, (start + fits,) if start + fits < len(hits) else None


def _offset(after: tuple[Any, ...] | None) -> int:
    if after is None:
        return 0
    if len(after) != 1 or not isinstance(after[0], int) or after[0] < 0:
        raise InvalidInput("cursor is not one that this tool gave out; start again without it", field="cursor")
    return after[0]


def _sorted(hits: Sequence[Hit], sort_by: str | None) -> list[Hit]:
    def newest_first(hit: Hit) -> float:
        seen = stored_moment(hit.entity.get("last_seen"))
        return 0.0 if seen is None else -seen.timestamp()

    if sort_by == "confidence":
        return sorted(hits, key=lambda hit: (-hit.entity["confidence"], hit.entity["id"]))
    if sort_by == "last_seen":
        return sorted(hits, key=lambda hit: (newest_first(hit), hit.entity["id"]))
    if sort_by == "name":
        return sorted(hits, key=lambda hit: (hit.entity["name"].lower(), hit.entity["id"]))
    return list(hits)


def _row(entity: Mapping[str, Any], edge_count: int) -> dict[str, Any]:
    return node_shape(entity) | {"edge_count": edge_count}


def _answer(shown: Sequence[Mapping[str, Any]], total: int, everything: int) -> dict[str, Any]:
    return {"found": bool(shown), "entities": list(shown), "total": total, "total_entities": everything}

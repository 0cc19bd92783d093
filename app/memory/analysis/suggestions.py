"""``graph_merge_suggestions``: pairs of entities that may be one, from their vectors and from their names.

Candidates come from vectors (each with each while there are few, else through the tenant's part of the index) and from
names; then the neighbours of all candidates are read at once. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.contract import Call, Cursor
from app.embedding.provider import Embedder
from app.errors import InvalidInput
from app.graph.candidates import FEW_VECTORS
from app.graph.lookup import resolve
from app.graph.vocabulary import type_name
from app.memory.analysis.clock import Clock, in_thread
from app.memory.analysis.likeness import (
    Around,
    Named,
    Pair,
    beside_name,
    jaccard,
    named_of,
    pairs_by_name,
    pairs_by_vector,
)
from app.memory.analysis.queries import (
    COMPARABLE,
    MEMBERS,
    NAMED,
    NAMED_BESIDE,
    NAMED_OF_TYPE,
    NEAR_EACH,
    NEIGHBOURS,
    PAIRED,
    SCOPED,
    VECTORS,
)
from app.memory.analysis.schemas import SuggestionsInput, Weights
from app.memory.shapes import fitting
from app.store.database import Database, TenantSession

__all__ = ["suggestions"]

SCALE: Final = "(1+cosine)/2"

_SEEDS: Final = 500
"""Entities whose nearest one call looks for; ``next_cursor`` goes on with the next."""
_AT_ONCE: Final = 20
_WIDTH: Final = 10
_NEAREST: Final = 20
"""What the index is asked for, so that the first ten are among it."""
_NAMES: Final = 50_000
_BY_NAME: Final = 1_000
_PAIRS: Final = 2_000
_NEIGHBOURS: Final = 2_000
_SHARED: Final = 10
_CLIP: Final = 120
_SECONDS: Final = 8.0
"""Longest time for the vectors of one call; the cursor goes on where it ended."""
_NARROWER: Final = "ask for one entity_type, or for one entity_id"
_NO_MODEL: Final = "Without an embedding model: candidates by name alone, and embedding_similarity counts as 0."


@dataclass(slots=True)
class _Scope:
    """Which pairs are looked for."""

    id: str | None
    type: str | None
    recipe: str | None
    seeds: list[str]
    """Whose nearest this call looks for."""
    few: bool
    last: bool


async def suggestions(
    database: Database, embedder: Embedder, call: Call, arguments: SuggestionsInput
) -> Mapping[str, Any]:
    """Answer ``graph_merge_suggestions``.

    Raises:
        InvalidInput: an ambiguous name, a malformed type, a cursor of another question.
        CallError: what the store raises.
    """
    question = arguments.model_dump(exclude={"cursor", "layers", "limit"})
    after, start = "", 0
    if arguments.cursor:
        after, start = Cursor.decode(arguments.cursor, call.scope, question, (str, float)).position
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    recipe = embedder.identity.key if embedder.identity else None
    scope = await _scope(session, arguments, recipe, after)
    if scope is None:
        return _answer(arguments, [], 0, _unknown(arguments))
    start = max(0, int(start))
    near, reached = await _by_vector(session, call, scope, arguments)
    rows = await _names(session, scope)
    named, by_name = await in_thread(Clock(call.deadline, _NARROWER), _by_name, rows[:_NAMES], scope)
    cut = len(rows) > _NAMES or len(by_name) > _BY_NAME
    by_name = by_name[:_BY_NAME]
    near |= await _compared(session, scope, [pair for pair in by_name if pair not in near])
    pairs = sorted({*near, *by_name}, key=lambda pair: (-near.get(pair, 0.0), pair))
    cut, pairs = cut or len(pairs) > _PAIRS, pairs[:_PAIRS]
    around = await _around(session, pairs, named)
    scored = await in_thread(Clock(call.deadline, _NARROWER), _scored, scope, pairs, near, named, around, arguments)
    answer = _answer(arguments, scored[start:], len(pairs), None if recipe else _NO_MODEL) | {"truncated": cut}
    end = start + len(answer["suggestions"])
    if end < len(scored):
        answer["next_cursor"] = Cursor((after, end)).encode(call.scope, question)
    elif reached is not None:
        answer["next_cursor"] = Cursor((reached, 0)).encode(call.scope, question)
    return answer


async def _scope(session: TenantSession, arguments: SuggestionsInput, recipe: str | None, after: str) -> _Scope | None:
    id_, type_ = None, None if arguments.entity_type is None else type_name(arguments.entity_type)
    if arguments.entity_id is not None:
        found = (await resolve(session.read, [arguments.entity_id], fuzzy=False))[arguments.entity_id]
        if found.candidates:
            raise InvalidInput(
                f"{arguments.entity_id[:_CLIP]!r} fits several entities; ask again with the id of one of them: "
                f"{', '.join(one.id for one in found.candidates[:10])}.",
                field="entity_id",
            )
        if found.id is None or (type_ is not None and found.type != type_):
            return None
        id_, type_ = found.id, found.type
    few = (await session.read(COMPARABLE, recipe=recipe or "", few=FEW_VECTORS))[0]["held"] <= FEW_VECTORS
    seeds = [id_] if id_ else (await session.read(SCOPED, type=type_, after=after, limit=_SEEDS + 1))[0]["seeds"]
    return _Scope(id_, type_, recipe, seeds[:_SEEDS], few, few or len(seeds) <= _SEEDS)


async def _by_vector(
    session: TenantSession, call: Call, scope: _Scope, arguments: SuggestionsInput
) -> tuple[dict[Pair, float], str | None]:
    """Pairs whose texts are alike, and the last seed if there are more to look at."""
    least = arguments.min_embedding_similarity
    last = None if scope.last or not scope.seeds else scope.seeds[-1]
    if scope.recipe is None:
        return {}, last
    if scope.few:
        rows = await session.read(VECTORS, recipe=scope.recipe, type=scope.type, few=FEW_VECTORS)
        return pairs_by_vector(rows[0]["rows"], frozenset([scope.id]) if scope.id else None, least, _WIDTH), None
    found: dict[Pair, float] = {}
    until = call.deadline.sooner(min(_SECONDS, call.deadline.remaining() / 2))
    for start in range(0, len(scope.seeds), _AT_ONCE):
        part = scope.seeds[start : start + _AT_ONCE]
        for row in await session.read(
            NEAR_EACH, ids=part, recipe=scope.recipe, nearest=_NEAREST, least=least, width=_WIDTH
        ):
            for other, near in row["found"]:
                pair = (row["id"], other) if row["id"] < other else (other, row["id"])
                found[pair] = max(near, found.get(pair, 0.0))
        await call.progress(start + len(part), len(scope.seeds), "entities compared")
        if until.passed and part[-1] != scope.seeds[-1]:
            return found, part[-1]
    return found, last


async def _names(session: TenantSession, scope: _Scope) -> list[Sequence[Any]]:
    """Who may have a name like one in the scope, and one more than are compared if there are more."""
    most = _NAMES + 1
    if scope.id is not None:
        found = await session.read(NAMED_BESIDE, id=scope.id, most=most)
    elif scope.type is not None:
        found = await session.read(NAMED_OF_TYPE, type=scope.type, most=most)
    else:
        found = await session.read(NAMED, most=most)
    rows: list[Sequence[Any]] = found[0]["rows"]
    return rows


def _by_name(clock: Clock, rows: Sequence[Sequence[Any]], scope: _Scope) -> tuple[dict[str, Named], list[Pair]]:
    """What is known of the names in the scope, by id, and the pairs that are alike; one more than are looked at."""
    if scope.id is not None:
        rows = beside_name(clock, rows, scope.id)
    named = named_of(clock, rows)
    seeds = None if scope.id is None and scope.few else frozenset(scope.seeds)
    return {entity.id: entity for entity in named}, pairs_by_name(clock, named, seeds, _BY_NAME + 1)


async def _compared(session: TenantSession, scope: _Scope, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """How near the texts are of pairs that came by name."""
    if scope.recipe is None or not pairs:
        return {}
    rows = await session.read(PAIRED, pairs=[{"source": one, "target": two} for one, two in pairs], recipe=scope.recipe)
    return {(one, two): near for one, two, near in rows[0]["rows"]}


async def _around(session: TenantSession, pairs: Sequence[Pair], named: dict[str, Named]) -> Around:
    """What stands around the members of the pairs; those that were not read yet are added to ``named``."""
    if not pairs:
        return Around({})
    ids = sorted({id_ for pair in pairs for id_ in pair})
    row = (await session.read(NEIGHBOURS, ids=ids, most=_NEIGHBOURS))[0]
    lost = [id_ for id_ in ids if id_ not in named]
    for found in await session.read(MEMBERS, ids=lost) if lost else []:
        named.update((id_, Named.of(id_, name, type_, ())) for id_, name, type_ in found["rows"])
    return Around(
        {id_: frozenset((other, relation) for other, relation in beside) for id_, beside in row["sets"]},
        dict(row["degrees"]),
    )


def _scored(
    clock: Clock,
    scope: _Scope,
    pairs: Sequence[Pair],
    near: Mapping[Pair, float],
    named: Mapping[str, Named],
    around: Around,
    arguments: SuggestionsInput,
) -> list[dict[str, Any]]:
    scored = []
    for pair in pairs:
        clock.check()
        types = {named[id_].type for id_ in pair if id_ in named}
        if all(id_ in named for id_ in pair) and len(types) == 1 and scope.type in {None, *types}:
            scored.append(_suggestion(pair, near.get(pair), named, around, arguments.weights))
    kept = [entry for entry in scored if entry["score"] >= arguments.min_score]
    return sorted(kept, key=lambda entry: (-entry["score"], entry["entity_a"]["id"], entry["entity_b"]["id"]))


def _suggestion(
    pair: Pair, near: float | None, known: Mapping[str, Named], around: Around, weights: Weights
) -> dict[str, Any]:
    one, two = known[pair[0]], known[pair[1]]
    beside, called = around.likeness(pair), jaccard(one.tokens, two.tokens)
    score = weights.embedding * (near or 0.0) + weights.neighbor_jaccard * beside + weights.name * called
    shared = around.shared(pair)
    return {
        "entity_a": _entity(one, around.of(*pair)),
        "entity_b": _entity(two, around.of(pair[1], pair[0])),
        "score": round(score, 4),
        "signals": {
            "embedding_similarity": round(near or 0.0, 4),
            "cosine": None if near is None else round(2.0 * near - 1.0, 4),
            "name_similarity": round(called, 4),
            "neighbor_jaccard": round(beside, 4),
            "shared_neighbors": shared[:_SHARED],
            "shared_count": len(shared),
        },
        "recommended_action": "review",
    }


def _entity(entity: Named, beside: frozenset[tuple[str, str]]) -> dict[str, Any]:
    return {"id": entity.id, "name": entity.name[:_CLIP], "type": entity.type, "edge_count": len(beside)}


def _unknown(arguments: SuggestionsInput) -> str:
    return f"No entity fits {(arguments.entity_id or '')[:_CLIP]!r}; graph_entities finds names."


def _answer(
    arguments: SuggestionsInput, scored: Sequence[dict[str, Any]], evaluated: int, note: str | None
) -> dict[str, Any]:
    shown = list(scored[: arguments.limit])
    scope = {"entity_id": arguments.entity_id, "entity_type": arguments.entity_type}
    named = {key: value for key, value in scope.items() if value is not None}
    answer: dict[str, Any] = {
        "suggestions": shown[: fitting(shown)] if shown else [],
        "total_pairs_evaluated": evaluated,
        "threshold_used": arguments.min_score,
        "scope": {**named, "global": not named},
        "scale": SCALE,
    }
    return answer | ({"note": note} if note else {})

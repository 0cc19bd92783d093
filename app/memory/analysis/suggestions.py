"""``graph_merge_suggestions``: pairs of entities that may be one, from their vectors and from their names.

Candidates come from vectors (each with each while there are not too many, else through the tenant's part of the index)
and from names; then the neighbours are read of those that may reach the score. Nothing is written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
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
)
from app.memory.analysis.nearness import Compared
from app.memory.analysis.queries import (
    COMPARABLE,
    MEMBERS,
    NAMED,
    NAMED_IN_ONE_LAYER,
    NAMED_OF_TYPE,
    NEAR_EACH,
    NEIGHBOUR_DEGREES,
    NEIGHBOURS,
    PAIRED,
    SCOPED,
    VECTORS,
)
from app.memory.analysis.schemas import SuggestionsInput, Weights
from app.memory.shapes import fitting
from app.store.database import Database, TenantSession
from app.together import together

__all__ = ["suggestions"]


SCALE: Final = "(1+cosine)/2"

_EACH_WITH_EACH: Final = 4_000
"""Vectors up to which each is compared with each, in a third of a second; more are sought through the index."""
_SEEDS: Final = 500
"""Entities whose nearest one call looks for, or more where their pairs have room; ``next_cursor`` goes on."""
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
_SLIP: Final = 1e-9
"""More than the order of adding three numbers can change."""
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
    after: str
    """Behind which id the seeds begin, whose nearest this call looks for."""
    few: bool
    """Whether each is compared with each."""


@dataclass(slots=True)
class _Found:
    """Pairs to look at."""

    near: dict[Pair, float]
    """How near their texts are."""
    by_name: list[Pair]
    named: dict[str, Named]
    reached: str | None
    """The last seed, if there are more to look at."""
    cut: bool
    """Whether there are more names or pairs than were looked at."""


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
    find = _each_with_each if scope.few else _through_the_index
    found = await find(session, call, scope, arguments.min_embedding_similarity)
    near, named = found.near, found.named
    pairs = sorted({*near, *found.by_name}, key=lambda pair: (-near.get(pair, 0.0), pair))
    cut, pairs = found.cut or len(pairs) > _PAIRS, pairs[:_PAIRS]
    await _members(session, pairs, named)
    promising = [pair for pair in pairs if _may_reach(pair, near, named, scope, arguments)]
    around = await _around(session, promising)
    scored = await in_thread(Clock(call.deadline, _NARROWER), _scored, promising, near, named, around, arguments)
    reached = found.reached
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
    few = FEW_VECTORS if id_ else _EACH_WITH_EACH
    held = (await session.read(COMPARABLE, recipe=recipe or "", type=type_, few=few))[0]["held"]
    return _Scope(id_, type_, recipe, after, held <= few)


async def _each_with_each(session: TenantSession, call: Call, scope: _Scope, least: float) -> _Found:
    """Pairs of all vectors and names; where they are too many for one call, those of the first seeds."""
    (named, by_name, many), compared = await together(
        _by_name(session, call, scope, None), _vectors(session, call, scope)
    )
    seeds = [scope.id] if scope.id else sorted(id_ for id_ in {*compared.ids, *named} if id_ > scope.after)
    among = None if scope.id is None and not scope.after else frozenset(seeds)
    near = await in_thread(Clock(call.deadline, _NARROWER), compared.pairs, among, least, _WIDTH)
    clock = Clock(call.deadline, _NARROWER)
    near, by_name, reached = await in_thread(clock, _of_this_call, seeds, scope.after, near, by_name)
    cut = many or len(by_name) > _BY_NAME
    by_name = by_name[:_BY_NAME]
    near |= compared.near(pair for pair in by_name if pair not in near)
    return _Found(near, by_name, named, reached, cut)


async def _vectors(session: TenantSession, call: Call, scope: _Scope) -> Compared:
    if scope.recipe is None:
        return Compared([])
    rows = await session.read(VECTORS, recipe=scope.recipe, type=scope.type, few=_EACH_WITH_EACH)
    return await asyncio.to_thread(Compared, rows[0]["rows"])


def _of_this_call(
    clock: Clock, seeds: Sequence[str], after: str, near: Mapping[Pair, float], by_name: Sequence[Pair]
) -> tuple[dict[Pair, float], list[Pair], str | None]:
    """Of both the pairs whose lesser id is one of the first seeds, and the last of these if more seeds are left.

    The lesser id decides, so that a pair whose two ids belong to two calls is told by the first of them alone.
    """
    near = {pair: value for pair, value in near.items() if pair[0] > after}
    by_name = [pair for pair in by_name if pair[0] > after]
    clock.check()
    kept = _with_room(seeds, near, by_name)
    clock.check()
    if len(kept) == len(seeds):
        return near, by_name, None
    last = kept[-1]
    within = {pair: value for pair, value in near.items() if pair[0] <= last}
    return within, [pair for pair in by_name if pair[0] <= last], last


def _with_room(seeds: Sequence[str], near: Mapping[Pair, float], by_name: Sequence[Pair]) -> Sequence[str]:
    """The first of the seeds, as many as one call can look at the pairs of; never fewer than ``_SEEDS``."""
    named, others = Counter(one for one, _ in by_name), Counter(one for one, _ in near)
    others.subtract(pair[0] for pair in by_name if pair in near)
    by_names = every = 0
    for place, seed in enumerate(seeds):
        by_names += named[seed]
        every += named[seed] + others[seed]
        if place >= _SEEDS and (by_names > _BY_NAME or every > _PAIRS):
            return seeds[:place]
    return seeds


async def _through_the_index(session: TenantSession, call: Call, scope: _Scope, least: float) -> _Found:
    seeds = [scope.id] if scope.id else []
    if not seeds:
        found = await session.read(SCOPED, type=scope.type, after=scope.after, limit=_SEEDS + 1)
        seeds = found[0]["seeds"]
    last = None if len(seeds) <= _SEEDS else seeds[_SEEDS - 1]
    seeds = seeds[:_SEEDS]
    (named, by_name, many), (near, reached) = await together(
        _by_name(session, call, scope, frozenset(seeds)), _nearest(session, call, scope, seeds, least)
    )
    cut = many or len(by_name) > _BY_NAME
    by_name = by_name[:_BY_NAME]
    near |= await _compared(session, scope, [pair for pair in by_name if pair not in near])
    return _Found(near, by_name, named, reached or last, cut)


async def _nearest(
    session: TenantSession, call: Call, scope: _Scope, seeds: Sequence[str], least: float
) -> tuple[dict[Pair, float], str | None]:
    """Pairs whose texts are alike, and the last seed that there was time for if there was not for all."""
    found: dict[Pair, float] = {}
    until = call.deadline.sooner(min(_SECONDS, call.deadline.remaining() / 2))
    for start in range(0, len(seeds), _AT_ONCE):
        part = seeds[start : start + _AT_ONCE]
        for row in await session.read(
            NEAR_EACH, ids=part, recipe=scope.recipe, nearest=_NEAREST, least=least, width=_WIDTH
        ):
            for other, near in row["found"]:
                pair = (row["id"], other) if row["id"] < other else (other, row["id"])
                found[pair] = max(near, found.get(pair, 0.0))
        await call.progress(start + len(part), len(seeds), "entities compared")
        if until.passed and part[-1] != seeds[-1]:
            return found, part[-1]
    return found, None


async def _names(session: TenantSession, scope: _Scope) -> list[Sequence[Any]]:
    """Who may have a name like one in the scope, and one more than are compared if there are more."""
    most = _NAMES + 1
    if scope.type is None:
        found = await session.read(NAMED, most=most)
    else:  # of one entity too: only two of one type are a pair
        statement = NAMED_IN_ONE_LAYER if len(session.scope.layers) == 1 else NAMED_OF_TYPE
        found = await session.read(statement, type=scope.type, most=most)
    rows: list[Sequence[Any]] = found[0]["rows"]
    return rows


async def _by_name(
    session: TenantSession, call: Call, scope: _Scope, seeds: frozenset[str] | None
) -> tuple[dict[str, Named], list[Pair], bool]:
    """What is known of names, by id; the pairs that are alike, of ``seeds`` or else of all behind the scope's start;
    whether there are more names. Of more pairs than are looked at all come where each is compared with each."""
    rows = await _names(session, scope)
    named, pairs = await in_thread(Clock(call.deadline, _NARROWER), _alike, rows[:_NAMES], scope, seeds)
    return named, pairs, len(rows) > _NAMES


def _alike(
    clock: Clock, rows: Sequence[Sequence[Any]], scope: _Scope, seeds: frozenset[str] | None
) -> tuple[dict[str, Named], list[Pair]]:
    if scope.id is not None:
        rows, seeds = beside_name(clock, rows, scope.id), frozenset([scope.id])
    named = named_of(clock, rows)
    if seeds is None and scope.after:
        seeds = frozenset(entity.id for entity in named if entity.id > scope.after)
    most = None if scope.few else _BY_NAME + 1  # how many seeds have room is counted over all pairs
    return {entity.id: entity for entity in named}, pairs_by_name(clock, named, seeds, most)


async def _compared(session: TenantSession, scope: _Scope, pairs: Sequence[Pair]) -> dict[Pair, float]:
    """How near the texts are of pairs that came by name."""
    if scope.recipe is None or not pairs:
        return {}
    rows = await session.read(PAIRED, pairs=[{"source": one, "target": two} for one, two in pairs], recipe=scope.recipe)
    return {(one, two): near for one, two, near in rows[0]["rows"]}


async def _members(session: TenantSession, pairs: Sequence[Pair], named: dict[str, Named]) -> None:
    """Add those members of pairs to ``named`` that were not read yet."""
    lost = sorted({id_ for pair in pairs for id_ in pair} - named.keys())
    for found in await session.read(MEMBERS, ids=lost) if lost else []:
        named.update((id_, Named.of(id_, name, type_, ())) for id_, name, type_ in found["rows"])


def _may_reach(
    pair: Pair, near: Mapping[Pair, float], named: Mapping[str, Named], scope: _Scope, arguments: SuggestionsInput
) -> bool:
    """Whether the two are of one type that is looked for, and reach the score if they share all their neighbours."""
    one, two = named.get(pair[0]), named.get(pair[1])
    if one is None or two is None or one.type != two.type or scope.type not in {None, one.type}:
        return False
    weights = arguments.weights
    without = weights.embedding * near.get(pair, 0.0) + weights.name * jaccard(one.tokens, two.tokens)
    return round(without + weights.neighbor_jaccard + _SLIP, 4) >= arguments.min_score


async def _around(session: TenantSession, pairs: Sequence[Pair]) -> Around:
    """What stands around the members of the pairs; degrees only where two share a neighbour."""
    if not pairs:
        return Around({})
    ids = sorted({id_ for pair in pairs for id_ in pair})
    rows = (await session.read(NEIGHBOURS, ids=ids, most=_NEIGHBOURS))[0]["sets"]
    around = Around({id_: frozenset((other, relation) for other, relation in beside) for id_, beside in rows})
    sharing = {id_ for pair in pairs if around.of(*pair) & around.of(pair[1], pair[0]) for id_ in pair}
    beside = sorted({other for id_ in sharing for other, _ in around.sets[id_]})
    if not beside:
        return around
    return Around(around.sets, dict((await session.read(NEIGHBOUR_DEGREES, ids=beside))[0]["degrees"]))


def _scored(
    clock: Clock,
    pairs: Sequence[Pair],
    near: Mapping[Pair, float],
    named: Mapping[str, Named],
    around: Around,
    arguments: SuggestionsInput,
) -> list[dict[str, Any]]:
    scored = []
    for pair in pairs:
        clock.check()
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

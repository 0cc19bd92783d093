"""Hybrid search: text, vectors and the graph, fused by reciprocal rank (design §9, partition rules 20 and 21)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.embedding.provider import Embedder
from app.errors import InvalidInput
from app.graph.candidates import Candidates, Details, details, find, outlines
from app.graph.merge import merged_entity
from app.graph.rank import POOL, Lists, Place, best, fused, ordered, text_scores
from app.store.database import TenantSession

__all__ = ["Hit", "Matches", "SearchAnswer", "SearchOptions", "search", "text_search"]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search. ``min_cosine`` wins over ``min_similarity``; the latter is on the (1 + cosine) / 2 scale."""

    k: int = 10
    types: tuple[str, ...] = ()
    min_similarity: float | None = None
    min_cosine: float | None = None
    explain: bool = False
    seen_by: datetime | None = None
    """Only what was known at this moment."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A merged entity (``merge.merged_entity``), its place and why it stands there."""

    entity: dict[str, Any]
    rank: int
    similarity: float | None
    """Cosine with the query; None where no vector was compared."""
    score: float | None
    """The same as (1 + cosine) / 2."""
    fused: float
    """What the order is by; comparable within one answer only."""
    why: dict[str, Any] = field(default_factory=dict)
    """With ``explain``: rank and value in each list that led to this hit."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Hits, best first; ``beyond`` are ids of what holds the words too but was not read, of any type and confidence."""

    hits: list[Hit]
    beyond: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    """Those of ``beyond`` to which a name leads: what an alias leads to may be gone, all others are there."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Hits, best first. ``mode``: ``hybrid``, or ``text`` with ``note`` saying why there were no vectors."""

    hits: list[Hit]
    mode: str
    note: str | None = None
    explain: dict[str, Any] = field(default_factory=dict)


async def search(session: TenantSession, embedder: Embedder, query: str, options: SearchOptions) -> SearchAnswer:
    """Search the readable layers: text and vectors at once, then the candidates' details; one embedding.

    Without a model, or when it fails, text and graph alone answer and ``note`` says so.

    Raises:
        InvalidInput: a blank query.

    """
    _check(query)
    if not session.scope.layers:
        return SearchAnswer([], "text")
    found = await find(session, embedder, query, k=options.k, types=options.types)
    hits = await _ranked(session, found, options)
    explain: dict[str, Any] = {}
    if options.explain:
        explain = {
            "terms": found.terms,
            "frequent_terms": found.frequent,
            "named": sorted(found.named),
            "vectors": None if found.vectors is None else "exact" if found.exact else "index",
        }
    return SearchAnswer(hits, "text" if found.vectors is None else "hybrid", found.note, explain)


async def text_search(
    session: TenantSession,
    query: str,
    *,
    k: int = 10,
    types: Sequence[str] = (),
    min_confidence: float = 0.0,
    seen_by: datetime | None = None,
) -> Matches:
    """Text and names alone, for lists: byte-equal whatever others write. Of an entity only what :func:`outlines` reads.

    Raises:
        InvalidInput: a blank query.

    """
    _check(query)
    if not session.scope.layers:
        return Matches([])
    found = await find(session, None, query, k=k, types=types)
    hits = await _ranked(session, found, SearchOptions(k=k, types=tuple(types), seen_by=seen_by), beside=False)
    hits = [hit for hit in hits if hit.entity["confidence"] >= min_confidence]
    every = found.named.union(found.together, *found.sets.values())
    if len(every) <= k:
        return Matches(hits)
    beyond = every.difference(hit.entity["id"] for hit in hits)
    return Matches(hits, beyond, beyond & found.named)


def _check(query: str) -> None:
    if not query.strip():
        raise InvalidInput("query must not be blank; say in words what you look for", field="query")


async def _ranked(
    session: TenantSession, found: Candidates, options: SearchOptions, *, beside: bool = True
) -> list[Hit]:
    depth = max(POOL, options.k)
    first = Lists(text_scores(found.sets, {}, found.together), found.vectors or {}, found.named, depth)
    pool = [id_ for id_, _ in best(fused(first), depth)]
    if not pool:
        return []
    if beside:
        known = await details(session, found, pool, options.types, seen_by=options.seen_by)
    else:
        known = await outlines(session, found, pool, seen_by=options.seen_by)
    frequent = {term: [id_ for id_, one in known.items() if term in one.holds] for term in found.frequent}
    lists = Lists(text_scores(found.sets, frequent, found.together), first.vector, found.named, depth)
    base = fused(lists)
    places = {
        id_: Place(one.thread, one.position, frozenset(one.linked)) if beside else Place()
        for id_, one in known.items()
        if beside or id_ in base
    }
    order = ordered(base, places, found.named)
    least = _least(options)
    hits: list[Hit] = []
    for id_, value in order:
        one = known[id_]
        entity = merged_entity(one.copies)
        if (options.types and entity["type"] not in options.types) or value <= 0.0:
            continue
        if least is not None and one.similarity is not None and one.similarity < least and id_ not in found.named:
            continue
        hits.append(_hit(entity, one, len(hits) + 1, value, _why(id_, lists, one) if options.explain else {}))
        if len(hits) == options.k:
            break
    return hits


def _least(options: SearchOptions) -> float | None:
    if options.min_cosine is not None:
        return options.min_cosine
    return None if options.min_similarity is None else 2.0 * options.min_similarity - 1.0


def _hit(entity: dict[str, Any], one: Details, rank: int, value: float, why: dict[str, Any]) -> Hit:
    similarity = one.similarity
    score = None if similarity is None else round((1.0 + similarity) / 2.0, 6)
    return Hit(entity, rank, similarity, score, value, why)


def _why(id_: str, lists: Lists, one: Details) -> dict[str, Any]:
    ranks = lists.ranks()
    why: dict[str, Any] = {}
    for path, scores in (("text", lists.text), ("vector", lists.vector)):
        if id_ in ranks[path]:
            why[path] = {"rank": ranks[path][id_], "value": round(scores[id_], 6)}
    if id_ in lists.named:
        why["name"] = {"rank": 1}
    if one.linked:
        why["related_to"] = sorted(one.linked)
    if not why:
        why["beside"] = "stands next to a hit in its conversation"
    return why

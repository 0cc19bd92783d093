"""What a search considers: match sets of terms, names that the query holds, nearest vectors, and their details."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from app.embedding.provider import Embedder
from app.errors import DeadlineExceeded, EmbeddingUnavailable, InvalidInput, Overloaded
from app.graph.identity import entity_id
from app.graph.queries import DETAILS, NEAREST, OUTLINES, TEXT, WHOLE_SET
from app.graph.text import plain_tokens, query_terms, stem
from app.store.database import TenantSession
from app.store.values import spelt_moment
from app.together import together

__all__ = ["FEW_VECTORS", "Candidates", "Details", "details", "find", "outlines"]

FEW_VECTORS: Final = 500
"""Vectors of the readable partitions up to which each is compared (partition rule 21)."""

_ASKED_FOR: Final = 10
"""Times ``k`` that the index is asked for: then re-ranked; recall of the exact answer was 1.0."""
_OUTLINE: Final = ("layer", "id", "name", "type", "confidence")
_GRAM_WORDS: Final = 4
_GRAMS: Final = 120


@dataclass(slots=True)
class Candidates:
    """Ids by path. ``vectors``: cosines; None when there was no vector of the query, for the reason in ``note``."""

    terms: list[str]
    sets: dict[str, list[str]]
    frequent: list[str]
    together: list[str]
    named: frozenset[str]
    vectors: dict[str, float] | None = None
    exact: bool = True
    query_vector: list[float] | None = None
    recipe: str | None = None
    note: str | None = None


@dataclass(slots=True)
class Details:
    """What is known of one merged candidate."""

    copies: list[dict[str, Any]] = field(default_factory=list)
    thread: str | None = None
    position: int | None = None
    linked: set[str] = field(default_factory=set)
    holds: set[str] = field(default_factory=set)
    similarity: float | None = None


async def find(
    session: TenantSession, embedder: Embedder | None, query: str, *, k: int, types: Sequence[str]
) -> Candidates:
    """Candidates of ``query``; the text's and the vectors' are sought at the same time.

    Raises:
        CallError: what the store raises. A model that fails is none: ``note`` says so.

    """
    if embedder is None:
        return await _by_text(session, query, types)
    found, vector = await together(
        _by_text(session, query, types), _by_vector(session, embedder, query, k=k, types=types)
    )
    found.vectors, found.exact, found.query_vector, found.recipe, found.note = vector
    return found


async def details(
    session: TenantSession,
    found: Candidates,
    ids: Sequence[str],
    types: Sequence[str],
    *,
    seen_by: datetime | None = None,
) -> dict[str, Details]:
    """Details of ``ids`` and of what stands beside them, by id. Similarities are cosines.

    With ``seen_by`` copies that were first seen after that moment are left out.
    """
    rows = await session.read(
        DETAILS,
        ids=list(ids),
        types=list(types),
        named=sorted(found.named),
        frequent=found.frequent,
        vector=found.query_vector,
        recipe=found.recipe,
    )
    known: dict[str, Details] = {}
    for row in sorted(rows, key=lambda row: str(row["layer"])):
        copy = {**dict(row["properties"]), "layer": row["layer"]}
        if seen_by is not None and datetime.fromisoformat(copy["first_seen"]) > seen_by:
            continue
        one = known.setdefault(copy["id"], Details())
        one.copies.append(copy)
        if one.thread is None:
            one.thread, one.position = row["thread"], row["position"]
        one.linked.update(row["linked"])
        one.holds.update(row["holds"])
        if row["similarity"] is not None:
            one.similarity = max(_cosine(row["similarity"]), one.similarity if one.similarity is not None else -1.0)
    return known


async def outlines(
    session: TenantSession, found: Candidates, ids: Sequence[str], *, seen_by: datetime | None = None
) -> dict[str, Details]:
    """As :func:`details` of ``ids`` alone, without what stands beside them or was compared.

    Each copy is its name, type, confidence and moments.
    """
    frequent = found.frequent if found.sets else []  # they add to what others find
    rows = (await session.read(OUTLINES, ids=list(ids), frequent=frequent))[0]["copies"]
    known: dict[str, Details] = {}
    for *values, first_seen, last_seen, holds in sorted(rows, key=lambda row: row[:2]):
        copy = {key: value for key, value in zip(_OUTLINE, values, strict=True) if value is not None}
        copy |= {"first_seen": spelt_moment(first_seen), "last_seen": spelt_moment(last_seen)}
        if seen_by is not None and datetime.fromisoformat(copy["first_seen"]) > seen_by:
            continue
        one = known.setdefault(copy["id"], Details())
        one.copies.append(copy)
        one.holds.update(holds)
    return known


async def _by_text(session: TenantSession, query: str, types: Sequence[str]) -> Candidates:
    grams = _grams(query)
    terms = query_terms(query)
    row = (await session.read(TEXT, terms=terms, whole=WHOLE_SET, types=list(types), grams=grams))[0]
    named = frozenset([*row["direct"], *row["aliased"]])
    frequent = [one["term"] for one in row["sets"] if one["frequent"]]
    sets = {one["term"]: one["ids"] for one in row["sets"] if one["ids"]}
    # A name that the query holds is the graph's to judge: what mentions it is often what was said *to* that person.
    said = {stem(token) for id_ in named for token in plain_tokens(id_)}
    others = {term: ids for term, ids in sets.items() if term not in said}
    return Candidates(terms, others or sets, frequent, row["together"], named)


async def _by_vector(
    session: TenantSession, embedder: Embedder, query: str, *, k: int, types: Sequence[str]
) -> tuple[dict[str, float] | None, bool, list[float] | None, str | None, str | None]:
    try:
        vector = await embedder.query(query, session.deadline)
    except (EmbeddingUnavailable, Overloaded, DeadlineExceeded) as error:
        return None, True, None, None, f"Found by words alone: {error.message}"
    if embedder.identity is None:
        return None, True, None, None, "Found by words alone: the embedding model is closed."
    recipe = embedder.identity.key
    rows = await session.read(
        NEAREST, vector=vector, recipe=recipe, types=list(types), few=FEW_VECTORS, nearest=_ASKED_FOR * max(k, 10)
    )
    vectors = {id_: _cosine(similarity) for row in rows for id_, similarity in row["vectors"]}
    return vectors, all(row["exact"] for row in rows), vector, recipe, None


def _grams(query: str) -> list[str]:
    """Ids of what the query may name: its runs of one to four words."""
    words = query.split()[:200]
    grams: dict[str, None] = {}
    for length in range(min(_GRAM_WORDS, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            text = " ".join(words[start : start + length]).strip("?!.,;:\"'()[]")
            for form in (text, text.removesuffix("'s").removesuffix("\u2019s")):
                try:
                    grams.setdefault(entity_id(form))
                except InvalidInput:
                    continue
    return list(grams)[-_GRAMS * 3 :]


def _cosine(similarity: float) -> float:
    return round(2.0 * similarity - 1.0, 6)

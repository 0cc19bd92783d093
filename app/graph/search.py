"""Hybrid search: text, vectors and the graph, fused by reciprocal rank (design §9, partition rules 20 and 21)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["MAX_K", "Hit", "SearchAnswer", "SearchOptions", "search", "text_search"]

MAX_K: Final = 50


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How to search. ``min_cosine`` wins over ``min_similarity``; the latter is on the (1 + cosine) / 2 scale."""

    k: int = 10
    types: tuple[str, ...] = ()
    min_similarity: float | None = None
    min_cosine: float | None = None
    explain: bool = False


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
class SearchAnswer:
    """Hits, best first. ``mode``: ``hybrid``, or ``text`` with ``note`` saying why there were no vectors."""

    hits: list[Hit]
    mode: str
    note: str | None = None
    explain: dict[str, Any] = field(default_factory=dict)


async def search(session: Any, embedder: Any, query: str, options: SearchOptions) -> SearchAnswer:
    """Search the readable layers: at most two round trips and one embedding.

    Without a model, or when it fails, text and graph alone answer and ``note`` says so.

    Raises:
        InvalidInput: a blank query.

    """
    raise NotImplementedError


async def text_search(
    session: Any, query: str, *, k: int = 10, types: Sequence[str] = (), min_confidence: float = 0.0
) -> list[Hit]:
    """Text and names alone, for seeds and lists: one round trip, byte-equal whatever others write.

    Raises:
        InvalidInput: a blank query.

    """
    raise NotImplementedError

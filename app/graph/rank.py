"""How candidates become an order: pure arithmetic on one call's own sets, so that no other record can move it.

Constants are round numbers that all of five conversations agree on (bench/retrieval.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

__all__ = ["POOL", "Lists", "Place", "best", "fused", "ordered", "text_scores"]

POOL: Final = 100
"""Candidates that are read before the last ranking."""

_CONSTANT: Final = 10.0
"""Of reciprocal rank fusion. The usual 60 loses to text alone here (`bench/retrieval.py`)."""
_BESIDE: Final = {1: 0.4, -1: 0.4, 2: 0.1, -2: 0.1}
"""Share of a record's weight that counts for what stands so many places after it in the same conversation."""
_FREQUENT: Final = 2_001
_DIGITS: Final = 9
"""Sums are compared to this many decimals: the order in which floats are added must not decide."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the graph says of a candidate: its conversation, its place there, the named entities it is related to."""

    thread: str | None = None
    position: int | None = None
    linked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Lists:
    """Scores of the candidates by path; ids to values, greater is better."""

    text: Mapping[str, float]
    vector: Mapping[str, float]
    named: frozenset[str] = field(default=frozenset())

    depth: int = POOL
    """Candidates of each path that count."""

    def ranks(self) -> dict[str, dict[str, int]]:
        """For each path the rank of each candidate, from 1."""
        text, vector = _ranks(self.text, self.depth), _ranks(self.vector, self.depth)
        return {"text": text, "vector": vector, "name": dict.fromkeys(sorted(self.named), 1)}


def text_scores(
    sets: Mapping[str, Collection[str]], frequent: Mapping[str, Collection[str]], together: Iterable[str] = ()
) -> dict[str, float]:
    """Weight of each record: the sum of ln(1 + M/df) over the terms it holds (partition rule 20).

    ``sets`` are whole match sets by term; M is the number of records in their union. ``frequent`` terms only add to
    records found by others; ``together`` are records that hold every term, where all are frequent: all alike.
    """
    union = set().union(*sets.values()) if sets else set()
    scores = dict.fromkeys(together, 1.0)
    for term in sorted(sets):
        weight = math.log1p(len(union) / max(1, len(sets[term])))
        for id_ in sets[term]:
            scores[id_] = scores.get(id_, 0.0) + weight
    for term in sorted(frequent):
        weight = math.log1p(len(union) / _FREQUENT)
        for id_ in frequent[term]:
            if id_ in union:
                scores[id_] += weight
    return {id_: round(score, _DIGITS) for id_, score in scores.items()}


def fused(lists: Lists) -> dict[str, float]:
    """Reciprocal rank fusion of the paths."""
    sums: dict[str, float] = {}
    for ranks in lists.ranks().values():
        for id_, rank in ranks.items():
            sums[id_] = sums.get(id_, 0.0) + 1.0 / (_CONSTANT + rank)
    return sums


def ordered(base: Mapping[str, float], places: Mapping[str, Place], named: frozenset[str]) -> list[tuple[str, float]]:
    """The candidates in ``places``, best first, with what the graph adds to ``base``; ties by id.

    What stands next to a hit in its conversation is evidence, and so is a relation to an entity that the query names.
    """
    at: dict[tuple[str, int], list[str]] = {}
    for id_, place in sorted(places.items()):
        if place.thread is not None and place.position is not None:
            at.setdefault((place.thread, place.position), []).append(id_)
    totals = {}
    for id_, place in places.items():
        total = base.get(id_, 0.0)
        if place.thread is not None and place.position is not None:
            for offset, share in _BESIDE.items():
                near = at.get((place.thread, place.position - offset), ())
                total += share * max((base.get(other, 0.0) for other in near), default=0.0)
        if named:
            total *= 1.0 + len(place.linked & named) / len(named)
        totals[id_] = round(total, _DIGITS)
    return best(totals)


def best(scores: Mapping[str, float], limit: int | None = None) -> list[tuple[str, float]]:
    """Ids by score, the greatest first, ties by id."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:limit]


def _ranks(scores: Mapping[str, float], depth: int) -> dict[str, int]:
    if len(scores) > depth and len(set(scores.values())) == 1:
        return dict.fromkeys(scores, 1)
    return {id_: rank for rank, (id_, _) in enumerate(best(scores, depth), 1)}

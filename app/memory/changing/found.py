"""Which contradictions there are and which may be, from what is read of the ranges of a memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["CONTRADICTS", "Candidate", "Found", "Part", "Place", "found"]

CONTRADICTS: Final = "CONTRADICTS"


class Place(NamedTuple):
    """A contradiction's place in the list."""

    detected: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity with several current values of a relation that has one at a time; ``targets`` are the first ones."""

    source: str
    relation: str
    targets: Sequence[str]
    value_count: int


@dataclass(frozen=True, slots=True)
class Part:
    """What is asked for: ``limit`` contradictions behind a place, and so many ``candidates`` with ``values`` each."""

    resolved: bool
    """Whether contradictions that are resolved count too."""
    after: Sequence[str] | None
    limit: int
    candidates: int
    values: int


@dataclass(frozen=True, slots=True)
class Found:
    """How many there are, and of them the part that was asked for.

    Contradictions come the newest first, what may contradict unseen by source and relation.
    """

    count: int
    places: Sequence[Place]
    candidate_count: int
    candidates: Sequence[Candidate]


def found(rows: Iterable[Mapping[str, Any]], part: Part) -> Found:
    """What the ranges hold.

    What has several values is no candidate once all of their pairs are recorded as contradictions.
    """
    places: list[Place] = []
    said: dict[str, set[str]] = defaultdict(set)
    several: list[tuple[str, str, list[str]]] = []
    for relation, source, ends in (entry for row in rows for entry in row["held"]):
        if relation != CONTRADICTS:
            several.append((source, relation, sorted(end[0] for end in ends)))
            continue
        for target, is_open, detected in ends:
            said[source].add(target)
            said[target].add(source)
            if is_open or part.resolved:
                places.append(Place(detected, source, target))
    places.sort(key=lambda place: place[1:])
    places.sort(key=lambda place: place.detected, reverse=True)
    suspected = sorted(entry for entry in several if not _all_said(entry[2], said))
    candidates = [
        Candidate(source, relation, targets[: part.values], len(targets))
        for source, relation, targets in suspected[: part.candidates]
    ]
    return Found(len(places), _after(places, part.after)[: part.limit], len(suspected), candidates)


def _after(places: Sequence[Place], position: Sequence[str] | None) -> Sequence[Place]:
    if position is None:
        return places
    last = Place(*position)
    return [
        place
        for place in places
        if place.detected < last.detected or (place.detected == last.detected and place[1:] > last[1:])
    ]


def _all_said(targets: Sequence[str], said: Mapping[str, set[str]]) -> bool:
    among = set(targets)
    return all(among - {target} <= said.get(target, set()) for target in targets)

"""Which contradictions there are and which may be, from what is read of the ranges of a memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["CONTRADICTS", "Candidate", "Found", "Place", "found"]

CONTRADICTS: Final = "CONTRADICTS"


class Place(NamedTuple):
    """A contradiction's place in the list."""

    detected: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity with several current values of a relation that has one at a time; ``targets`` are sorted."""

    source: str
    relation: str
    targets: Sequence[str]


@dataclass(frozen=True, slots=True)
class Found:
    """Contradictions, the newest first, and what may contradict unseen, by source and relation."""

    places: Sequence[Place]
    candidates: Sequence[Candidate]

    def after(self, position: Sequence[str] | None) -> Sequence[Place]:
        """The contradictions behind this place."""
        if position is None:
            return self.places
        last = Place(*position)
        return [
            place
            for place in self.places
            if place.detected < last.detected or (place.detected == last.detected and place[1:] > last[1:])
        ]


def found(rows: Iterable[Mapping[str, Any]], *, resolved: bool) -> Found:
    """What the ranges hold; with ``resolved`` also contradictions that are resolved.

    What has several values is no candidate once all of their pairs are recorded as contradictions.
    """
    places: list[Place] = []
    said: dict[str, set[str]] = defaultdict(set)
    several: list[Candidate] = []
    for relation, source, ends in (entry for row in rows for entry in row["held"]):
        if relation != CONTRADICTS:
            several.append(Candidate(source, relation, sorted(end[0] for end in ends)))
            continue
        for target, is_open, detected in ends:
            said[source].add(target)
            said[target].add(source)
            if is_open or resolved:
                places.append(Place(detected, source, target))
    places.sort(key=lambda place: place[1:])
    places.sort(key=lambda place: place.detected, reverse=True)
    candidates = [candidate for candidate in several if not _all_said(candidate.targets, said)]
    return Found(places, sorted(candidates, key=lambda candidate: (candidate.source, candidate.relation)))


def _all_said(targets: Sequence[str], said: Mapping[str, set[str]]) -> bool:
    among = set(targets)
    return all(among - {target} <= said.get(target, set()) for target in targets)

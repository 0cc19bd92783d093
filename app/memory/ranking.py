"""Which nodes of a neighbourhood stand nearest to the named ones. Pure, and the same for the same graph.

A node's strength is the weakest relation of the strongest way to it, so whatever leads to a node ranks before it and
an answer cut anywhere still hangs together.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Affinity", "Link", "Place", "ancestors", "ranked"]

_NAMED: Final = 1e9
"""Strength of a named entity: above any weight, and a number that JSON can say."""


@dataclass(frozen=True, slots=True)
class Link:
    """A merged relation of the neighbourhood."""

    source: str
    type: str
    target: str
    weight: float
    factor: float = 1.0
    """Affinity to the active project."""

    @property
    def effective(self) -> float:
        """Weight with affinity."""
        return self.weight * self.factor

    @property
    def triple(self) -> tuple[str, str, str]:
        """What makes it this relation."""
        return (self.source, self.type, self.target)


@dataclass(frozen=True, slots=True)
class Affinity:
    """What lies near the active project: entities one hop from it, and two."""

    near: frozenset[str] = frozenset()
    far: frozenset[str] = frozenset()
    near_factor: float = 1.0
    far_factor: float = 1.0

    def of(self, source: str, target: str) -> float:
        """The factor of a relation's weight."""
        if source in self.near or target in self.near:
            return self.near_factor
        return self.far_factor if source in self.far or target in self.far else 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """A node with its rank: strength descending, distance ascending, id."""

    id: str
    distance: int
    strength: float
    parent: str | None
    """The node before it on its strongest way; None for a named one."""

    @property
    def key(self) -> tuple[float, int, str]:
        """What it is ordered by."""
        return (-self.strength, self.distance, self.id)


def ranked(seeds: Sequence[str], links: Iterable[Link], hops: int) -> list[Place]:
    """Every node within ``hops`` of a seed, best first; seeds come before all others."""
    beside: Mapping[str, list[tuple[str, float]]] = _neighbours(links)
    best: dict[str, Place] = {}
    settled: set[tuple[str, int]] = set()
    queue: list[tuple[float, int, str, str]] = [(-_NAMED, 0, seed, "") for seed in sorted(set(seeds))]
    heapq.heapify(queue)
    while queue:
        negative, distance, id_, parent = heapq.heappop(queue)
        if id_ not in best:
            best[id_] = Place(id_, distance, -negative, parent or None)
        elif best[id_].distance <= distance:
            continue  # a way as strong and no longer is known already
        if (id_, distance) in settled or distance == hops:
            continue
        settled.add((id_, distance))
        for other, effective in beside[id_]:
            if other not in best or best[other].distance > distance + 1:
                heapq.heappush(queue, (max(negative, -effective), distance + 1, other, id_))
    return sorted(best.values(), key=lambda place: place.key)


def ancestors(places: Collection[Place], every: Mapping[str, Place]) -> set[str]:
    """The ids on the strongest ways to ``places``, these included."""
    found: set[str] = set()
    for place in places:
        step: Place | None = place
        while step is not None and step.id not in found:
            found.add(step.id)
            step = every[step.parent] if step.parent is not None else None
    return found


def _neighbours(links: Iterable[Link]) -> Mapping[str, list[tuple[str, float]]]:
    beside: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for link in links:
        beside[link.source].append((link.target, link.effective))
        beside[link.target].append((link.source, link.effective))
    return beside

"""How near the texts of many entities are, each to each, by their vectors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from app.memory.analysis.clock import Clock
from app.memory.analysis.likeness import Pair

__all__ = ["Compared"]

_BLOCK: Final = 256
"""Vectors that are compared with all at once, after which the clock is looked at."""
_CLOSEST: Final = 200
"""Copies near to one that are looked at closely."""
_ROUGH: Final = 1e-5
"""By how much a cosine of single precision may be wrong."""


class Compared:
    """Copies of entities, from rows of [id, type, vector as big-endian single precision], ordered by id."""

    def __init__(self, rows: Sequence[Sequence[Any]]) -> None:
        import numpy

        self._ids: list[str] = [row[0] for row in rows]
        self._kinds = numpy.unique([row[1] for row in rows], return_inverse=True)[1]
        coordinates = numpy.frombuffer(b"".join(row[2] for row in rows), dtype=">f4").astype(numpy.float64)
        vectors = coordinates.reshape(len(rows), -1) if rows else numpy.zeros((0, 1))
        lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
        self._vectors = vectors / numpy.where(lengths > 0, lengths, 1.0)
        self._places: dict[str, list[int]] = {}
        for place, id_ in enumerate(self._ids):
            self._places.setdefault(id_, []).append(place)

    @property
    def ids(self) -> Iterable[str]:
        """Whose vectors are here."""
        return self._places.keys()

    def pairs(self, clock: Clock, seeds: frozenset[str] | None, least: float, width: int) -> dict[Pair, float]:
        """Every pair of one type with (1+cosine)/2 of ``least`` or more, at least one of them among ``seeds``.

        Each seed (None: each) has its ``width`` nearest; copies of one entity are no pair, and the nearest copies
        count.
        """
        import numpy

        rough = self._vectors.astype(numpy.float32)
        from_ = 2.0 * least - 1.0 - _ROUGH
        if seeds is None:
            chosen = self._accompanied(clock, rough, from_)
        else:
            chosen = [place for place, id_ in enumerate(self._ids) if id_ in seeds]
        found: dict[Pair, float] = {}
        for start in range(0, len(chosen), _BLOCK):
            clock.check()
            block = numpy.asarray(chosen[start : start + _BLOCK])
            near = rough[block] @ rough.T
            near[self._kinds[block][:, None] != self._kinds] = -2.0
            for row in numpy.flatnonzero((near >= from_).any(axis=1)).tolist():
                one = self._ids[block[row]]
                for two, value in self._nearest(int(block[row]), near[row], from_, least)[:width]:
                    pair = (one, two) if one < two else (two, one)
                    found[pair] = max(value, found.get(pair, 0.0))
        return found

    def near(self, pairs: Iterable[Pair]) -> dict[Pair, float]:
        """(1+cosine)/2 of those pairs that both have vectors here."""
        return {
            (one, two): float((1.0 + (self._vectors[self._places[one]] @ self._vectors[self._places[two]].T).max()) / 2)
            for one, two in pairs
            if one in self._places and two in self._places
        }

    def _accompanied(self, clock: Clock, rough: Any, from_: float) -> list[int]:
        """Places that have another near them, of any type: every two are compared once."""
        import numpy

        accompanied = numpy.zeros(len(rough), dtype=bool)
        for start in range(0, len(rough), _BLOCK):
            clock.check()
            near = rough[start : start + _BLOCK] @ rough[start:].T
            numpy.fill_diagonal(near, -2.0)
            accompanied[start : start + _BLOCK] |= near.max(axis=1) >= from_
            accompanied[start:] |= near.max(axis=0) >= from_
        found: list[int] = numpy.flatnonzero(accompanied).tolist()
        return found

    def _nearest(self, place: int, near: Any, from_: float, least: float) -> list[tuple[str, float]]:
        """Others near to one copy, the nearest first, ties by id; ``near`` are rough cosines."""
        import numpy

        hits = numpy.flatnonzero(near >= from_)
        if len(hits) > _CLOSEST:
            hits = hits[numpy.argsort(-near[hits], kind="stable")[:_CLOSEST]]
        values = (1.0 + self._vectors[hits] @ self._vectors[place]) / 2.0
        best: dict[str, float] = {}
        for other, value in zip(hits.tolist(), values.tolist(), strict=True):
            if value >= least - 1e-9 and self._ids[other] != self._ids[place]:
                best[self._ids[other]] = max(value, best.get(self._ids[other], 0.0))
        return sorted(best.items(), key=lambda entry: (-round(entry[1], 9), entry[0]))

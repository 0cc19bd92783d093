"""How near texts are, each to each: the same as comparing every two by themselves."""

from __future__ import annotations

import numpy
import pytest

from app.context import Deadline
from app.errors import DeadlineExceeded
from app.memory.analysis.clock import Clock
from app.memory.analysis.nearness import Compared


def _clock(seconds: float = 600.0) -> Clock:
    return Clock(Deadline.after(seconds), "ask for less")


def _row(id_: str, type_: str, *vector: float) -> list[object]:
    return [id_, type_, numpy.asarray(vector, dtype=">f4").tobytes()]


def test_vectors_are_compared_within_a_type_and_copies_are_one() -> None:
    compared = Compared(
        [
            _row("a", "Person", 1.0, 0.0),
            _row("a", "Person", 0.0, 1.0),
            _row("b", "Person", 0.0, 2.0),
            _row("c", "Project", 1.0, 0.0),
            _row("d", "Person", -1.0, 0.0),
            _row("e", "Person", 0.0, 0.0),
        ]
    )
    assert compared.pairs(_clock(), None, 0.85, 10) == {("a", "b"): pytest.approx(1.0)}
    assert compared.pairs(_clock(), frozenset({"d"}), 0.85, 10) == {}
    assert compared.near([("a", "c"), ("a", "d"), ("a", "x")]) == {("a", "c"): 1.0, ("a", "d"): 0.5}
    assert Compared([]).pairs(_clock(), None, 0.85, 10) == {}
    assert Compared([]).near([("a", "b")]) == {}


def test_many_vectors_have_the_nearest_that_comparing_every_two_finds() -> None:
    chance = numpy.random.default_rng(3)
    vectors = chance.standard_normal((700, 8)).astype(">f4")
    vectors[300:320] = vectors[300]  # alike to the last digit: ties go by id
    ids = [f"n{place:03}" for place in range(700)]
    kinds = [("Event", "Person")[place % 3 == 0] for place in range(700)]
    rows = [_row(id_, kind, *vector) for id_, kind, vector in zip(ids, kinds, vectors, strict=True)]
    unit = vectors.astype(float) / numpy.linalg.norm(vectors.astype(float), axis=1, keepdims=True)
    values = ((1.0 + unit @ unit.T) / 2.0).tolist()
    expected: dict[tuple[str, str], float] = {}
    for one in range(700):
        near = [
            (-round(values[one][two], 9), ids[two])
            for two in range(700)
            if two != one and kinds[two] == kinds[one] and values[one][two] >= 0.9
        ]
        expected |= {(min(ids[one], two), max(ids[one], two)): -value for value, two in sorted(near)[:4]}
    found = Compared(rows).pairs(_clock(), None, 0.9, 4)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-8)
    assert len(found) > 100
    some = Compared(rows).pairs(_clock(), frozenset(ids[:50]), 0.9, 4)
    assert len(some) > 10
    assert some.keys() <= found.keys()


def test_comparing_ends_when_its_time_is_over() -> None:
    with pytest.raises(DeadlineExceeded, match="ask for less"):
        Compared([_row("a", "Person", 1.0)]).pairs(_clock(0.0), None, 0.85, 10)

"""What was written lately, for who keeps readings."""

from __future__ import annotations

import asyncio

import pytest

import app.main  # noqa: F401 - registers every statement
from app.store import touching
from app.store.statement import REGISTERED, statement
from app.store.touching import Lately, Touches

MAY_TOUCH_ANYTHING = {
    "memory.write_fading",  # the other ends of relations that fade are not named
    *("moving.write_nodes", "moving.write_aliases", "moving.write_edges"),
}


def _touches(layer: str, *ids: str) -> Touches:
    made = Touches()
    made.by_layer[layer] = set(ids)
    return made


def test_every_writing_statement_says_what_it_touches() -> None:
    """A statement that says nothing is safe; that it has to read everything again after it should be meant."""
    silent = {
        known.name
        for known in REGISTERED.values()
        if known.writes and not known.control and known.touches is None and not known.name.startswith("test.")
    }
    assert silent == MAY_TOUCH_ANYTHING


def test_what_a_statement_touches_are_parameters_of_its_own() -> None:
    with pytest.raises(ValueError, match="touch"):
        statement(
            "test.touch_nothing_known", "MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id})", touches=("ids",)
        )


def test_ids_are_found_in_every_shape_of_parameter() -> None:
    lock, remove, hold = (REGISTERED[f"memory.{name}"] for name in ("lock_ends", "remove_going", "hold_id"))
    made = Touches()
    made.note(lock, {"layer": "a", "layers": ["", "b"], "ends": [{"id": "x"}]})
    made.note(hold, {"layer": "a", "id": "yes"})
    made.note(remove, {"writable": ["", "a"], "ids": ["y"], "triples": [["s", "KNOWS", "t"]]})
    assert made.by_layer == {"": {"y", "s", "t"}, "a": {"x", "yes", "y", "s", "t"}}
    made.note(REGISTERED["memory.write_fading"], {"writable": ["a"], "ids": ["x"]})
    made.note(hold, {"layer": "a", "id": "later"})
    assert made.by_layer["a"] is None


def test_who_reads_learns_of_the_layers_that_they_read_alone() -> None:
    lately = Lately()
    mark = lately.mark
    lately.ended("one", _touches("a", "x"))
    lately.ended("one", _touches("", "y"))
    assert lately.touched_since("one", ("", "a"), mark) == {"x", "y"}
    assert lately.touched_since("one", ("", "b"), mark) == {"y"}
    assert lately.touched_since("two", ("", "a"), mark) == set()
    assert lately.touched_since("one", ("", "a"), mark + 1) == {"y"}
    assert lately.touched_since("one", ("", "a"), lately.mark) == set()


def test_all_of_a_layer_is_all_for_those_who_looked_before() -> None:
    lately = Lately()
    everything = Touches()
    everything.by_layer["a"] = None
    lately.ended("one", everything)
    lately.ended("one", _touches("a", "x"))
    assert lately.touched_since("one", ("a",), 0) is None
    assert lately.touched_since("one", ("a",), 1) == {"x"}


def test_little_is_remembered_and_what_was_forgotten_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touching, "_MOST_IDS", 2)
    monkeypatch.setattr(touching, "_MOST_LAYERS", 2)
    lately = Lately()
    for id_ in ("x", "y", "x", "z"):
        lately.ended("one", _touches("", id_))
    assert lately.touched_since("one", ("",), 1) is None, "y is forgotten"
    assert lately.touched_since("one", ("",), 2) == {"x", "z"}
    for tenant in ("two", "three"):
        lately.ended(tenant, _touches("", "x"))
    assert lately.touched_since("one", ("",), 5) is None, "its layer is forgotten"
    assert lately.touched_since("one", ("",), 6) == set()
    assert lately.touched_since("three", ("",), 5) == {"x"}
    monkeypatch.setattr(touching, "_MOST_ALTOGETHER", 2)
    lately.ended("two", _touches("", "y"))
    assert lately.touched_since("three", ("",), 6) is None, "three ids are too many"
    assert lately.touched_since("two", ("",), 6) == {"y"}


async def test_a_commit_that_may_yet_be_applied_touches_at_every_moment_until_its_time_is_over() -> None:
    lately = Lately()
    everything = Touches()
    everything.by_layer["b"] = None
    lately.doubted("one", _touches("a", "x"), 0.05)
    lately.doubted("one", everything, 0.05)
    begun = lately.mark
    lately.ended("one", _touches("", "y"))
    assert lately.touched_since("one", ("", "a"), begun) == {"x", "y"}
    assert lately.touched_since("one", ("", "a"), lately.mark) == {"x"}, "what is read now may not show it"
    assert lately.touched_since("one", ("", "b"), lately.mark) is None
    assert lately.touched_since("one", ("",), lately.mark) == set()
    assert lately.touched_since("two", ("", "a", "b"), lately.mark) == set()
    during = lately.mark
    for _ in range(300):
        if lately.mark == during + 2:
            break
        await asyncio.sleep(0.01)
    assert lately.touched_since("one", ("", "a"), during) == {"x"}
    assert lately.touched_since("one", ("a", "b"), lately.mark) == set()


async def test_closing_waits_for_no_commit_that_may_yet_be_applied() -> None:
    lately = Lately()
    lately.doubted("one", _touches("a", "x"), 0)
    lately.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (lately.mark, lately.touched_since("one", ("a",), 0)) == (0, set())

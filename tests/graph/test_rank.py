"""The order of candidates comes from the call's own sets alone."""

from __future__ import annotations

import math

from app.graph.rank import Lists, Place, best, fused, ordered, text_scores


def test_weights_are_those_of_the_calls_own_sets():
    scores = text_scores({"rare": ["a"], "common": ["a", "b", "c"]}, {})
    assert scores["a"] == round(math.log1p(3) + math.log1p(1), 9)
    assert scores["b"] == scores["c"] == round(math.log1p(1), 9)


def test_a_frequent_term_ranks_what_others_found_and_finds_nothing():
    scores = text_scores({"rare": ["a", "b"]}, {"often": ["b", "z"]})
    assert "z" not in scores
    assert scores["b"] > scores["a"]
    assert text_scores({}, {"often": ["a"]}, ["a", "b"]) == {"a": 1.0, "b": 1.0}


def test_two_paths_outweigh_one_and_ties_go_by_id():
    base = fused(Lists({"a": 2.0, "b": 1.0}, {"b": 0.9, "c": 0.5}))
    assert [id_ for id_, _ in best(base)] == ["b", "a", "c"]
    assert [id_ for id_, _ in best({"b": 1.0, "a": 1.0})] == ["a", "b"]


def test_neighbours_in_a_conversation_and_named_relations_count():
    places = {id_: Place("s/", position) for position, id_ in enumerate("abcde")} | {"z": Place("t/", 1)}
    order = [id_ for id_, value in ordered({"c": 1.0}, places, frozenset()) if value]
    assert order == ["c", "b", "d", "a", "e"]
    linked = {"x": Place(), "y": Place(linked=frozenset({"caroline"}))}
    assert ordered({"x": 1.0, "y": 0.6}, linked, frozenset({"caroline"})) == [("y", 1.2), ("x", 1.0)]

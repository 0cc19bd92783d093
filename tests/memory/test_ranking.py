"""The order of a neighbourhood."""

from __future__ import annotations

from app.memory.ranking import Affinity, Link, ancestors, ranked


def test_the_strongest_way_counts_and_what_leads_to_a_node_comes_before_it() -> None:
    links = [Link("a", "R", "b", 0.4), Link("a", "R", "c", 0.9), Link("c", "R", "b", 0.8), Link("b", "R", "d", 1.0)]
    places = ranked(["a"], links, 3)
    assert [place.id for place in places] == ["a", "c", "b", "d"]
    assert [place.strength for place in places[1:]] == [0.9, 0.8, 0.8]
    every = {place.id: place for place in places}
    assert ancestors([every["d"]], every) == {"a", "c", "b", "d"}


def test_hops_are_a_hard_bound_even_where_a_longer_way_is_stronger() -> None:
    links = [Link("a", "R", "b", 0.4), Link("a", "R", "c", 0.9), Link("c", "R", "b", 0.8), Link("b", "R", "d", 1.0)]
    assert {place.id for place in ranked(["a"], links, 1)} == {"a", "b", "c"}
    assert {place.id: place.strength for place in ranked(["a"], links, 2)}["d"] == 0.4


def test_equal_strength_is_ordered_by_distance_then_id() -> None:
    links = [Link("a", "R", "z", 0.5), Link("a", "R", "b", 0.5), Link("b", "R", "c", 0.5)]
    assert [place.id for place in ranked(["a"], links, 2)] == ["a", "b", "z", "c"]


def test_affinity_is_by_hop() -> None:
    affinity = Affinity(frozenset({"near"}), frozenset({"far"}), 1.3, 1.15)
    assert affinity.of("x", "near") == 1.3
    assert affinity.of("far", "x") == 1.15
    assert affinity.of("far", "near") == 1.3
    assert affinity.of("x", "y") == 1.0

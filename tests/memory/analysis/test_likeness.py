"""How alike two entities are, by the contract's own figures."""

from __future__ import annotations

import pytest

from app.context import Deadline
from app.memory.analysis.clock import Clock
from app.memory.analysis.likeness import Around, Named, jaccard, pairs_by_name, weight_of


def _clock() -> Clock:
    return Clock(Deadline.after(600), "ask for less")


@pytest.mark.shows("graph_merge_suggestions", 4)
def test_a_neighbour_counts_less_the_more_relations_it_has() -> None:
    expected = {0: 1.0, 1: 1.0, 2: 0.5906, 5: 0.3832, 10: 0.3028, 50: 0.2036, 100: 0.1784}
    assert {degree: round(weight_of(degree), 4) for degree in expected} == expected


@pytest.mark.shows("graph_merge_suggestions", 4)
def test_shared_neighbours_are_weighed_and_the_other_member_is_none() -> None:
    around = Around(
        {
            "a": frozenset({("x", "USES"), ("y", "USES"), ("b", "KNOWS")}),
            "b": frozenset({("x", "USES"), ("y", "PART_OF"), ("a", "KNOWS")}),
        },
        {"x": 2, "y": 1},
    )
    assert around.likeness(("a", "b")) == pytest.approx(0.590616 / (0.590616 + 1 + 1), abs=1e-4)
    assert around.shared(("a", "b")) == [{"id": "x", "relation": "USES", "degree": 2, "weight": 0.5906}]
    assert Around({}).likeness(("a", "b")) == 0.0


@pytest.mark.shows("graph_merge_suggestions", 3)
def test_names_are_compared_by_words_of_every_script() -> None:
    one, two = Named.of("a", "Project Atlas", "Project", ()), Named.of("b", "Atlas project", "Project", ())
    assert jaccard(one.tokens, two.tokens) == 1.0
    assert jaccard(Named.of("c", "日本", "Object", ()).tokens, Named.of("d", "日本", "Object", ()).tokens) == 1.0
    assert jaccard(frozenset(), frozenset()) == 0.0


def test_pairs_by_name_have_one_type_and_a_seed() -> None:
    named = [
        Named.of("a", "Graph Memory", "Project", ()),
        Named.of("b", "GraphMemory", "Project", ()),
        Named.of("c", "graph memory", "Concept", ()),
        Named.of("d", "Memory of graphs", "Project", ("the graph memory",)),
        Named.of("e", "Else", "Project", ("Graph-Memory",)),
    ]
    assert ("a", "b") in pairs_by_name(_clock(), named, None, 10)
    assert ("a", "e") in pairs_by_name(_clock(), named, None, 10)
    assert all("c" not in pair for pair in pairs_by_name(_clock(), named, None, 10))
    assert {one for pair in pairs_by_name(_clock(), named, frozenset({"b"}), 10) for one in pair} == {"a", "b", "e"}
    assert pairs_by_name(_clock(), named, None, 1) == pairs_by_name(_clock(), named, None, 10)[:1]


def test_a_word_that_many_names_share_leads_to_no_pair() -> None:
    crowd = [Named.of(f"n{number}", f"note {number}", "Concept", ()) for number in range(200)]
    assert pairs_by_name(_clock(), crowd, None, 1000) == []

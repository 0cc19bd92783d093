"""Siblings come out as one record, by partition rules 4 and 5."""

from __future__ import annotations

from itertools import permutations

import orjson

from app.graph.merge import merged_entity, merged_relation


def copy(layer, **properties):
    return {"id": "x", "layer": layer, "name": f"X {layer}", "type": "Concept", "tenant": "secret", **properties}


def test_name_and_type_come_from_the_tenant_wide_copy_properties_from_the_first_layer():
    merged = merged_entity([
        copy("b", description="of b", role="of b"),
        copy("", description="of all", status="of all"),
        copy("a", description="of a", extra=orjson.dumps({"colour": "red"}).decode()),
    ])  # fmt: skip
    assert merged["name"] == "X "
    assert (merged["description"], merged["role"], merged["status"]) == ("of a", "of b", "of all")
    assert merged["colour"] == "red"
    assert merged["layers"] == ["tenant", "a", "b"]
    assert "tenant" not in merged
    assert merged_entity([copy("b"), copy("a")])["name"] == "X a"


def test_counters_add_up_and_times_span():
    one = copy(
        "a", confidence=0.4, times_mentioned=2, first_seen="2026-01-02T00:00:00Z", last_seen="2026-01-03T00:00:00Z"
    )
    other = copy(
        "", confidence=0.9, times_mentioned=3, first_seen="2026-01-01T00:00:00Z", last_seen="2026-01-02T00:00:00Z"
    )
    merged = merged_entity([one | {"aliases": ["b"]}, other | {"aliases": ["a", "b"]}])
    assert (merged["confidence"], merged["times_mentioned"], merged["aliases"]) == (0.9, 5, ["a", "b"])
    assert (merged["first_seen"], merged["last_seen"]) == ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z")


def test_merging_does_not_depend_on_the_order_of_copies():
    copies = [copy("", status="s"), copy("a", status="t"), copy("b", status="u")]
    assert all(merged_entity(order) == merged_entity(copies) for order in permutations(copies))


def edge(layer, weight, **properties):
    return {"from": "x", "type": "USES", "to": "y", "layer": layer, "weight": weight, "tenant": "secret", **properties}


def test_a_relation_is_current_if_a_copy_is_and_the_heaviest_of_these_speaks():
    merged = merged_relation([
        edge("a", 0.9, invalid_at="2026-01-01T00:00:00Z", evidence="ended"),
        edge("b", 0.5, evidence="stands", source_session="s"),
        edge("", 0.5, evidence="wide", source_session="w"),
    ])  # fmt: skip
    assert (merged["weight"], merged.get("invalid_at"), merged["source_session"]) == (0.5, None, "w")
    assert merged["evidence"] == "wide\nstands\nended"
    assert merged["layers"] == ["tenant", "a", "b"]
    assert "tenant" not in merged


def test_a_relation_whose_copies_all_ended_has_ended():
    ended = [edge("a", 0.2, invalid_at="1"), edge("b", 0.8, invalid_at="2")]
    assert merged_relation(ended)["invalid_at"] == "2"

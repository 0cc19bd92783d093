"""What is searched of an entity, and what its properties may be."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.graph.entity import EVIDENCE_LIMIT, evidence_text, search_fields
from app.graph.text import tokens
from app.graph.vocabulary import ENTITY_PROPERTIES, relation_name, split_properties, type_label, type_name


def test_names_aliases_type_properties_and_evidence_are_searched():
    fields = search_fields(
        "Claude Code", ["CC"], "Object", {"description": "Anthropic CLI", "odd": {"deep": ["zebra"]}}, "saw a gnu"
    )
    assert fields.names == "claude code cc"
    assert set(tokens("Claude CC Object Anthropic zebra gnu")) <= set(fields.words.split())


def test_the_passage_is_the_contracts():
    fields = search_fields(
        " Claude Code ",
        (),
        "Object",
        {"subtype": "tool", "description": "Anthropic CLI", "role": " ", "what": 3, "category": "c"},
    )
    assert fields.passage == "Claude Code — Object — tool — Anthropic CLI — c"


def test_a_turn_is_embedded_by_what_was_said_and_knows_its_place():
    fields = search_fields(
        "s1/D1:12: Wow, that is", (), "Fact", {"content": "Wow, that is it", "source_ref": "s1/D1:12"}
    )
    assert (fields.passage, fields.thread, fields.position) == ("Wow, that is it", "s1/D1:", 12)
    assert fields.stored()["position"] == 12
    assert search_fields("x", (), "Fact", {"source_ref": "no number"}).thread is None
    assert search_fields("x", (), "Fact", {"source_ref": "9" * 40}).position == int("9" * 15)


def test_evidence_keeps_the_newest_within_its_bound():
    assert evidence_text(["new", "new", " old "]) == "new\nold"
    kept = evidence_text(["é" * 20_000, "old"])
    assert 0 < len(kept.encode()) <= EVIDENCE_LIMIT
    assert len(evidence_text(f"{place} " + "x" * 1000 for place in range(40)).encode()) <= EVIDENCE_LIMIT


@pytest.mark.parametrize(("given", "expected"), [
    ("person", "Person"), ("PERSON", "Person"), ("tool", "Object"), ("organisation", "Organization"),
    ("organization", "Organization"), ("widget", "Widget"), ("myType", "MyType"), ("Fact", "Fact"),
])  # fmt: skip
def test_types_have_one_spelling(given, expected):
    assert type_name(given) == expected


@pytest.mark.parametrize("bad", ["", "1a", "_Tenant", "a b", "a`", "Person\n", "Ünï", "x" * 65, "a-b"])
def test_types_and_relations_outside_the_rule_are_refused(bad):
    for check in (type_name, relation_name):
        with pytest.raises(InvalidInput, match="letters"):
            check(bad)


def test_structural_types_get_a_label_of_their_own():
    assert type_label(type_name("alias")) == "Alias_"
    assert type_label("Person") == "Person"


def test_documented_properties_are_native_and_others_extra():
    native, extra = split_properties({"status": "on", "mine": 1, "stack": ["a"], "url": None}, ENTITY_PROPERTIES)
    assert native == {"status": "on", "url": None}
    assert extra == {"mine": 1, "stack": ["a"]}
    assert split_properties({"big": 2**70}, ENTITY_PROPERTIES)[1] == {"big": str(2**70)}


@pytest.mark.parametrize("bad", [
    {"tenant": "x"}, {"id": "x"}, {"embedding": []}, {"words": "x"}, {"_x": 1}, {"a b": 1}, {"": 1}, {"a\n": 1},
    {"status": float("nan")}, {"status": "x" * 40_000}, {"status": "\ud800"}, {"mine": {1, 2}},
    {"mine": ["y" * 40_000]},
])  # fmt: skip
def test_properties_that_may_not_be_are_refused(bad):
    with pytest.raises(InvalidInput):
        split_properties(bad, ENTITY_PROPERTIES)

"""Looking around, browsing, searching, counting."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import InvalidInput
from app.memory.figures.queries import COUNT_ENTITIES, COUNT_RELATIONS, STATS
from app.memory.queries import (
    AFFINITY,
    DETAILS,
    ENTITY,
    EXPANSION,
    LOCK,
    NEIGHBOURHOOD,
    PAGE,
    PICKED,
    READ_ENDS,
    WIDE_NEIGHBOURHOOD,
    WRITE,
)
from app.memory.schemas import QueryInput
from app.memory.service import MemoryService
from app.store.database import Database
from app.store.planning import EXAMPLES
from app.store.statement import Statement
from tests.memory.conftest import Agent
from tests.plans import assert_plan

SCANS = {
    *("AllNodesScan", "NodeByLabelScan", "DirectedAllRelationshipsScan", "UndirectedAllRelationshipsScan"),
    *("DirectedRelationshipTypeScan", "UndirectedRelationshipTypeScan", "DynamicDirectedRelationshipTypeLookup"),
    *("DynamicUndirectedRelationshipTypeLookup", "VarLengthExpand(All)", "NodeIndexScan"),
}
EDGE = {"source": "a", "relation": "R", "target": "b"}
PARAMETERS = {
    "ids": ["a", "b"],
    "id": "a",
    "starts": ["a"],
    "hops": 2,
    "current_only": True,
    "min_weight": 0.3,
    "most": 10,
    "width": 10,
    "among": ["a"],
    "place": "/a",
    "brief": False,
    "triples": [["a", "R", "b"]],
    "type": None,
    "min_confidence": None,
    "beyond": ["a"],
    "sort": "name",
    "after": None,
    "limit": 5,
    "now": "n",
    "ends": [{"id": "a", "name": "a", "type": "T"}],
    "pairs": [EDGE],
    "rivals": [EDGE],
    "entities": [{"id": "a", "fields": {}, "label": "T"}],
    "aliases": [{"id": "a", "target": "b", "name": "a"}],
    "changed": [EDGE | {"fields": {}}],
    "created": [EDGE | {"fields": {}}],
}


@pytest.mark.parametrize(
    "statement",
    [
        *(AFFINITY, COUNT_ENTITIES, COUNT_RELATIONS, DETAILS, ENTITY, EXPANSION, LOCK, NEIGHBOURHOOD, PAGE, PICKED),
        *(READ_ENDS, STATS, WIDE_NEIGHBOURHOOD, WRITE),
    ],
    ids=lambda statement: statement.name,
)
async def test_no_statement_looks_at_everybodys_data(database: Database, statement: Statement) -> None:
    parameters = {name: {**EXAMPLES, **PARAMETERS}[name] for name in statement.parameters}
    await assert_plan(database, statement, parameters, SCANS)


async def chain(agent: Agent) -> None:
    """a - b - c - d by relations of 0.9, 0.8, 0.7, and a weak side way a - e."""
    await agent.batch(
        [{"name": name, "type": "Project" if name == "c" else "Concept"} for name in "abcde"],
        [
            {"from": "a", "to": "b", "relation": "USES", "weight": 0.9},
            {"from": "c", "to": "b", "relation": "USES", "weight": 0.8},
            {"from": "c", "to": "d", "relation": "USES", "weight": 0.7},
            {"from": "a", "to": "e", "relation": "USES", "weight": 0.1},
        ],
    )


@pytest.mark.shows("graph_query", 2, 11)
async def test_hops_weights_and_limits_bound_a_query(agent: Agent) -> None:
    await chain(agent)
    assert [node["id"] for node in (await agent.query("a"))["nodes"]] == ["a", "b", "c"]
    assert [node["id"] for node in (await agent.query("a", max_hops=4))["nodes"]] == ["a", "b", "c", "d"]
    assert [node["id"] for node in (await agent.query("a", max_hops=1, min_weight=0))["nodes"]] == ["a", "b", "e"]
    answer = await agent.query("a", max_hops=0)
    assert ([node["id"] for node in answer["nodes"]], answer["edges"]) == (["a"], [])
    answer = await agent.query("a", limit=2)
    assert [node["id"] for node in answer["nodes"]] == ["a", "b"]
    assert [(edge["from"], edge["to"], edge["effective_weight"]) for edge in answer["edges"]] == [("a", "b", 0.9)]


@pytest.mark.shows("graph_query", 11)
@pytest.mark.parametrize(
    "wrong",
    [
        *({"max_hops": -1}, {"max_hops": 5}, {"max_hops": 1.5}, {"min_weight": -0.1}, {"min_weight": 1.1}),
        *({"limit": 0}, {"limit": 201}, {"context_level": "some"}),
    ],
    ids=str,
)
def test_a_question_out_of_bounds_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        QueryInput.model_validate({"entities": ["a"], **wrong})


@pytest.mark.shows("graph_query", 12, 13)
async def test_a_whole_answer_has_everything_once_the_strongest_first_and_changes_nothing(agent: Agent) -> None:
    await chain(agent)
    files = [{"name": name, "type": "Concept", "properties": {"source_file": "two.md"}} for name in "bcd"]
    await agent.batch(files, [{"from": "a", "to": "d", "relation": "USES", "weight": 0.5}])
    before = await agent.edges("b"), await agent.edges("d")
    answer = await agent.query("a", "b", "d", "A", max_hops=4, min_weight=0, project_context="c")
    assert sorted(node["id"] for node in answer["nodes"]) == ["a", "b", "c", "d", "e"]
    assert len({(edge["from"], edge["type"], edge["to"]) for edge in answer["edges"]}) == len(answer["edges"]) == 5
    weights = [edge["effective_weight"] for edge in answer["edges"]]
    assert weights == sorted(weights, reverse=True)
    assert max(weights) > 0.9
    assert answer["source_files"] == ["two.md"]
    assert (await agent.edges("b"), await agent.edges("d")) == before
    nothing = await agent.query()
    assert [nothing[name] for name in ("found", "nodes", "edges", "source_files")] == [False, [], [], []]


@pytest.mark.shows("graph_query", 8)
async def test_a_cursor_goes_on_and_belongs_to_its_question(agent: Agent) -> None:
    await chain(agent)
    first = await agent.query("a", limit=2, max_hops=4, min_weight=0)
    second = await agent.query("a", limit=2, max_hops=4, min_weight=0, cursor=first["next_cursor"])
    third = await agent.query("a", limit=2, max_hops=4, min_weight=0, cursor=second["next_cursor"])
    assert [node["id"] for page in (first, second, third) for node in page["nodes"]] == ["a", "b", "c", "d", "e"]
    assert "next_cursor" not in third
    assert sum(len(page["edges"]) for page in (first, second, third)) == 4
    with pytest.raises(InvalidInput, match="cursor"):
        await agent.query("b", limit=2, cursor=first["next_cursor"])


@pytest.mark.shows("graph_query", 3)
async def test_types_filter_what_is_shown_and_not_the_way_there(agent: Agent) -> None:
    await chain(agent)
    answer = await agent.query("a", entity_types=["project"])
    assert [node["id"] for node in answer["nodes"]] == ["c"]
    assert {(edge["from"], edge["to"]) for edge in answer["edges"]} == {("a", "b"), ("c", "b")}


@pytest.mark.shows("graph_query", 5)
async def test_context_levels_show_less(agent: Agent) -> None:
    await chain(agent)
    minimal = await agent.query("a", context_level="minimal")
    assert minimal["edge_count"] == 2
    assert "edges" not in minimal
    assert set(minimal["nodes"][0]) == {"id", "name", "type", "confidence", "distance"}
    shape = await agent.query("a", context_level="relations-only")
    assert len(shape["edges"]) == 2
    assert set(shape["nodes"][0]) == {"id", "name", "type", "distance"}


@pytest.mark.shows("graph_query", 4)
async def test_what_is_near_the_active_project_weighs_more(agent: Agent) -> None:
    await chain(agent)
    await agent.batch([{"name": "c", "type": "Project", "properties": {"directory": "/home/ann/work/c"}}])
    for context in ("c", "/home/ann/work/c/src", "/home/ann/work/c/"):
        answer = await agent.query("a", project_context=context)
        assert answer["project"] == "c"
        assert {edge["from"]: edge["effective_weight"] for edge in answer["edges"]} == pytest.approx(
            {"a": 0.9 * 1.3, "c": 0.8 * 1.3}
        )
    assert (await agent.query("a", project_context="/nowhere"))["project"] is None


@pytest.mark.shows("graph_query", 1)
@pytest.mark.shows("graph_entities", 6)
async def test_unknown_names_are_no_error_and_typos_are_found(agent: Agent) -> None:
    await agent.relate("Katherine Johnson", "USES", "Slide Rule")
    assert (await agent.query("Nobody At All"))["found"] is False
    answer = await agent.query("Kathrine Johnson", "Nobody At All")
    assert (answer["found"], answer["seeds"], answer["not_found"]) == (True, ["katherine-johnson"], ["Nobody At All"])
    assert (await agent.entities(id="Nobody At All")) == {"found": False, "entities": [], "total": 0}


@pytest.mark.shows("graph_query", 7)
async def test_a_hub_is_bounded_and_its_answer_the_same_each_time(plain_agent: Agent) -> None:
    for start in range(0, 1200, 400):
        names = [f"spoke {number}" for number in range(start, start + 400)]
        await plain_agent.batch(
            [{"name": "hub", "type": "Concept"}, *({"name": name, "type": "Concept"} for name in names)],
            [{"from": "hub", "to": name, "relation": "USES", "weight": 0.5} for name in names],
        )
    answer = await plain_agent.query("hub", limit=7)
    assert len(answer["nodes"]) == 7
    assert answer == await plain_agent.query("hub", limit=7)
    assert (await plain_agent.entity("hub"))["edge_count"] == 1200


@pytest.mark.shows("graph_entities", 1, 3)
async def test_entities_are_filtered_sorted_paged_and_counted(agent: Agent) -> None:
    await agent.batch(
        [
            {"name": name, "type": kind, "properties": {"confidence": confidence}}
            for name, kind, confidence in (("Beta", "Tool", 0.9), ("alpha", "Tool", 0.4), ("Gamma", "Person", 0.7))
        ]
    )
    names = [entity["name"] for entity in (await agent.entities())["entities"]]
    assert names == ["Beta", "Gamma", "alpha"]
    by_name = await agent.entities(sort_by="name", limit=2)
    assert [entity["name"] for entity in by_name["entities"]] == ["alpha", "Beta"]
    rest = await agent.entities(sort_by="name", limit=2, cursor=by_name["next_cursor"])
    assert ([entity["name"] for entity in rest["entities"]], rest.get("next_cursor")) == (["Gamma"], None)
    strong = await agent.entities(type="tool", min_confidence=0.5)
    assert (strong["total"], strong["total_entities"], len(strong["entities"])) == (1, 3, 1)
    found = await agent.entities(search="alpha beta", sort_by="name")
    assert [entity["name"] for entity in found["entities"]] == ["alpha", "Beta"][: found["total"]]


@pytest.mark.shows("graph_entities", 1)
async def test_a_search_counts_what_fits_beyond_what_it_lists(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.memory.catalogue._HITS", 2)
    for kind, many in (("Tool", 5), ("Person", 3)):
        about = [{"confidence": 0.1 * number, "note": "an editor"} for number in range(many)]
        await agent.batch([{"name": f"{kind} {n}", "type": kind, "properties": each} for n, each in enumerate(about)])
    every = await agent.entities(search="editor")
    assert (every["total"], every["total_entities"], len(every["entities"])) == (8, 8, 2)
    assert (await agent.entities(search="editor", type="tool"))["total"] == 5
    assert (await agent.entities(search="editor", type="tool", min_confidence=0.25))["total"] == 2
    assert (await agent.entities(search="person"))["total"] == 3
    assert (await agent.entities(search="editor", as_of="1999-01-01", as_of_basis="ingestion"))["total"] == 0


@pytest.mark.shows("graph_entities", 5)
async def test_what_was_searched_is_sorted_like_what_is_listed(plain_agent: Agent) -> None:
    for name, confidence in (("Gamma", 0.7), ("Beta", 0.9), ("alpha", 0.4)):
        described = {"confidence": confidence, "description": "an editor"}
        await plain_agent.batch([{"name": name, "type": "Object", "properties": described}])
    for words in ({}, {"search": "editor"}):
        for sort, names in (
            ("confidence", ["Beta", "Gamma", "alpha"]),
            ("last_seen", ["alpha", "Beta", "Gamma"]),
            ("name", ["alpha", "Beta", "Gamma"]),
        ):
            answer = await plain_agent.entities(sort_by=sort, **words)
            assert [entity["name"] for entity in answer["entities"]] == names, (sort, words)


@pytest.mark.shows("graph_search", 5, 6, 7)
async def test_an_expansion_has_the_thirty_strongest_once_each_as_they_are_stored(plain_agent: Agent) -> None:
    spokes = [f"spoke {number}" for number in range(33)]
    await plain_agent.batch(
        [{"name": "zebra", "type": "Concept"}, *({"name": name, "type": "Object"} for name in spokes)],
        [
            {"from": name, "to": "zebra", "relation": "USES", "weight": 0.3 + number / 100}
            for number, name in enumerate(spokes)
        ],
    )
    answer = await plain_agent.search("zebra", entity_types=["concept"])
    (seed,) = answer["seeds"]
    assert {"id", "name", "type", "confidence", "similarity", "score"} <= set(seed)
    assert "words alone" in answer["note"]
    expansion = answer["expansion"]
    assert (expansion["node_count"], expansion["edge_count"]) == (30, 30)
    assert [edge["from_name"] for edge in expansion["edges"]] == spokes[:2:-1]
    assert {(edge["to"], edge["type"], edge["relation"]) for edge in expansion["edges"]} == {("zebra", "USES", "USES")}
    assert {node["from_seed"] for node in expansion["nodes"]} == {"zebra"}
    few = await plain_agent.search("zebra", entity_types=["concept"], expand_min_weight=0.6)
    assert [edge["from_name"] for edge in few["expansion"]["edges"]] == ["spoke 32", "spoke 31"]
    nobody = await plain_agent.search("zebra", entity_types=["Person"])
    assert (nobody["query"], nobody["seeds"], nobody["expansion"]) == ("zebra", [], None)
    assert nobody["note"]


@pytest.mark.shows("graph_search", 1, 2)
async def test_search_finds_by_meaning_and_expands_over_current_relations(agent: Agent) -> None:
    await agent.batch(
        [
            {"name": "f1", "type": "Fact", "properties": {"content": "Her dog loves long walks on the beach."}},
            {"name": "f2", "type": "Fact", "properties": {"content": "The database runs on port 7687."}},
            {"name": "Ann", "type": "Person"},
        ],
        [{"from": "f1", "to": "Ann", "relation": "ATTRIBUTED_TO", "weight": 0.7}],
    )
    answer = await agent.search("pet animals", min_similarity=0.5, explain=True, top_k=2)
    assert answer["seeds"][0]["id"] == "f1"
    seed = answer["seeds"][0]
    assert seed["score"] == pytest.approx((1 + seed["similarity"]) / 2)
    edge = answer["expansion"]["edges"][0]
    assert (edge["from"], edge["from_name"], edge["relation"], edge["to_name"]) == ("f1", "f1", "ATTRIBUTED_TO", "Ann")
    assert "explain" in answer
    assert (await agent.search("pet animals", expand=False))["expansion"] is None


@pytest.mark.shows("graph_stats", 1, 2, 4)
async def test_stats_count_what_holds_and_contradictions_without_a_mark(agent: Agent) -> None:
    await agent.relate("Ann", "WORKS_AT", "Acme", to_type="Organization", valid_at="2020-01-01", weight=0.5)
    await agent.relate("Ann", "WORKS_AT", "Globex", to_type="Organization", valid_at="2022-01-01", weight=0.5)
    await agent.relate("Fact 1", "CONTRADICTS", "Fact 2", from_type="Fact", to_type="Fact", weight=0.7)
    await agent.batch([{"name": "lonely", "type": "Concept"}])
    answer = await agent.stats()
    assert answer["schema_version"].isdigit()
    assert answer["nodes"] == {"total": 6, "by_type": {"Fact": 2, "Organization": 2, "Concept": 1, "Person": 1}}
    assert answer["edges"] == {"total": 2, "by_type": {"CONTRADICTS": 1, "WORKS_AT": 1}, "ended": 1}
    assert answer["health"]["orphaned_nodes"] == 1
    assert answer["health"]["unresolved_contradictions"] == 1
    assert answer["health"]["avg_weight"] == 0.6
    assert answer["health"]["last_dream_run"] is None


@pytest.mark.shows("graph_search", 3)
async def test_an_empty_memory_answers_everything(service: MemoryService, tenant: str) -> None:
    agent = Agent(service, tenant, ("",), "")
    assert (await agent.stats())["health"]["avg_weight"] is None
    assert (await agent.entities())["entities"] == []
    assert (await agent.search("anything"))["seeds"] == []

"""``graph_validate`` finds what may be wrong and leaves alone what is not."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import InvalidInput
from app.memory.service import MemoryService
from app.store.database import Database
from tests.memory.analysis.conftest import do, entity, relation
from tests.memory.conftest import Agent


def _kinds(answer: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(issue["entity_id"], issue["type"], issue["severity"]) for issue in answer["issues"]}


@pytest.mark.shows("graph_validate", 1, 2, 3, 4, 6, 8)
async def test_each_check_finds_its_fault_and_short_real_names_are_none(plain_agent: Agent) -> None:
    """W-M26: every advertised check, and no fault in "Go", "R" or "日本"."""
    good = ["Go", "R", "C", "C++", "日本", "Vim"]
    await plain_agent.batch(
        [
            *(entity(name, confidence=0.7) for name in good),
            entity("Ann", "Person", confidence=0.8),
            entity("Acme", "Concept", confidence=0.6),
            entity("thing", confidence=0.7),
            entity("42", confidence=0.7),
            entity("the new laptop", confidence=0.7),
            entity("Graph Memory", confidence=0.7),
            entity("GraphMemory", confidence=0.7),
            entity("Certain", confidence=1.0),
            entity("Left alone"),
        ],
        [
            *(relation("Ann", "KNOWS_ABOUT", name) for name in good),
            relation("Ann", "WORKS_AT", "Acme"),
            relation("Ann", "USES", "thing"),
            relation("Ann", "USES", "42"),
            relation("Ann", "USES", "the new laptop"),
            relation("Ann", "USES", "Graph Memory"),
            relation("Ann", "USES", "GraphMemory"),
            relation("Ann", "USES", "Certain"),
        ],
    )
    answer = await do(plain_agent, "graph_validate")
    assert _kinds(answer) == {
        ("thing", "generic_name", "high"),
        ("42", "meaningless_name", "high"),
        ("the-new-laptop", "reference_language", "high"),
        ("acme", "type_mismatch", "medium"),
        ("graphmemory", "near_duplicate", "medium"),
        ("certain", "extreme_confidence", "low"),
        ("left-alone", "orphan", "low"),
    }
    assert answer["issue_count"] == answer["total_issues"] == 7
    assert answer["by_severity"] == {"high": 3, "medium": 2, "low": 2}
    assert answer["scope"] == "full graph"
    for issue in answer["issues"]:
        assert issue["issue"] == issue["description"]
        assert issue["entity_type"]
    assert [issue["severity"] for issue in answer["issues"]] == ["high"] * 3 + ["medium"] * 2 + ["low"] * 2
    twin = next(issue for issue in answer["issues"] if issue["type"] == "near_duplicate")
    assert twin["other_id"] == "graph-memory"


@pytest.mark.shows("graph_validate", 6)
async def test_confidence_that_no_call_could_store_is_found(plain_agent: Agent, database: Database) -> None:
    await plain_agent.relate("Ann", "USES", "Vim")
    async with database.driver.session(database=database.name) as session:
        await session.run(
            "MATCH (n:Entity {tenant: $tenant, id: 'vim'}) SET n.confidence = 7.5", tenant=plain_agent.tenant
        )
    assert ("vim", "extreme_confidence", "high") in _kinds(await do(plain_agent, "graph_validate"))


@pytest.mark.shows("graph_validate", 7)
async def test_an_orphan_of_default_confidence_is_found_and_a_rule_is_none(plain_agent: Agent) -> None:
    """W-M26: the rule missed the default confidence of 0.5."""
    await plain_agent.batch(
        [entity("Alone"), entity("Alone and sure", confidence=0.9), entity("No emoji", "Preference", subtype="rule")]
    )
    assert _kinds(await do(plain_agent, "graph_validate")) == {("alone", "orphan", "low")}


@pytest.mark.shows("graph_validate", 5)
async def test_many_alike_names_are_grouped_and_each_is_reported_once(plain_agent: Agent) -> None:
    """W-M26: a self-join compared each name with each."""
    names = [f"{one}{two}" for one in ("data base", "Data-base x", "database") for two in ("", " 1", " 2")]
    await plain_agent.batch([entity(name, confidence=0.8) for name in names])
    found = [
        issue for issue in (await do(plain_agent, "graph_validate"))["issues"] if issue["type"] == "near_duplicate"
    ]
    assert sorted((issue["entity_id"], issue["other_id"]) for issue in found) == [
        ("database", "data-base"),
        ("database-1", "data-base-1"),
        ("database-2", "data-base-2"),
    ]


@pytest.mark.shows("graph_validate", 9)
async def test_a_conversation_narrows_the_check_to_what_it_told_of(plain_agent: Agent) -> None:
    await plain_agent.relate("Ann", "USES", "thing", source_session="s-1")
    await plain_agent.relate("Bob", "USES", "stuff it", source_session="s-2")
    await plain_agent.relate("Bob", "USES", "system", source_session="s-2")
    answer = await do(plain_agent, "graph_validate", source_session="s-2")
    assert _kinds(answer) == {("system", "generic_name", "high")}
    assert answer["scope"] == "session:s-2"


@pytest.mark.shows("graph_validate", 10)
async def test_pages_show_every_issue_once(plain_agent: Agent) -> None:
    await plain_agent.batch([entity(f"the part {number}", confidence=0.8) for number in range(7)])
    seen: list[str] = []
    cursor = None
    for _ in range(10):
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        answer = await do(plain_agent, "graph_validate", max_issues=3, **more)
        assert answer["issue_count"] == 7
        assert len(answer["issues"]) <= 3
        seen += [issue["entity_id"] for issue in answer["issues"]]
        cursor = answer.get("next_cursor")
        if cursor is None:
            break
    assert sorted(seen) == [f"the-part-{number}" for number in range(7)]
    with pytest.raises(InvalidInput):
        await do(plain_agent, "graph_validate", cursor="made up")


@pytest.mark.shows("graph_validate", 11)
async def test_the_merged_view_is_judged_and_hidden_layers_never(service: MemoryService, tenant: str) -> None:
    service.embedder.identity = None
    wide, hidden = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("b",), "b")
    await wide.relate("Ann", "USES", "Vim", weight=0.7)
    await hidden.batch([entity("Vim", "Person", confidence=0.7), entity("thing")], [relation("Vim", "USES", "thing")])
    assert (await do(wide, "graph_validate"))["issues"] == []
    both = Agent(service, tenant, ("", "b"), None)
    assert ("vim", "type_mismatch", "medium") in _kinds(await do(both, "graph_validate"))

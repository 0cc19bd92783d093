"""``graph_communities`` divides what is remembered into what hangs together."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from app.memory.service import MemoryService
from tests.memory.analysis.conftest import do, entity, relation
from tests.memory.conftest import Agent

NAMES = {"a": ["Ann", "Art", "Ada", "Abe", "Amy"], "b": ["Bob", "Ben", "Bea", "Bill"]}


async def _two_worlds(agent: Agent, **more: Any) -> None:
    entities = [entity(name, "Person" if key == "a" else "Concept") for key in NAMES for name in NAMES[key]]
    relations = [
        relation(one, "KNOWS", two, weight=0.9 if "Ann" in {one, two} else 0.7)
        for names in NAMES.values()
        for one, two in combinations(names, 2)
    ]
    await agent.batch([*entities, entity("Zoe", "Person")], [*relations, relation("Ann", "RELATED_TO", "Bob", **more)])


@pytest.mark.shows("graph_communities", 1, 2, 3, 4, 5)
async def test_worlds_come_largest_first_labelled_by_their_most_central_members(plain_agent: Agent) -> None:
    await _two_worlds(plain_agent, weight=0.5)
    answer = await do(plain_agent, "graph_communities")
    first, second = answer["communities"]
    assert (first["id"], first["member_count"], first["dominant_type"]) == (1, 5, "Person")
    assert (second["id"], second["member_count"], second["dominant_type"]) == (2, 4, "Concept")
    assert (first["seed_id"], first["seed_name"]) == ("ann", "Ann")
    assert first["label"].startswith("Ann, ")
    assert {member["name"] for member in first["members"]} == set(NAMES["a"])
    assert first["members"][0] == {"id": "ann", "name": "Ann", "type": "Person"}
    assert (answer["total_members"], answer["coverage_pct"], answer["total_communities"]) == (9, 90.0, 2)
    assert answer["coverage"] == {"total_entities": 10, "assigned": 9, "unassigned": 1}


@pytest.mark.shows("graph_communities", 6)
async def test_the_same_memory_gives_the_same_answer(plain_agent: Agent) -> None:
    await _two_worlds(plain_agent, weight=0.5)
    answers = [await do(plain_agent, "graph_communities", max_hops=hops) for hops in (1, 4, 3)]
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.shows("graph_communities", 7, 8)
async def test_only_strong_current_relations_bind(plain_agent: Agent) -> None:
    """W-M14: what has ended bound too; W-M13: paths were enumerated."""
    await plain_agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01", weight=0.9)
    await plain_agent.relate("Ann", "WORKS_AT", "Bolt", valid_at="2022-01-01", weight=0.9)
    await plain_agent.relate("Cid", "KNOWS", "Dan", weight=0.4)
    answer = await do(plain_agent, "graph_communities")
    assert [{member["id"] for member in found["members"]} for found in answer["communities"]] == [{"ann", "bolt"}]
    wide = await do(plain_agent, "graph_communities", weight_threshold=0.3)
    assert wide["total_communities"] == 2
    assert (await do(plain_agent, "graph_communities", min_size=3))["communities"] == []
    assert (
        len((await do(plain_agent, "graph_communities", weight_threshold=0.3, max_communities=1))["communities"]) == 1
    )


@pytest.mark.shows("graph_communities", 9)
async def test_an_empty_memory_has_none(plain_agent: Agent) -> None:
    answer = await do(plain_agent, "graph_communities")
    assert (answer["communities"], answer["coverage_pct"], answer["quality"]) == ([], 0.0, None)


@pytest.mark.shows("graph_communities", 10)
async def test_a_hidden_layer_binds_nothing(service: MemoryService, tenant: str) -> None:
    service.embedder.identity = None
    wide, hidden = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("b",), "b")
    await wide.relate("Ann", "KNOWS", "Art", weight=0.9)
    await wide.relate("Bob", "KNOWS", "Ben", weight=0.9)
    before = await do(wide, "graph_communities")
    await hidden.relate("Ann", "KNOWS", "Bob", weight=1.0)
    await hidden.relate("Art", "KNOWS", "Ben", weight=1.0)
    assert await do(wide, "graph_communities") == before
    assert before["total_communities"] == 2


@pytest.mark.shows("graph_communities", 4)
async def test_at_most_thirty_members_are_listed(plain_agent: Agent) -> None:
    names = [f"part {number}" for number in range(40)]
    await plain_agent.batch([entity(name) for name in ["Hub", *names]], [relation("Hub", "CONTAINS", n) for n in names])
    found = (await do(plain_agent, "graph_communities"))["communities"][0]
    assert (found["member_count"], len(found["members"]), found["seed_id"]) == (41, 30, "hub")

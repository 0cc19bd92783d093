"""``graph_build_context``: what a session needs, first what it needs first."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest

from app.memory.service import MemoryService
from app.store.control.runs import Run, RunStore, new_run_id
from app.store.database import Database, Writing
from tests.memory.analysis.conftest import do, entity, relation
from tests.memory.conftest import Agent

KEYS = {
    *("generated_at", "rules", "pending_work", "last_dream", "topic_neighbourhood", "contradictions"),
    *("recent_entities", "top_hubs", "stats", "graph_health", "recent_additions"),
}


async def _lived(agent: Agent) -> None:
    await agent.batch(
        [
            entity("Ann", "Person", confidence=0.9),
            entity("Atlas", "Project", directory="/home/ann/atlas"),
            entity("No emoji", "Preference", subtype="rule", value="Never write emoji.", confidence=1.0),
            entity("uses Vue", "Fact", content="The project uses Vue."),
            entity("uses React", "Fact", content="The project uses React."),
            *(entity(f"part {number}") for number in range(5)),
        ],
        [
            relation("Ann", "PREFERS", "No emoji", weight=1.0),
            relation("Ann", "WORKS_ON", "Atlas", weight=0.8, evidence="Ann leads Atlas."),
            relation("uses Vue", "CONTRADICTS", "uses React"),
            *(relation("Atlas", "CONTAINS", f"part {number}", weight=0.6) for number in range(5)),
        ],
    )


@pytest.mark.shows("graph_build_context", 1, 2, 3, 4, 5, 6)
async def test_one_call_tells_what_a_session_needs(plain_agent: Agent) -> None:
    await _lived(plain_agent)
    answer = await do(plain_agent, "graph_build_context", topic="Atlas", project_cwd="/home/ann/atlas")
    assert set(answer) == KEYS
    assert list(answer)[:3] == ["generated_at", "rules", "pending_work"]
    assert answer["rules"] == [{"id": "no-emoji", "name": "No emoji", "text": "Never write emoji."}]
    assert (answer["stats"]["nodes"]["total"], answer["graph_health"]["nodes"]) == (10, 10)
    assert (answer["graph_health"]["edges"], answer["graph_health"]["unresolved_contradictions"]) == (8, 1)
    assert {"by_node_type", "avg_weight", "orphaned", "stale"} <= set(answer["graph_health"])
    added = answer["recent_additions"]
    assert (added["days"], added["entity_count"], added["edge_count"]) == (7, 10, 8)
    assert added["entities"] == answer["recent_entities"]
    assert set(answer["recent_entities"][0]) == {"id", "name", "type", "first_seen", "confidence"}
    assert [(hub["id"], hub["degree"]) for hub in answer["top_hubs"]] == [("atlas", 6)]
    assert {answer["contradictions"][0][side]["id"] for side in ("node_a", "node_b")} == {"uses-vue", "uses-react"}
    around = answer["topic_neighbourhood"]
    assert (around["topic"], around["node_count"], around["edge_count"]) == ("Atlas", 8, 7)
    assert around["nodes"][0]["id"] == "atlas"
    assert any(edge.get("evidence") == "Ann leads Atlas." for edge in around["edges"])


@pytest.mark.shows("graph_build_context", 5, 7)
async def test_what_was_not_asked_for_is_null_and_what_ended_is_no_hub(plain_agent: Agent) -> None:
    """W-M14: hubs counted what has ended."""
    for number, place in enumerate(("Rome", "Oslo", "Bonn", "Kyiv")):
        await plain_agent.relate("Ann", "LOCATED_IN", place, valid_at=f"202{number}-01-01", weight=0.9)
    answer = await do(plain_agent, "graph_build_context", include_contradictions=False)
    assert (answer["contradictions"], answer["topic_neighbourhood"], answer["top_hubs"]) == (None, None, [])
    unknown = await do(plain_agent, "graph_build_context", topic="Nobody knows")
    assert unknown["topic_neighbourhood"]["node_count"] == 0


@pytest.mark.shows("graph_build_context", 8)
async def test_a_small_budget_cuts_what_is_needed_least_and_counts_it(plain_agent: Agent) -> None:
    await _lived(plain_agent)
    whole = await do(plain_agent, "graph_build_context", topic="Atlas")
    small = await do(plain_agent, "graph_build_context", topic="Atlas", token_budget=800)
    assert len(orjson.dumps(small)) < len(orjson.dumps(whole))
    assert len(orjson.dumps({**small, "omitted": {}})) <= 800 * 3 + 50
    assert small["omitted"]["recent_additions.entities"] == 10
    assert small["rules"] == whole["rules"]
    assert "omitted" not in whole


@pytest.mark.shows("graph_build_context", 9)
@pytest.mark.shows("graph_stats", 3)
async def test_only_the_tenants_own_runs_and_work_are_told(
    service: MemoryService, database: Database, tenant: str
) -> None:
    """W-M06: everybody saw everybody's queue and last run."""
    service.embedder.identity = None
    mine, other = Agent(service, tenant, ("",), ""), Agent(service, f"{tenant}x", ("",), "")
    hidden = Agent(service, tenant, ("b",), "b")
    now = int(time.time() * 1000)
    await _ran(database, mine, now - 7_200_000, "")
    await _ran(database, other, now - 60_000, "")
    await _ran(database, hidden, now - 30_000, "b")
    answer = await do(mine, "graph_build_context")
    assert (answer["last_dream"]["source"], answer["last_dream"]["entities_created"]) == ("nightly", 4)
    assert answer["pending_work"]["hours_since_last_dream"] == pytest.approx(2.0, abs=0.1)
    assert (answer["pending_work"]["unprocessed_transcripts"], answer["pending_work"]["pending_ingests"]) == (0, 0)
    health: dict[str, Any] = (await mine.stats())["health"]
    assert health["last_dream_run"] == answer["pending_work"]["last_dream_run"] is not None
    assert (health["pending_ingest_docs"], health["total_ingested_docs"]) == (0, 0)
    assert (await do(other, "graph_build_context"))["pending_work"]["hours_since_last_dream"] < 0.5
    nobody = Agent(service, f"{tenant}y", ("",), "")
    fresh = await do(nobody, "graph_build_context")
    assert (fresh["last_dream"], fresh["pending_work"]["last_dream_run"]) == (None, None)


async def _ran(database: Database, agent: Agent, at: int, layer: str) -> None:
    store = RunStore(database.control)
    run = Run(
        *(new_run_id(), "dream", "user", "user\nlaptop", "laptop", "nightly", (layer,), (f"learning:{layer}",)),
        begun_at=at - 1000,
        beat_at=at,
        expires_at=at,
    )

    async def work(writing: Writing) -> None:
        await store.save(writing, agent.tenant, replace(run, state="completed", ended_at=at, entities=4))

    await database.control.write(work)


@pytest.mark.shows("graph_build_context", 10)
async def test_hidden_layers_show_in_no_part(service: MemoryService, tenant: str) -> None:
    service.embedder.identity = None
    wide, hidden = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("b",), "b")
    await _lived(wide)
    before = await do(wide, "graph_build_context", topic="Atlas")
    await _lived(hidden)
    await hidden.relate("Atlas", "CONTAINS", "secret part", weight=1.0)
    after = await do(wide, "graph_build_context", topic="Atlas")
    assert {**after, "generated_at": ""} == {**before, "generated_at": ""}


async def test_a_briefing_tells_what_was_written_since_the_last_one(plain_agent: Agent) -> None:
    await _lived(plain_agent)
    before = await do(plain_agent, "graph_build_context")
    assert await do(plain_agent, "graph_build_context") | {"generated_at": ""} == before | {"generated_at": ""}
    await plain_agent.relate("Atlas", "CONTAINS", "part 9", weight=0.6)
    after = await do(plain_agent, "graph_build_context")
    assert after["stats"]["nodes"]["total"] == before["stats"]["nodes"]["total"] + 1
    assert after["recent_additions"]["edge_count"] == before["recent_additions"]["edge_count"] + 1
    assert after["top_hubs"][0]["degree"] == before["top_hubs"][0]["degree"] + 1


@pytest.mark.shows("graph_build_context", 5)
async def test_hubs_are_those_that_counting_every_relation_gives(
    service: MemoryService, database: Database, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few are looked into first, and whatever each has that is weak, ended, doubled or hidden."""
    service.embedder.identity = None
    both = Agent(service, tenant, ("", "a"), "a")
    chance = Random(3)
    names = [f"thing {number}" for number in range(14)]
    for agent in (Agent(service, tenant, ("",), ""), both, Agent(service, tenant, ("b",), "b")):
        pairs = [(chance.choice(names[:6]), chance.choice(names)) for _ in range(45)]
        said = {(one, chance.choice(("USES", "WORKS_AT")), other) for one, other in pairs if one != other}
        told = [relation(*triple, valid_at="2020-01-01", weight=chance.random()) for triple in sorted(said)]
        await agent.batch([entity(name) for name in names], told)
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            """
            MATCH (a:Entity {tenant: $tenant})-[r]->(b) WHERE a.layer IN ['', 'a'] AND r.invalid_at IS NULL
              AND r.weight > 0.3
            RETURN DISTINCT a.id AS source, type(r) AS verb, b.id AS target
            """,
            tenant=tenant,
        )
        strong = [(row["source"], row["verb"], row["target"]) async for row in result]
    degrees = Counter(end for source, _, target in strong for end in {source, target})
    expected = sorted(((id_, many) for id_, many in degrees.items() if many >= 3), key=lambda hub: (-hub[1], hub[0]))
    assert len(expected) > 5
    monkeypatch.setattr("app.memory.analysis.context._WIDER", 2)
    for width, count in ((1, 1), (1, 5), (2, 20), (200, 3)):
        monkeypatch.setattr("app.memory.analysis.context._WIDTH", width)
        hubs = (await do(both, "graph_build_context", hub_count=count))["top_hubs"]
        assert [(hub["id"], hub["degree"]) for hub in hubs] == expected[:count]

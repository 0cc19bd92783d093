"""Figures of one layer come another way than those of several."""

from __future__ import annotations

from typing import Any

import pytest

from app.memory.figures.queries import STATS_OF_ONE_LAYER
from app.memory.stats import figures
from app.store.database import Database, TenantSession
from app.store.statement import Statement
from tests.memory.conftest import Agent


@pytest.mark.shows("graph_stats", 2)
async def test_the_figures_of_one_layer_are_those_that_grouping_gives(plain_agent: Agent) -> None:
    await plain_agent.batch(
        [
            *({"name": name, "type": "Concept"} for name in ("alone", "Babbage", "Society")),
            *({"name": name, "type": "Fact"} for name in ("Vue", "React")),
            {"name": "Ada", "type": "Person"},
        ],
        [
            {"from": "Ada", "relation": "WORKS_AT", "to": "Babbage", "valid_at": "2020-01-01", "weight": 0.9},
            {"from": "Ada", "relation": "WORKS_AT", "to": "Society", "valid_at": "2022-01-01", "weight": 0.4},
            {"from": "Vue", "relation": "CONTRADICTS", "to": "React"},
            {"from": "Vue", "relation": "CONTRADICTS", "to": "Ada", "properties": {"resolved": True}},
        ],
    )
    async with plain_agent.service.database.driver.session() as session:
        faded = "MATCH (n:Entity {tenant: $of}) WHERE n.id IN ['vue', 'ada'] SET n.confidence = 0.1"
        aged = "MATCH (n:Entity {tenant: $of, id: 'vue'}) SET n.last_seen = datetime() - duration('P91D')"
        told = "MATCH (:Entity {tenant: $of, id: 'vue'})-[r]->() SET r.ingested_at = datetime('2020-01-01')"
        for text in (faded, aged, told):
            await (await session.run(text, of=plain_agent.tenant)).consume()
    call = plain_agent.call("graph_stats")
    tenant = plain_agent.service.database.session(call.scope, deadline=call.deadline, request_id="test")
    read = await plain_agent.service.kept.by_ranges(tenant)
    one, grouped = await figures(read, 1), await figures(read, 2)
    assert one == grouped
    assert (await figures(read, 1, days=90))[1] == one[1] == 2, "of two it was told long ago"
    shown: dict[str, Any] = await plain_agent.stats()
    assert (shown["nodes"]["total"], shown["health"]["orphaned_nodes"]) == (6, 1)
    assert (shown["edges"]["total"], shown["edges"]["ended"]) == (3, 1)
    assert (shown["health"]["unresolved_contradictions"], shown["health"]["stale_nodes"]) == (1, 1)


async def test_how_long_the_figures_take_tells_nothing_of_what_is_hidden(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only writes to layers that the caller may read have them read again."""
    read: list[str] = []
    real = TenantSession.read

    async def seen(session: TenantSession, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        read.append(statement.name)
        return await real(session, statement, **parameters)

    hidden = Agent(plain_agent.service, plain_agent.tenant, ("", "hidden"), "hidden")
    await plain_agent.relate("Ada", "KNOWS", "Engine")
    first = await plain_agent.stats()
    await hidden.relate("Ada", "KNOWS", "Engine")
    monkeypatch.setattr(TenantSession, "read", seen)
    assert await plain_agent.stats() == first
    assert read == []
    await plain_agent.relate("Ada", "KNOWS", "Lace")
    read.clear()
    assert (await plain_agent.stats())["nodes"]["total"] == 3
    assert read == [STATS_OF_ONE_LAYER.name]


async def test_what_is_just_going_is_counted_nowhere(agent: Agent, database: Database) -> None:
    """What another call deletes is still found by an index for a moment, without what it held."""
    await agent.batch([{"name": "Ann", "type": "Person"}])
    async with database.driver.session(database=database.name) as session:
        given = {"tenant": agent.tenant, "ids": ["going", "gone"]}
        await session.run("UNWIND $ids AS id CREATE (n:Entity {tenant: $tenant, layer: '', id: id})", given)
    assert (await agent.stats())["nodes"] == {"total": 1, "by_type": {"Person": 1}}
    wider = Agent(agent.service, agent.tenant, ("", "work"), "")
    assert (await wider.stats())["nodes"] == {"total": 1, "by_type": {"Person": 1}}

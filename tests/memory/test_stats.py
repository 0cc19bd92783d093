"""Figures of one layer come another way than those of several."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.memory.figures.queries import STATS, STATS_OF_ONE_LAYER, STATS_OF_ONE_LAYER_SINCE, STATS_SINCE
from app.store.database import TenantSession
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
    one, grouped = (await tenant.read(STATS_OF_ONE_LAYER))[0], (await tenant.read(STATS))[0]
    assert one["relations"] == grouped["relations"]
    assert one["types"] == [{key: value for key, value in row.items() if key != "stale"} for row in grouped["types"]]
    assert (one["stale"], grouped["stale"]) == (1, 1)
    for since, fresh in ((2021, 2), (2019, 4)):
        for statement, plain in ((STATS_OF_ONE_LAYER_SINCE, one), (STATS_SINCE, grouped)):
            row = (await tenant.read(statement, since=datetime(since, 1, 1, tzinfo=UTC)))[0]
            assert row == plain | {"fresh": fresh}
    figures: dict[str, Any] = await plain_agent.stats()
    assert (figures["nodes"]["total"], figures["health"]["orphaned_nodes"]) == (6, 1)
    assert (figures["edges"]["total"], figures["edges"]["ended"]) == (3, 1)
    assert (figures["health"]["unresolved_contradictions"], figures["health"]["stale_nodes"]) == (1, 1)


async def test_how_long_the_figures_take_tells_nothing_of_what_others_wrote(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are read anew for each call: a reading that is kept until somebody writes would tell when somebody did."""
    read: list[str] = []
    real = TenantSession.read

    async def seen(session: TenantSession, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        read.append(statement.name)
        return await real(session, statement, **parameters)

    monkeypatch.setattr(TenantSession, "read", seen)
    await plain_agent.stats()
    await plain_agent.stats()
    assert read == [STATS_OF_ONE_LAYER.name] * 2

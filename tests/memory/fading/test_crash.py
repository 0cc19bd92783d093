"""A crash between any two statements of a change leaves the graph as it was before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.memory.fading.queries import FADE
from app.store.database import Database, Writing
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do, entries


class _Crash(BaseException):
    """The process is gone."""


async def _held(agent: Agent) -> list[Any]:
    database = agent.service.database
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            """
            MATCH (n {tenant: $tenant}) WHERE n:Entity OR n:Alias RETURN labels(n) AS kind, properties(n) AS held
            UNION ALL
            MATCH (:Entity {tenant: $tenant})-[r]->() RETURN [type(r)] AS kind, properties(r) AS held
            """,
            tenant=agent.tenant,
        )
        return sorted([str((row["kind"], sorted(row["held"].items()))) async for row in result])


@pytest.mark.shows("graph_prune", 4)
@pytest.mark.shows("graph_delete", 11)
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("graph_delete", {"entity_id": "weak", "reason": "r"}),
        ("graph_prune", {"mode": "execute"}),
    ],
)
async def test_a_crash_at_any_statement_of_a_removal_leaves_what_there_was(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any]
) -> None:
    """W-M15: deletions and prunings were several transactions, and a crash left half of them."""
    await agent.batch(
        [
            {"name": "weak", "type": "Concept", "properties": {"confidence": 0.05}},
            {"name": "wk", "type": "Alias"},
            {"name": "strong", "type": "Concept", "properties": {"confidence": 0.9}},
        ],
        [
            {"from": "weak", "to": "strong", "relation": "USES", "weight": 0.04, "evidence": "faint whisper"},
            {"from": "wk", "to": "weak", "relation": "ALIAS_OF", "weight": 0.04},
        ],
    )
    before = await _held(agent)
    run = Writing.run
    statements = 0

    def crashing(at: int) -> Callable[..., Any]:
        async def counted(self: Writing, statement: Any, /, **parameters: Any) -> list[dict[str, Any]]:
            nonlocal statements
            rows = await run(self, statement, **parameters)
            statements += 1
            if statements == at:
                raise _Crash
            return rows

        return counted

    at = 0
    while True:
        at, statements = at + 1, 0
        monkeypatch.setattr(Writing, "run", crashing(at))
        try:
            await do(agent, tool, **arguments)
        except _Crash:
            monkeypatch.setattr(Writing, "run", run)
            assert await _held(agent) == before, f"after statement {at}"
            assert await entries(database, agent) == []
            continue
        break
    monkeypatch.setattr(Writing, "run", run)
    assert at > 6
    assert len(await _held(agent)) < len(before)


@pytest.mark.shows("graph_decay", 10)
async def test_a_decay_that_is_cut_short_is_made_whole_by_the_next(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M07: what was done before the crash is not done twice."""
    monkeypatch.setattr("app.memory.fading.decay._BATCH", 2)
    names = [f"thing {number}" for number in range(5)]
    await agent.batch([{"name": name, "type": "Person", "properties": {"confidence": 0.8}} for name in names])
    await backdate(database, agent, 30)
    run = Writing.run
    batches = 0

    async def crashing(self: Writing, statement: Any, /, **parameters: Any) -> list[dict[str, Any]]:
        nonlocal batches
        batches += statement is FADE
        if batches == 2:
            raise _Crash
        return await run(self, statement, **parameters)

    monkeypatch.setattr(Writing, "run", crashing)
    with pytest.raises(_Crash):
        await do(agent, "graph_decay")
    monkeypatch.setattr(Writing, "run", run)
    assert (await do(agent, "graph_decay"))["nodes_decayed"] == 3
    held = {(await agent.entity(name))["confidence"] for name in names}
    assert len(held) == 1
    assert held.pop() == pytest.approx(0.8 * 0.998**30)

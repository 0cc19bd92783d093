"""A decay that a crash ends between two batches. (Other changes are one transaction: tests/faults.)"""

from __future__ import annotations

from typing import Any

import pytest

from app.memory.fading.queries import FADE
from app.store.database import Database, Writing
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do, entries


class _Crash(BaseException):
    """The process is gone."""


@pytest.mark.shows("graph_decay", 10, 12)
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
    assert [entry.detail["nodes_decayed"] for entry in await entries(database, agent)] == [1, 2, 2]
    held = {(await agent.entity(name))["confidence"] for name in names}
    assert len(held) == 1
    assert held.pop() == pytest.approx(0.8 * 0.998**30)

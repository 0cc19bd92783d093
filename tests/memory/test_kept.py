"""Readings of a whole memory are kept while nobody writes."""

from __future__ import annotations

from typing import Any

import pytest

from app.memory import kept
from app.memory.figures.queries import STATS, STATS_OF_ONE_LAYER
from app.memory.kept import Kept
from app.store.database import TenantSession
from app.store.statement import Statement
from tests.memory.conftest import Agent


def _session(agent: Agent) -> TenantSession:
    call = agent.call("test")
    return agent.service.database.session(call.scope, deadline=call.deadline, request_id="test")


def _entities(rows: list[dict[str, Any]]) -> int:
    return sum(found["entities"] for found in rows[0]["types"])


async def test_what_was_read_is_kept_until_somebody_writes_to_that_tenant(plain_agent: Agent, tenant: str) -> None:
    held, other = Kept(), Agent(plain_agent.service, f"{tenant}other", ("",), "")
    read = held.reader(_session(plain_agent))
    await plain_agent.relate("Ada", "KNOWS", "Engine")
    first = await read(STATS_OF_ONE_LAYER)
    await other.relate("Bob", "KNOWS", "Engine")
    assert await read(STATS_OF_ONE_LAYER) is first
    assert await held.reader(_session(plain_agent))(STATS_OF_ONE_LAYER) is first, "another call of the same scope"
    wider = Agent(plain_agent.service, tenant, ("", "work"), "")
    assert await held.reader(_session(wider))(STATS_OF_ONE_LAYER) is not first
    assert _entities(await held.reader(_session(other))(STATS_OF_ONE_LAYER)) == 2
    await plain_agent.relate("Ada", "KNOWS", "Lace")
    assert _entities(await read(STATS_OF_ONE_LAYER)) == 3


async def test_what_was_written_while_it_was_read_is_not_missed_for_long(plain_agent: Agent) -> None:
    session = _session(plain_agent)

    class Overtaken:
        """A session that somebody else's write overtakes."""

        scope = session.scope

        @property
        def commits(self) -> int:
            return session.commits

        async def read(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
            rows = await session.read(statement, **parameters)
            await plain_agent.relate("Ada", "KNOWS", "Engine")
            return rows

    held = Kept()
    assert _entities(await held.reader(Overtaken())(STATS_OF_ONE_LAYER)) == 0  # type: ignore[arg-type]
    assert _entities(await held.reader(session)(STATS_OF_ONE_LAYER)) == 2


async def test_what_another_gateway_wrote_is_seen_after_a_while_and_little_is_kept(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Kept()
    read = held.reader(_session(plain_agent))
    first = await read(STATS_OF_ONE_LAYER)
    monkeypatch.setattr(kept, "LONGEST_SECONDS", -1.0)
    monkeypatch.setattr(kept, "_MOST", 1)
    assert await read(STATS_OF_ONE_LAYER) is first
    await read(STATS)
    assert await read(STATS_OF_ONE_LAYER) is not first, "only the newest reading was kept"
    again = await read(STATS_OF_ONE_LAYER)
    assert await read(STATS_OF_ONE_LAYER) is not again, "its time was over"

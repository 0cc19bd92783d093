"""Readings of a whole memory are kept, and what was written to is read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.memory import kept
from app.memory.kept import Kept
from app.store.database import TenantSession
from app.store.statement import Statement, statement
from tests.memory.conftest import Agent

FAR, FARTHEST = "\ufe73", "\U00010348"
"""Letters whose order by code points and by UTF-16 differ."""

COUNT = statement(
    "test.count_kept", "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers RETURN count(n) AS entities"
)
AGAIN = statement(
    "test.count_kept_again", "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers RETURN count(n) AS entities"
)
LISTED = statement(
    "test.list_kept",
    """
    UNWIND $ranges AS part
    CALL (part) {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id >= part.start AND n.id < part.end
      WITH n.id AS id ORDER BY id
      RETURN collect(id) AS ids
    }
    RETURN part.place AS place, ids
    """,
)


def _session(agent: Agent) -> TenantSession:
    call = agent.call("test")
    return agent.service.database.session(call.scope, deadline=call.deadline, request_id="test")


@pytest.fixture
def ranges_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ranges were read each time; ranges hold two entities."""
    monkeypatch.setattr(kept, "_FEWEST", 2)
    read: list[int] = []
    real = TenantSession.read

    async def seen(session: TenantSession, asked: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        if asked is LISTED:
            read.append(len(parameters["ranges"]))
        return await real(session, asked, **parameters)

    monkeypatch.setattr(TenantSession, "read", seen)
    return read


async def _listed(held: Kept, agent: Agent) -> list[str]:
    return [id_ for row in await (await held.by_ranges(_session(agent)))(LISTED) for id_ in row["ids"]]


async def test_what_was_read_is_kept_until_somebody_writes_to_those_layers(plain_agent: Agent, tenant: str) -> None:
    held, other = Kept(), Agent(plain_agent.service, f"{tenant}other", ("",), "")
    wider, hidden = (Agent(plain_agent.service, tenant, ("", layer), layer) for layer in ("work", "hidden"))
    read = held.reader(_session(plain_agent))
    await plain_agent.relate("Ada", "KNOWS", "Engine")
    first = await read(COUNT)
    await other.relate("Bob", "KNOWS", "Engine")
    await hidden.relate("Bob", "KNOWS", "Engine")
    assert await read(COUNT) is first
    assert await held.reader(_session(plain_agent))(COUNT) is first, "another call of the same scope"
    assert await held.reader(_session(wider))(COUNT) is not first
    assert (await held.reader(_session(other))(COUNT))[0]["entities"] == 2
    await plain_agent.relate("Ada", "KNOWS", "Lace")
    assert (await read(COUNT))[0]["entities"] == 3


async def test_only_the_ranges_that_were_written_to_are_read_again(
    plain_agent: Agent, tenant: str, ranges_read: list[int]
) -> None:
    held, other = Kept(), Agent(plain_agent.service, f"{tenant}other", ("",), "")
    hidden = Agent(plain_agent.service, tenant, ("", "hidden"), "hidden")
    names = [*(f"e{number}" for number in range(8)), FAR]
    await plain_agent.batch([{"name": name, "type": "Concept"} for name in names])
    assert await _listed(held, plain_agent) == names
    await plain_agent.relate("e0", "KNOWS", "e0a")
    assert await _listed(held, plain_agent) == sorted([*names, "e0a"])
    await plain_agent.relate(FAR, "KNOWS", FARTHEST)
    assert await _listed(held, plain_agent) == sorted([*names, "e0a", FARTHEST])
    await plain_agent.relate("a", "KNOWS", "e5")
    assert await _listed(held, plain_agent) == sorted([*names, "a", "e0a", FARTHEST])
    await other.relate("e0", "KNOWS", "e0b")
    await hidden.relate("e0", "KNOWS", "e0b")
    assert await _listed(held, plain_agent) == sorted([*names, "a", "e0a", FARTHEST])
    assert ranges_read == [6, 1, 2, 2]


async def test_what_was_written_while_it_was_read_is_not_missed(
    plain_agent: Agent, ranges_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, read = Kept(), TenantSession.read
    overtaking: list[Callable[[], Any]] = []

    async def overtaken(session: TenantSession, asked: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        rows = await read(session, asked, **parameters)
        while asked in {COUNT, LISTED} and overtaking:
            await overtaking.pop()()
        return rows

    monkeypatch.setattr(TenantSession, "read", overtaken)
    overtaking.append(lambda: plain_agent.relate("Ada", "KNOWS", "Engine"))
    assert (await held.reader(_session(plain_agent))(COUNT))[0]["entities"] == 0
    assert (await held.reader(_session(plain_agent))(COUNT))[0]["entities"] == 2
    overtaking.append(lambda: plain_agent.relate("Ada", "KNOWS", "Lace"))
    assert await _listed(held, plain_agent) == ["ada", "engine"]
    assert await _listed(held, plain_agent) == ["ada", "engine", "lace"]


async def test_what_another_gateway_wrote_is_seen_after_a_while_and_little_is_kept(
    plain_agent: Agent, ranges_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Kept()
    read = held.reader(_session(plain_agent))
    first = await read(COUNT)
    await _listed(held, plain_agent)
    monkeypatch.setattr(kept, "LONGEST_SECONDS", -1.0)
    monkeypatch.setattr(kept, "_MOST", 1)
    assert await read(COUNT) is first
    await read(AGAIN)
    assert await read(COUNT) is not first, "only the newest reading was kept"
    again = await read(COUNT)
    assert await read(COUNT) is not again, "its time was over"
    await _listed(held, plain_agent)
    await _listed(held, plain_agent)
    assert ranges_read == [3, 3, 3]


async def test_what_would_take_the_room_of_many_is_not_kept(
    plain_agent: Agent, ranges_read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One large memory, asked for again and again, had all the others read anew each time."""
    held = Kept()
    read = held.reader(_session(plain_agent))
    await plain_agent.batch([{"name": f"{number}{'n' * 150}", "type": "Concept"} for number in range(30)])
    first = await read(COUNT)
    monkeypatch.setattr(kept, "_ROOM", 8_000)
    assert len(await _listed(held, plain_agent)) == len(await _listed(held, plain_agent)) == 30
    assert ranges_read[2:] == ranges_read[:2], "two halves of it were read each time"
    assert await read(COUNT) is first

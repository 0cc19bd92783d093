"""Names and types that arguments are completed from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.contract import Fill
from app.memory.offered.completing import LIMIT, complete
from app.memory.offered.queries import NAMES_FROM
from app.memory.service import MemoryService
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.plans import FORBIDDEN, operators


async def _from(agent: Agent, beginning: str, fill: Fill = Fill.ENTITY) -> Sequence[str]:
    return await complete(agent.service, agent.call("completion/complete"), fill, beginning)


@pytest.mark.parametrize(
    ("beginning", "found"),
    [
        ("ada", ["Ada Lovelace"]),
        ("ADA_L", ["Ada Lovelace"]),
        ("Ada-lovelace", ["Ada Lovelace"]),
        ("c", ["C", "C#", "C++", "Café au lait"]),
        ("C+", ["C", "C#", "C++", "Café au lait"]),
        ("café", ["Café au lait"]),
        ("日", ["日本"]),
        ("zz", []),
        ("`) MATCH (n) RETURN n", []),
    ],
)
async def test_a_name_is_found_by_its_beginning_in_any_spelling(
    plain_agent: Agent, beginning: str, found: list[str]
) -> None:
    names = ("Ada Lovelace", "C", "C#", "C++", "Café au lait", "日本")
    await plain_agent.batch([{"name": name, "type": "Concept"} for name in names])
    assert sorted(await _from(plain_agent, beginning)) == sorted(found)


async def test_a_completion_is_bounded_and_says_that_there_is_more(plain_agent: Agent) -> None:
    await plain_agent.batch([{"name": f"note {number:03}", "type": "Concept"} for number in range(120)])
    found = await _from(plain_agent, "note")
    assert len(found) == LIMIT == 101
    assert list(found) == sorted(found)
    assert (await _from(plain_agent, "note 119", Fill.ENTITY_ID)) == ["note-119"]


async def test_nothing_is_offered_before_anything_is_written(plain_agent: Agent) -> None:
    """Every name would fit."""
    await plain_agent.batch([{"name": "Lens", "type": "Concept"}])
    for beginning in ("", " ", "`'"):
        assert await _from(plain_agent, beginning) == []


async def test_looking_for_names_stops_at_the_limit_in_the_order_of_the_index(database: Database) -> None:
    used = await operators(database, NAMES_FROM, {"beginning": "x", "limit": LIMIT})
    assert not {*FORBIDDEN, "Sort", "Top"}.intersection(used[used.index("Limit") :] if "Limit" in used else used)


async def test_copies_of_several_layers_are_one_name_and_hidden_ones_none(service: MemoryService, tenant: str) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    await wide.batch([{"name": "note two", "type": "Concept"}])
    await in_a.batch([{"name": name, "type": "Gizmo"} for name in ("NOTE two", "note one", "note three")])
    assert await _from(in_a, "note") == ["note one", "note three", "note two"]
    assert await _from(wide, "note") == ["note two"]
    assert (await _from(in_a, "giz", Fill.TYPE), await _from(wide, "giz", Fill.TYPE)) == (["Gizmo"], [])


async def test_types_are_those_that_are_documented_and_those_in_use(plain_agent: Agent) -> None:
    await plain_agent.batch([{"name": "Lens", "type": "Gadget"}])
    assert await _from(plain_agent, "gad", Fill.TYPE) == ["Gadget"]
    assert {"Person", "Project", "Preference"} == set(await _from(plain_agent, "p", Fill.TYPE))
    assert "Gadget" in await _from(plain_agent, "", Fill.TYPE)

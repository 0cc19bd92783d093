"""Names and types that arguments are completed from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.contract import Fill
from app.memory.offered.completing import LIMIT, complete
from tests.memory.conftest import Agent


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
    found = await _from(plain_agent, "")
    assert len(found) == LIMIT == 101
    assert list(found) == sorted(found)
    assert (await _from(plain_agent, "note 119", Fill.ENTITY_ID)) == ["note-119"]


async def test_types_are_those_that_are_documented_and_those_in_use(plain_agent: Agent) -> None:
    await plain_agent.batch([{"name": "Lens", "type": "Gadget"}])
    assert await _from(plain_agent, "gad", Fill.TYPE) == ["Gadget"]
    assert {"Person", "Project", "Preference"} == set(await _from(plain_agent, "p", Fill.TYPE))
    assert "Gadget" in await _from(plain_agent, "", Fill.TYPE)

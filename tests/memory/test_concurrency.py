"""Many writers at once: nothing lost, nothing twice (faults 16 and 17)."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import pairwise

import pytest

from app.errors import InvalidInput
from tests.memory.conftest import Agent


async def test_writers_in_any_order_make_no_duplicate_and_surface_no_deadlock(agent: Agent) -> None:
    names = [f"name {number}" for number in range(50)]

    async def writer(seed: int) -> None:
        order = random.Random(seed).sample(names, len(names))
        relations = [{"from": a, "to": b, "relation": "KNOWS"} for a, b in pairwise(order)]
        await agent.batch([{"name": name, "type": "Person"} for name in order], relations)

    await asyncio.gather(*(writer(seed) for seed in range(8)))
    page = await agent.entities(limit=200)
    assert page["total"] == 50
    assert {entity["times_mentioned"] for entity in page["entities"]} == {8}


@pytest.mark.shows("graph_relate", 11)
async def test_parallel_mentions_are_all_counted(agent: Agent) -> None:
    await asyncio.gather(*(agent.relate("Ann", "USES", "Vim", weight=0.1, evidence=f"say {n}") for n in range(20)))
    entity = await agent.entity("Ann")
    assert (entity["times_mentioned"], entity["edge_count"]) == (20, 1)
    edge = (await agent.edges("Ann"))["ann", "USES", "vim"]
    assert abs(edge["weight"] - 1.0) < 1e-9


async def test_other_calls_get_their_turn_while_the_names_of_a_batch_are_looked_at(agent: Agent) -> None:
    names = [f"{number} " + "\u00e9a " * 168 for number in range(499)]
    pauses, began = [], time.perf_counter()

    async def others() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            pauses.append(time.perf_counter() - before)

    turns = asyncio.create_task(others())
    with pytest.raises(InvalidInput, match="blank"):  # the last one, so that nothing is written
        await agent.batch([{"name": name, "type": "Person"} for name in [*names, "\u200b"]])
    turns.cancel()
    assert max(pauses) < (time.perf_counter() - began) / 3

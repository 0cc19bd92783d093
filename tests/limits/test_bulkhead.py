"""One tenant's storm leaves the others their room."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.errors import Overloaded
from app.limits.bulkhead import Bulkhead, Kind

SLOTS = {Kind.READ: 8, Kind.WRITE: 4, Kind.WHOLE_GRAPH: 1}


def bulkhead(*, total: int = 100, wait: float = 1.0, queue: int = 200) -> Bulkhead:
    return Bulkhead(slots=SLOTS, total=total, wait=wait, queue=queue)


async def hold(gate: Bulkhead, tenant: str, kind: Kind, leave: asyncio.Event, entered: list[str]) -> None:
    async with gate.slot(tenant, kind):
        entered.append(tenant)
        await leave.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("kind", "slots"), SLOTS.items())
async def test_each_kind_has_its_own_slots_and_the_rest_wait(kind: Kind, slots: int) -> None:
    gate, leave = bulkhead(), asyncio.Event()
    entered: list[str] = []
    tasks = [asyncio.create_task(hold(gate, "a", kind, leave, entered)) for _ in range(slots + 3)]
    await settle()
    assert len(entered) == slots
    leave.set()
    await asyncio.gather(*tasks)
    assert len(entered) == slots + 3
    assert len(gate) == 0


async def test_who_finds_no_slot_in_time_is_told_to_try_again() -> None:
    gate, leave = bulkhead(wait=0.05), asyncio.Event()
    entered: list[str] = []
    held = asyncio.create_task(hold(gate, "a", Kind.WHOLE_GRAPH, leave, entered))
    await settle()
    began = time.monotonic()
    with pytest.raises(Overloaded) as refused:
        async with gate.slot("a", Kind.WHOLE_GRAPH):
            raise AssertionError("two at once")
    assert 0.04 < time.monotonic() - began < 1
    assert (refused.value.retryable, refused.value.outcome) == (True, "not_applied")
    assert refused.value.retry_after_ms
    leave.set()
    await held
    async with gate.slot("a", Kind.WHOLE_GRAPH):
        pass


async def test_a_storm_of_one_tenant_does_not_delay_another() -> None:
    gate, leave = bulkhead(), asyncio.Event()
    entered: list[str] = []
    storm = [asyncio.create_task(hold(gate, "storm", Kind.READ, leave, entered)) for _ in range(100)]
    await settle()
    async with asyncio.timeout(0.5), gate.slot("calm", Kind.READ):
        pass
    leave.set()
    await asyncio.gather(*storm)


async def test_a_free_slot_goes_to_the_tenants_in_turn() -> None:
    gate = bulkhead(total=2, wait=5.0)
    order: list[str] = []

    async def call(tenant: str) -> None:
        async with gate.slot(tenant, Kind.READ):
            order.append(tenant)
            await asyncio.sleep(0)

    leave = asyncio.Event()
    first = [asyncio.create_task(hold(gate, "holder", Kind.READ, leave, [])) for _ in range(2)]
    await settle()
    storm = [asyncio.create_task(call("storm")) for _ in range(20)]
    await settle()
    calm = [asyncio.create_task(call("calm")) for _ in range(3)]
    await settle()
    leave.set()
    await asyncio.gather(*first, *storm, *calm)
    assert max(index for index, tenant in enumerate(order) if tenant == "calm") <= 7


async def test_a_queue_that_is_too_long_refuses_at_once() -> None:
    gate, leave = bulkhead(wait=30, queue=2), asyncio.Event()
    entered: list[str] = []
    tasks = [asyncio.create_task(hold(gate, "a", Kind.WHOLE_GRAPH, leave, entered)) for _ in range(3)]
    await settle()
    with pytest.raises(Overloaded):
        async with gate.slot("a", Kind.WHOLE_GRAPH):
            raise AssertionError("let in")
    leave.set()
    await asyncio.gather(*tasks)


async def test_no_slot_is_lost_to_waiters_that_give_up_or_are_cancelled() -> None:
    gate = bulkhead(total=6, wait=0.01)

    async def call(number: int) -> None:
        try:
            async with gate.slot(f"t{number % 5}", Kind.WRITE):
                await asyncio.sleep(0.001 * (number % 7))
        except Overloaded:
            pass

    tasks = [asyncio.create_task(call(number)) for number in range(400)]
    await settle()
    for number, task in enumerate(tasks):
        if number % 3 == 0:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(gate) == 0
    leave = asyncio.Event()
    entered: list[str] = []
    full = [asyncio.create_task(hold(gate, f"t{number}", Kind.WRITE, leave, entered)) for number in range(6)]
    await settle()
    assert len(entered) == 6
    leave.set()
    await asyncio.gather(*full)

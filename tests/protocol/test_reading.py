"""How many bodies of one tenant may be on their way in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from starlette.types import Message

from app.errors import Overloaded
from app.protocol import reading
from app.protocol.reading import LARGE, LARGE_AT_ONCE, Reading

Receive = Callable[[], Awaitable[Message]]


def unfinished(size: int, started: asyncio.Event, end: asyncio.Event) -> Receive:
    """A body of ``size`` bytes that ends only when it is told to."""
    begun = False

    async def receive() -> Message:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": b"x" * size, "more_body": True}
        started.set()
        await end.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


async def held(reader: Reading, tenant: str, size: int, number: int, end: asyncio.Event) -> list[asyncio.Task[object]]:
    tasks: list[asyncio.Task[object]] = []
    for _ in range(number):
        started = asyncio.Event()
        tasks.append(asyncio.create_task(reader.body(tenant, unfinished(size, started, end))))
        await started.wait()
    return tasks


async def test_one_tenants_large_bodies_that_never_end_leave_the_memory_to_the_others() -> None:
    reader, end = Reading(), asyncio.Event()
    bodies = await held(reader, "one", LARGE + 1, LARGE_AT_ONCE, end)
    with pytest.raises(Overloaded):
        await reader.body("one", unfinished(LARGE + 1, asyncio.Event(), end))
    small = await held(reader, "one", 10, 1, end)
    other = await held(reader, "two", LARGE + 1, 1, end)
    end.set()
    assert all(await asyncio.gather(*bodies, *small, *other))
    assert len(reader) == 0
    assert await reader.body("one", unfinished(LARGE + 1, asyncio.Event(), end))


async def test_one_tenants_slow_bodies_do_not_take_every_open_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "AT_ONCE", 3)
    reader, end = Reading(), asyncio.Event()
    bodies = await held(reader, "one", 1, 3, end)
    with pytest.raises(Overloaded):
        await reader.body("one", unfinished(1, asyncio.Event(), end))
    other = await held(reader, "two", 1, 1, end)
    bodies[0].cancel()
    await asyncio.wait(bodies[:1])
    again = await held(reader, "one", 1, 1, end)
    end.set()
    await asyncio.gather(*bodies[1:], *other, *again)
    assert len(reader) == 0

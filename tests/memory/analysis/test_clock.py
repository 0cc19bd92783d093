"""Work on names leaves the loop alone, and ends when its time is over or its caller is gone."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, NoReturn

import pytest

from app.context import Deadline
from app.errors import DeadlineExceeded
from app.memory.analysis import validate as module
from app.memory.analysis.clock import Clock, in_thread
from app.memory.analysis.likeness import beside_name, named_of, pairs_by_name
from app.memory.analysis.naming import alike_key
from tests.memory.analysis.conftest import do, entity
from tests.memory.conftest import Agent


def _endless(clock: Clock, ended: threading.Event) -> NoReturn:
    try:
        while True:
            clock.check()
    finally:
        ended.set()


async def test_the_work_ends_at_its_deadline_and_says_what_to_ask_instead() -> None:
    ended = threading.Event()
    with pytest.raises(DeadlineExceeded, match=r"took too long; ask for less\. Nothing"):
        await in_thread(Clock(Deadline.after(0.05), "ask for less"), _endless, ended)
    assert ended.is_set()


async def test_the_work_ends_when_nobody_waits_for_it_any_more() -> None:
    ended = threading.Event()
    task = asyncio.create_task(in_thread(Clock(Deadline.after(600), "ask for less"), _endless, ended))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 5)


def test_every_walk_over_the_names_looks_at_the_clock() -> None:
    over = Clock(Deadline.after(0), "ask for less")
    rows = [["a", "Ann", "Person", []], ["b", "ann", "Person", []]]
    fresh = Clock(Deadline.after(600), "ask for less")
    for walk in (
        lambda: named_of(over, rows),
        lambda: beside_name(over, rows, "a"),
        lambda: pairs_by_name(over, named_of(fresh, rows), None, 10),
    ):
        with pytest.raises(DeadlineExceeded):
            walk()


async def test_names_are_checked_beside_the_loop(plain_agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 names of 500 characters held the loop, and with it every tenant, for 20 seconds."""
    seen: set[Any] = set()

    def watched(name: str) -> str:
        seen.add(threading.current_thread())
        return alike_key(name)

    monkeypatch.setattr(module, "alike_key", watched)
    await plain_agent.batch([entity("Data base"), entity("database")])
    assert (await do(plain_agent, "graph_validate"))["by_type"]["near_duplicate"] == 1
    assert seen
    assert threading.main_thread() not in seen

"""A crash between any two statements leaves the queue as it was before, or with the whole change in it.

What takes a file in, converts and completes it dies for good in ``tests/faults/test_crash_ingest.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.store.session import Writing
from app.store.statement import statement
from tests.ingest.conftest import Agent


class _Crash(BaseException):
    """The process is gone."""


ITEMS = statement(
    "test_crash.all_items",
    "MATCH (i:_IngestItem {tenant: $of}) RETURN properties(i) AS item ORDER BY i.id",
    control=True,
)


async def _items(agent: Agent) -> list[dict[str, Any]]:
    return await agent.service.store._control.read(ITEMS, of=agent.tenant)


async def _crashed(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, change: Callable[[], Awaitable[Any]], least: int
) -> None:
    """Let ``change`` crash after each of its statements in turn, until it comes through."""
    before = await _items(agent)
    run = Writing.run
    at = 0
    while True:
        at += 1
        ran = 0

        async def counted(self: Writing, statement: Any, /, _at: int = at, **parameters: Any) -> list[dict[str, Any]]:
            nonlocal ran
            rows = await run(self, statement, **parameters)
            ran += 1
            if ran == _at:
                raise _Crash
            return rows

        monkeypatch.setattr(Writing, "run", counted)
        try:
            await change()
        except _Crash:
            monkeypatch.setattr(Writing, "run", run)
            assert await _items(agent) == before, f"after statement {at}"
            continue
        break
    monkeypatch.setattr(Writing, "run", run)
    assert at > least


@pytest.mark.parametrize("action", ["fail", "cancel", "retry"])
async def test_a_crash_while_a_run_changes_an_item_changes_nothing(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    await agent.queue("a.md", "x")
    held = await agent.claimed()
    more = {"reason": "no"} if action == "fail" else {}
    await _crashed(
        agent,
        monkeypatch,
        lambda: agent.ask(action, id=held["id"], lease=held["lease"], idempotency_key=f"k-{action}", **more),
        3,
    )
    status = await agent.ask("status")
    assert (status["pending_count"], status["completed_count"], status["failed_count"]) == {
        "fail": (0, 0, 1),
        "cancel": (0, 0, 0),
        "retry": (1, 0, 0),
    }[action]


async def test_a_crash_while_an_item_is_claimed_claims_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await agent.queue("a.md", "x")
    await _crashed(agent, monkeypatch, agent.claimed, 1)

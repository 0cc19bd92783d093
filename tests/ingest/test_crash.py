"""A crash between any two statements leaves the queue as it was before, or with the whole change in it."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.ingest.service import IngestService
from app.store.session import Writing
from app.store.statement import statement
from tests.ingest.conftest import Agent, talk


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


async def test_a_crash_while_files_are_accepted_leaves_them_accepted_or_not(
    agent: Agent, service: IngestService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M15 for the queue: the transcript that takes the place of its beginning is the longest of these changes."""
    await agent.send("s-1.jsonl", talk("a"))
    await _crashed(agent, monkeypatch, lambda: agent.send("s-1.jsonl", talk("a", "b")), 3)
    status = await agent.ask("status")
    assert (status["pending_count"], status["pending"][0]["facts"]["message_count"]) == (1, 2)
    assert [message["text"] for message in (await agent.read(session_id="s-1"))["messages"]] == ["a", "b"]
    old = time.time() - 30 * 24 * 3600
    for folder in service.files.parts(agent.tenant).parent.glob("items/*"):
        os.utime(folder, (old, old))
    await service.worker.sweep()
    assert agent.files() == [f"items/{status['pending'][0]['id']}/original"]


@pytest.mark.parametrize("action", ["complete", "fail", "cancel", "retry"])
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
        "complete": (0, 1, 0),
        "fail": (0, 0, 1),
        "cancel": (0, 0, 0),
        "retry": (1, 0, 0),
    }[action]


async def test_a_crash_while_an_item_is_claimed_claims_nothing(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await agent.queue("a.md", "x")
    await _crashed(agent, monkeypatch, agent.claimed, 1)

"""Files are taken in whole, within the quota, and a session that went on takes the place of its beginning."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from app.errors import Overloaded, QuotaExceeded
from app.store.control.queue import QueueStore, Summary
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.identity import fresh_name
from tests.ingest.conftest import Agent, service_at, talk


async def test_quotas_refuse_with_the_remedy_and_store_nothing(database: Database, tmp_path: Path, tenant: str) -> None:
    agent = Agent(service_at(database, tmp_path, quota_file_bytes=1024, quota_files=2), tenant)
    with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_FILE_BYTES"):
        await agent.queue("a.md", "x" * 1025)
    assert agent.files() == []
    for number in range(2):
        await agent.queue(f"{number}.md", "x")
    with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_FILES"):
        await agent.queue("3.md", "x")
    assert len(agent.files()) == 2


async def test_nothing_is_queued_for_a_tenant_that_was_frozen_meanwhile(agent: Agent, database: Database) -> None:
    tenants = Tenants(database.control)
    made = await tenants.create(fresh_name("tenant"))
    agent = Agent(agent.service, made.data)
    assert (await agent.queue("a.md", "x"))["created"]
    await tenants.set_state(made.id, TenantState.SUSPENDED)
    with pytest.raises(Overloaded) as refused:
        await agent.queue("b.md", "y")
    assert (refused.value.outcome, refused.value.retryable) == ("not_applied", True)
    assert len(agent.files()) == 1


@pytest.mark.shows("graph_read_transcript", 8)
async def test_a_session_that_went_on_takes_the_place_of_its_beginning(agent: Agent) -> None:
    """W-M31: and if that was completed, only what is later is new."""
    first = await agent.send("s-1.jsonl", talk("a"))
    longer = await agent.send("s-1.jsonl", talk("a", "b"))
    assert longer["created"]
    assert longer["id"] != first["id"]
    assert (await agent.ask("status"))["pending_count"] == 1
    assert len(agent.files()) == 1
    assert (await agent.send("s-1.jsonl", talk("a")))["id"] == longer["id"]
    held = await agent.claimed()
    assert "since" not in held
    await agent.ask("complete", id=held["id"], lease=held["lease"])
    store = QueueStore(agent.service.store._control)
    assert await store.summary(agent.tenant, [""]) == Summary(completed=1)
    await agent.send("s-1.jsonl", talk("a", "b", "c"))
    status = await agent.ask("status")
    assert (status["unprocessed_transcripts"], status["completed_count"]) == (1, 1)
    resumed = await agent.claimed()
    assert resumed["since"] == status["pending"][0]["since"] == "2026-01-01T00:00:01.000Z"
    found = await agent.read(session_id="s-1", since=resumed["since"])
    assert [message["text"] for message in found["messages"]] == ["c"]
    assert len(agent.files()) == 1


@pytest.mark.shows("graph_ingest", 17)
async def test_who_may_only_send_learns_takes_and_replaces_nothing_of_anothers_transcript(agent: Agent) -> None:
    """Byte by byte a guessed beginning would tell what another said; a longer one would put it away."""
    theirs = await agent.send("s-1.jsonl", talk("a", "b"))
    device = Agent(agent.service, agent.tenant, subject="us-device", scopes=["ingest:write"])
    for content in (b"{", b"[", talk("a", "b"), talk("a", "b", "c")):
        sent = await device.send("s-1.jsonl", content)
        assert (sent["created"], sent["sha256"], sent["state"]) == (True, sha256(content).hexdigest(), "pending")
    assert await device.send("s-1.jsonl", talk("a", "b")) == {**sent, "created": False}  # its own longer one holds it
    rows = (await agent.ask("status"))["pending"]
    assert len(rows) == 3
    assert {theirs["id"], sent["id"]} < {row["id"] for row in rows}
    assert f"items/{theirs['id']}/original" in agent.files()


async def test_nobody_replaces_what_another_sent_and_who_reads_is_shown_what_is_here(agent: Agent) -> None:
    theirs = await agent.send("s-1.jsonl", talk("a", "b"))
    reads = Agent(agent.service, agent.tenant, subject="us-other")
    assert await reads.send("s-1.jsonl", talk("a", "b")) == {**theirs, "created": False}
    assert (await reads.send("s-1.jsonl", talk("a")))["id"] == theirs["id"]
    longer = await reads.send("s-1.jsonl", talk("a", "b", "c"))
    assert {row["id"] for row in (await agent.ask("status"))["pending"]} == {theirs["id"], longer["id"]}


async def test_an_odd_moment_neither_breaks_nor_silences_the_queue(agent: Agent) -> None:
    odd = b"".join(
        json.dumps({**json.loads(talk("odd")), "timestamp": moment}).encode() + b"\n"
        for moment in ("9999-12-31T23:59:59-12:00", "2999-01-01T00:00:00Z")
    )
    await agent.send("s-1.jsonl", talk("a", "b") + odd)
    held = await agent.claimed()
    await agent.ask("complete", id=held["id"], lease=held["lease"])
    await agent.send("s-1.jsonl", talk("a", "b") + odd + talk("x", "x", "c").splitlines(keepends=True)[2])
    (waiting,) = (await agent.ask("status"))["pending"]
    assert waiting["since"] == "2026-01-01T00:00:01.000Z"
    found = await agent.read(session_id="s-1", since=waiting["since"])
    assert "c" in [message["text"] for message in found["messages"]]


async def test_what_is_sent_again_after_its_continuation_was_cancelled_is_here_again(agent: Agent) -> None:
    """Fault 18: it was answered as known, and its bytes were gone."""
    await agent.send("s-1.jsonl", talk("a"))
    held = await agent.claimed()
    await agent.ask("complete", id=held["id"], lease=held["lease"], entities=3)
    longer = await agent.send("s-1.jsonl", talk("a", "b"))
    await agent.ask("cancel", id=longer["id"])
    assert agent.files() == []
    again = await agent.send("s-1.jsonl", talk("a"))
    assert (again["created"], again["state"]) == (False, "completed")
    assert agent.files() == [f"items/{again['id']}/original"]
    assert [message["text"] for message in (await agent.read(session_id="s-1"))["messages"]] == ["a"]
    status = await agent.ask("status")
    assert (status["pending_count"], status["completed_count"]) == (0, 1)
    assert (status["recently_completed"][0]["id"], status["recently_completed"][0]["entities"]) == (again["id"], 3)
    await agent.send("s-1.jsonl", talk("a", "b"))
    assert (await agent.claimed())["since"] == "2026-01-01T00:00:00.000Z"


async def test_what_a_longer_version_holds_is_taken_when_that_is_cancelled_meanwhile(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = await agent.send("s-1.jsonl", talk("a", "b"))
    write = QueueStore.write

    async def late(self: QueueStore, *given: Any) -> Any:
        monkeypatch.setattr(QueueStore, "write", write)
        await agent.ask("cancel", id=longer["id"])
        return await write(self, *given)

    monkeypatch.setattr(QueueStore, "write", late)
    shorter = await agent.send("s-1.jsonl", talk("a"))
    assert (shorter["created"], shorter["state"]) == (True, "pending")
    assert agent.files() == [f"items/{shorter['id']}/original"]


async def test_files_that_arrive_at_once_pass_no_quota_together(database: Database, tmp_path: Path) -> None:
    """Each transaction alone would see what was there before any of them."""
    made = await Tenants(database.control).create(fresh_name("tenant"))
    agent = Agent(service_at(database, tmp_path, quota_files=3), made.data)
    sent = await asyncio.gather(*(agent.send(f"{n}.md", b"x") for n in range(8)), return_exceptions=True)
    assert sum(isinstance(each, QuotaExceeded) for each in sent) == 5, sent
    assert len(agent.files()) == 3
    assert (await agent.ask("status"))["pending_count"] == 3


async def test_a_transcript_that_was_written_anew_stands_beside_the_old_one(agent: Agent) -> None:
    await agent.send("s-1.jsonl", talk("a", "b"))
    await agent.send("s-1.jsonl", talk("other", "words", "here"))
    assert (await agent.ask("status"))["pending_count"] == 2

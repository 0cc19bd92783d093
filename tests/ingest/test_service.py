"""The queue through its tools: what is sent is there, is worked on by one run at a time, and never just disappears."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import Conflict, Forbidden, InsufficientScope, InvalidInput, NotFound, Overloaded, QuotaExceeded
from app.ingest.actions import CLAIMS
from app.store.control.queue import QueueStore, Summary
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.identity import fresh_name
from tests.ingest.conftest import Agent, service_at

CLOUD = {"source": "claude-code-cloud", "session_id": "s-1"}


def talk(*texts: str, session: str = "s-1") -> bytes:
    return b"".join(
        json.dumps(
            {
                "type": "user",
                "sessionId": session,
                "cwd": "/home/ada",
                "timestamp": f"2026-01-01T00:00:{number:02d}Z",
                "message": {"role": "user", "content": text},
            }
        ).encode()
        + b"\n"
        for number, text in enumerate(texts)
    )


@pytest.mark.shows("graph_ingest", 2, 5)
async def test_what_is_queued_is_pending_with_name_moment_and_size(agent: Agent) -> None:
    """W-M28: files are written and read in threads, not in the event loop."""
    meta = {"source": "mail", "author": "Ada", "date": "2026", "topic_hints": ["a"], "weight_override": 0.4}
    answer = await agent.queue("notes.md", "# Notes\n" + "x" * 2000, meta=meta)
    assert (answer["action"], answer["file"], answer["destination"]) == ("queued", "notes.md", "pending/notes.md")
    assert (answer["meta_written"], answer["created"], answer["state"]) == (True, True, "pending")
    assert not (await agent.queue("plain.txt", "x"))["meta_written"]
    status = await agent.ask("status")
    assert status["pending_count"] == 2
    first = status["pending"][0]
    assert (first["file"], first["size"], first["meta"], first["kind"]) == ("notes.md", "2.0 KB", meta, "document")
    assert first["queued_at"].endswith("Z")


@pytest.mark.shows("graph_ingest", 1)
@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "content"),
        ({"content": "x", "file_name": "a.md", "file_path": "/a.md"}, "content"),
        ({"content": "x"}, "file_name"),
        ({"content": "x", "file_name": "a.pdf"}, "file_name"),
        ({"content": "x", "file_name": "../a.md"}, "name"),
        ({"content": "x", "file_name": "a\x00.md"}, "name"),
        ({"content": "é" * 1_100_000, "file_name": "a.md"}, "content"),
    ],
)
async def test_a_call_that_queues_nothing_names_the_argument(agent: Agent, given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        await agent.ask("queue", **given)
    assert refused.value.field == field
    assert agent.files() == []


@pytest.mark.shows("graph_ingest", 3)
async def test_a_path_is_for_operators_and_only_below_an_allowed_folder(
    database: Database, tmp_path: Path, tenant: str
) -> None:
    """W-M06: no file that the server can read comes in because somebody names it."""
    allowed, outside = tmp_path / "allowed", tmp_path / "outside.md"
    allowed.mkdir()
    outside.write_text("secret")
    (allowed / "in.md").write_text("inside")
    (allowed / "link.md").symlink_to(outside)
    service = service_at(database, tmp_path / "home", ingest_directories=(str(allowed),))
    operator = Agent(service, tenant, operator=True)
    answer = await operator.ask("queue", file_path=str(allowed / "in.md"))
    assert answer["file"] == "in.md"
    assert (await operator.ask("read", id=answer["id"]))["text"] == "inside"
    for path in (outside, allowed / "link.md", allowed / ".." / "outside.md", allowed, allowed / "none.md", "\0"):
        with pytest.raises(InvalidInput, match="GRAPHKEEP_INGEST_DIRECTORIES"):
            await operator.ask("queue", file_path=str(path))
    with pytest.raises(Forbidden, match="operators"):
        await Agent(service, tenant).ask("queue", file_path=str(allowed / "in.md"))
    with pytest.raises(InvalidInput):
        await Agent(service_at(database, tmp_path / "h"), tenant, operator=True).ask(
            "queue", file_path=str(allowed / "in.md")
        )


@pytest.mark.shows("graph_ingest", 4)
async def test_the_same_content_is_the_same_item_and_the_same_key_the_first_answer(agent: Agent) -> None:
    first = await agent.queue("a.md", "one")
    again = await agent.queue("a.md", "one")
    assert (again["id"], again["created"]) == (first["id"], False)
    other = await agent.queue("a.md", "two", idempotency_key="k")
    assert other["id"] != first["id"]
    assert await agent.queue("a.md", "two", idempotency_key="k") == other
    with pytest.raises(Conflict):
        await agent.queue("a.md", "three", idempotency_key="k", digest="another")
    assert len(agent.files()) == 2


@pytest.mark.shows("graph_ingest", 6, 10)
async def test_a_document_stays_pending_until_a_run_claims_and_completes_it(agent: Agent) -> None:
    for number in range(7):
        await agent.queue(f"{number}.md", "x")
    assert (await agent.ask("status"))["completed_count"] == 0
    for number in range(6):
        held = await agent.claimed()
        assert held["file"] == f"{number}.md"
        done = {"id": held["id"], "lease": held["lease"], "entities": number, "edges": 2 * number}
        answer = await agent.ask("complete", **done)
        assert (answer["action"], answer["state"], answer["entities"]) == ("completed", "completed", number)
        assert (await agent.ask("complete", **done))["state"] == "completed"
    status = await agent.ask("status")
    assert (status["pending_count"], status["completed_count"]) == (1, 6)
    recent = [(row["file"], row["entities"], row["edges"]) for row in status["recently_completed"]]
    assert recent == [(f"{number}.md", number, 2 * number) for number in (5, 4, 3, 2, 1)]


@pytest.mark.shows("graph_ingest", 11)
async def test_a_claim_is_exclusive_until_its_lease_ends(database: Database, tmp_path: Path, tenant: str) -> None:
    """W-M30, fault 19: two devices never work on one document."""
    agent = Agent(service_at(database, tmp_path), tenant)
    await agent.queue("a.md", "x")
    taken = await asyncio.gather(*(agent.ask("claim") for _ in range(8)))
    (held,) = [item for answer in taken for item in answer["items"]]
    with pytest.raises(Conflict, match="claimed"):
        await agent.ask("claim", id=held["id"])
    with pytest.raises(Conflict, match="another run"):
        await agent.ask("complete", id=held["id"], lease="le-made-up")
    soon = Agent(service_at(database, tmp_path, claim_seconds=0.001), tenant)
    assert await soon.ask("claim") == {"action": "claimed", "items": []}
    await agent.ask("retry", id=held["id"], lease=held["lease"])
    first = await soon.claimed()
    second = await soon.claimed()
    assert first["id"] == second["id"] == held["id"]
    with pytest.raises(Conflict, match="taken over"):
        await soon.ask("complete", id=first["id"], lease=first["lease"])
    assert (await soon.ask("complete", id=second["id"], lease=second["lease"]))["state"] == "completed"


@pytest.mark.shows("graph_ingest", 12)
async def test_what_runs_never_complete_ends_among_the_failed(database: Database, tmp_path: Path, tenant: str) -> None:
    """Fault 18: accepted, then dropped; here it is said."""
    agent = Agent(service_at(database, tmp_path, claim_seconds=0.001), tenant)
    await agent.queue("a.md", "x")
    for _ in range(CLAIMS):
        await agent.claimed()
    assert (await agent.ask("claim"))["items"] == []
    (dead,) = (await agent.ask("status"))["failed"]
    assert (dead["file"], dead["attempts"]) == ("a.md", CLAIMS)
    assert "never completed" in dead["reason"]


@pytest.mark.shows("graph_ingest", 7)
async def test_what_failed_says_why_keeps_its_file_and_can_wait_again(agent: Agent) -> None:
    queued = await agent.queue("a.md", "the text")
    held = await agent.claimed()
    with pytest.raises(InvalidInput):
        await agent.ask("fail", id=held["id"], lease=held["lease"])
    await agent.ask("fail", id=held["id"], lease=held["lease"], reason="nothing in it")
    status = await agent.ask("status")
    assert (status["failed_count"], status["failed"][0]["reason"]) == (1, "nothing in it")
    assert (await agent.ask("read", id=queued["id"]))["text"] == "the text"
    assert (await agent.ask("retry", id=queued["id"]))["state"] == "pending"
    assert (await agent.ask("status"))["failed_count"] == 0
    with pytest.raises(Conflict, match="only a failed one"):
        await agent.ask("retry", id=queued["id"])
    held = await agent.claimed()
    await agent.ask("fail", id=held["id"], lease=held["lease"], reason="again nothing")
    sent_again = await agent.queue("a.md", "the text")
    assert (sent_again["id"], sent_again["created"], sent_again["state"]) == (queued["id"], False, "pending")


@pytest.mark.shows("graph_ingest", 8)
async def test_a_cursor_is_the_newest_of_its_session(agent: Agent) -> None:
    await agent.queue("1.md", "a", meta={**CLOUD, "through": "2026-01-01T10:00:00Z", "last_event_id": "e1"})
    await agent.queue("2.md", "b", meta={**CLOUD, "through": "2026-01-01T11:30:00+00:30", "last_event_id": "e2"})
    await agent.queue("3.md", "c", meta={**CLOUD, "through": "2026-01-01T10:30:00", "last_event_id": "e3"})
    await agent.queue("4.md", "d", meta={**CLOUD, "session_id": "s-2", "through": "2026-01-01"})
    await agent.queue("5.md", "e", meta={**CLOUD, "source": "web", "session_id": "s-3", "through": "2026-01-01"})
    held = await agent.claimed()
    await agent.ask("complete", id=held["id"], lease=held["lease"])
    cursors = (await agent.ask("status"))["session_cursors"]
    assert cursors == {
        "s-1": {"through": "2026-01-01T11:30:00+00:30", "last_event_id": "e2", "file": "2.md"},
        "s-2": {"through": "2026-01-01", "last_event_id": None, "file": "4.md"},
    }
    one = await agent.ask("status", meta={"session_id": "s-2"})
    assert set(one["session_cursors"]) == {"s-2"}
    with pytest.raises(ValueError, match="ISO 8601"):
        await agent.queue("6.md", "f", meta={**CLOUD, "through": "yesterday"})


@pytest.mark.shows("graph_ingest", 9)
async def test_the_collectors_loop_sends_only_what_is_new_and_everything_once(agent: Agent) -> None:
    """docs/INGEST.md: status, then only newer messages, then queue as cloud-session_<id>-<time>.md."""
    session = [(f"2026-01-01T00:00:{number:02d}Z", f"e{number}", f"message {number}") for number in range(9)]
    for known in (3, 3, 7, 9):
        cursors = (await agent.ask("status", meta={"session_id": "s-1"}))["session_cursors"]
        through = cursors.get("s-1", {}).get("through", "")
        new = [message for message in session[:known] if message[0] > through]
        if not new:
            continue
        last = new[-1]
        await agent.queue(
            f"cloud-session_s-1-{last[0].replace(':', '')}.md",
            "\n".join(text for _, _, text in new),
            meta={**CLOUD, "through": last[0], "last_event_id": last[1]},
        )
    status = await agent.ask("status")
    texts = [(await agent.ask("read", id=item["id"]))["text"] for item in status["pending"]]
    assert "\n".join(texts).split("\n") == [text for _, _, text in session]
    assert len(texts) == 3
    assert status["session_cursors"]["s-1"]["last_event_id"] == "e8"


@pytest.mark.shows("graph_ingest", 13)
@pytest.mark.parametrize("text", ["x" * 100_000, "日本語 🦊\n" * 9000, '"\\\n' * 30_000, "\x01" * 20_000])
async def test_reading_page_by_page_loses_no_character(agent: Agent, text: str) -> None:
    queued = await agent.queue("long.txt", text)
    got, cursor, pages = "", None, 0
    while pages == 0 or cursor:
        answer = await agent.ask("read", id=queued["id"], cursor=cursor)
        assert len(json.dumps(answer, ensure_ascii=False)) < 60_000
        got, cursor, pages = got + answer["text"], answer["next_cursor"], pages + 1
    assert got == text
    assert pages > 1


@pytest.mark.shows("graph_ingest", 14)
async def test_cancel_removes_the_item_with_its_file_unless_a_run_works_on_it(agent: Agent) -> None:
    """Fault 29: of what is removed nothing stays."""
    queued = await agent.queue("a.md", "x")
    held = await agent.claimed()
    with pytest.raises(Conflict, match="working on"):
        await agent.ask("cancel", id=queued["id"])
    assert (await agent.ask("cancel", id=queued["id"], lease=held["lease"]))["action"] == "cancelled"
    assert agent.files() == []
    assert (await agent.ask("status"))["pending_count"] == 0
    with pytest.raises(NotFound):
        await agent.ask("cancel", id=queued["id"])


async def test_pages_of_status_go_on_where_they_ended(agent: Agent) -> None:
    for number in range(5):
        await agent.queue(f"{number}.md", "x")
    first = await agent.ask("status", limit=2)
    second = await agent.ask("status", limit=2, cursor=first["next_cursor"])
    third = await agent.ask("status", limit=2, cursor=second["next_cursor"])
    names = [item["file"] for page in (first, second, third) for item in page["pending"]]
    assert names == [f"{number}.md" for number in range(5)]
    assert third["next_cursor"] is None


async def test_a_page_of_status_ends_before_its_answer_would_be_cut(agent: Agent) -> None:
    hints = {"topic_hints": ["x" * 190] * 20}
    for number in range(12):
        await agent.queue(f"{number}.md", "x", meta=hints)
    names, cursor, pages = [], None, 0
    while pages == 0 or cursor:
        page = await agent.ask("status", cursor=cursor)
        names += [item["file"] for item in page["pending"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert names == [f"{number}.md" for number in range(12)]
    assert pages == 2
    assert len((await agent.ask("claim", limit=200))["items"]) == 8
    with pytest.raises(ValueError, match="at most 4096"):
        await agent.queue("x.md", "x", meta={"topic_hints": ["x" * 200] * 50})


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


@pytest.mark.shows("graph_read_transcript", 1, 2, 3)
async def test_a_transcript_is_found_by_session_or_the_last_part_of_a_path(agent: Agent, tmp_path: Path) -> None:
    """W-M06: no path leads anywhere but to what this tenant sent."""
    await agent.send("s-1.jsonl", talk("Hello"))
    (tmp_path / "secret.jsonl").write_bytes(talk("secret"))
    for given in ({"session_id": "s-1"}, {"file_path": "C:\\Users\\a\\s-1.jsonl"}, {"file_path": "/x/../s-1.jsonl"}):
        found = await agent.read(**given)
        assert [message["text"] for message in found["messages"]] == ["Hello"]
    for path in (str(tmp_path / "secret.jsonl"), "../secret.jsonl", "/etc/passwd"):
        with pytest.raises(NotFound, match="No transcript found for session_id"):
            await agent.read(file_path=path)
    with pytest.raises(NotFound, match="No transcript found for session_id: none"):
        await agent.read(session_id="none")
    for bad in ("../s-1", "a/b", "a\x00b", "con"):
        with pytest.raises(InvalidInput):
            await agent.read(session_id=bad)
    with pytest.raises(InvalidInput, match="Provide either session_id or file_path"):
        await agent.read()
    with pytest.raises(NotFound):
        await Agent(agent.service, f"{agent.tenant}x").read(session_id="s-1")


@pytest.mark.shows("graph_read_transcript", 4, 9)
async def test_a_transcript_is_read_in_pages_with_counts_of_the_whole(agent: Agent) -> None:
    await agent.send("s-1.jsonl", talk(*(f"m{number}" for number in range(5))) + b"{half")
    texts, cursor = [], None
    while not texts or cursor:
        found = await agent.read(session_id="s-1", limit=2, cursor=cursor)
        assert (found["line_count"], found["message_count"], found["bad_lines"]) == (6, 5, 1)
        assert (found["session_id"], found["cwd"], found["format_version"]) == ("s-1", "/home/ada", "v1")
        texts += [message["text"] for message in found["messages"]]
        cursor = found["next_cursor"]
    assert texts == [f"m{number}" for number in range(5)]
    assert found["warnings"] == ["Line 6: invalid JSON, skipped"]


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


@pytest.mark.shows("graph_ingest", 16)
async def test_who_may_only_send_sees_how_it_stands_with_that_and_no_text(agent: Agent) -> None:
    sends = Agent(agent.service, agent.tenant, subject="us-device", scopes=["ingest:write"])
    theirs = await agent.queue("theirs.md", "secret of another")
    own = await sends.queue("own.md", "x")
    status = await sends.ask("status")
    assert ([item["file"] for item in status["pending"]], status["pending_count"]) == (["own.md"], 1)
    for action in ("read", "claim"):
        for id_ in (own["id"], theirs["id"]):
            with pytest.raises(InsufficientScope) as refused:
                await sends.ask(action, id=id_)
            assert refused.value.scopes == {"ingest:write", "memory:read"}
    for action, more in (("cancel", {}), ("retry", {}), ("complete", {"lease": "x"}), ("fail", {"reason": "x"})):
        with pytest.raises(NotFound):
            await sends.ask(action, id=theirs["id"], **more)
    assert (await sends.ask("cancel", id=own["id"]))["action"] == "cancelled"
    assert (await agent.ask("read", id=theirs["id"]))["text"] == "secret of another"


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

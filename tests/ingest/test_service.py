"""The queue through its tools: what is sent is there, is worked on by one run at a time, and never just disappears."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.errors import Conflict, Forbidden, InsufficientScope, InvalidInput, NotFound
from app.ingest.actions import CLAIMS
from app.ingest.service import IngestService
from app.store.database import Database
from tests.ingest.conftest import Agent, service_at, talk

CLOUD = {"source": "claude-code-cloud", "session_id": "s-1"}


@pytest.mark.shows("graph_ingest", 2, 5)
async def test_what_is_queued_is_pending_with_name_moment_and_size(agent: Agent) -> None:
    """W-M28: files are written and read in threads, not in the event loop."""
    empty = await agent.ask("status")
    assert (empty["pending"], empty["pending_count"]) == ([], 0)
    assert (empty["recently_completed"], empty["completed_count"]) == ([], 0)
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
    with pytest.raises(InsufficientScope, match="the scope admin"):
        await Agent(service, tenant, operator=True, scopes=("ingest:write", "memory:read")).ask(
            "queue", file_path=str(allowed / "in.md")
        )
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
    taken = (await agent.ask("claim", limit=6))["items"]
    assert [held["file"] for held in taken] == [f"{number}.md" for number in range(6)]
    for number, held in enumerate(taken):
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
    with pytest.raises(ValueError, match="lies in the future"):
        await agent.queue("6.md", "f", meta={**CLOUD, "through": "9990-01-01T00:00:00Z"})
    other = Agent(agent.service, agent.tenant, subject="us-other")
    await other.queue("7.md", "g", meta={**CLOUD, "through": "2026-02-01", "last_event_id": "e9"})
    assert (await agent.ask("status"))["session_cursors"] == cursors, "what others say moves no cursor of one's own"
    assert (await other.ask("status"))["session_cursors"]["s-1"]["last_event_id"] == "e9"


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


async def test_of_what_was_cancelled_only_that_is_kept_and_who_sends_it_again_has_it_again(
    agent: Agent, service: IngestService, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await agent.send("s-1.jsonl", talk("Hello"), source="claude-code", session_id="s-1")
    await agent.ask("cancel", id=sent["id"])
    asked = (agent.tenant, [""], "s-1.jsonl")
    assert await service.store.newest(*asked, first="us-test") is None
    left = await service.store.newest(*asked, first="us-test", cancelled=True)
    assert left is not None
    assert (left.state, left.sha256, left.meta, left.facts, left.session_id) == (
        *("cancelled", sent["sha256"], "{}", None, None),
    )
    assert (await service.store.usage(agent.tenant)).files == 0
    for action, more in (("cancel", {}), ("retry", {}), ("read", {}), ("claim", {})):
        with pytest.raises(NotFound):
            await agent.ask(action, id=sent["id"], **more)
    again = await agent.send("s-1.jsonl", talk("Hello"))
    assert (again["created"], again["state"]) == (True, "pending")
    assert [message["text"] for message in (await agent.read(session_id="s-1"))["messages"]] == ["Hello"]
    monkeypatch.setattr("app.store.control.cancelled.KEPT", 1)
    for name in ("a.md", "b.md"):
        await agent.ask("cancel", id=(await agent.queue(name, "x"))["id"])
    kept = [
        await service.store.newest(agent.tenant, [""], name, first="us-test", cancelled=True)
        for name in ("a.md", "b.md")
    ]
    assert [each is not None for each in kept] == [False, True]


async def test_what_somebody_else_sent_under_the_same_name_hides_nothing(agent: Agent) -> None:
    other = Agent(agent.service, agent.tenant, subject="us-other")
    await other.send("s-1.jsonl", talk("Hello", "Later", "Last"))
    held = await other.claimed()
    await other.ask("complete", id=held["id"], lease=held["lease"])
    await agent.send("s-1.jsonl", talk("Another"))
    assert "since" not in (await agent.ask("status"))["pending"][0]
    assert "since" not in await agent.claimed()


async def test_transcripts_of_an_unknown_form_are_counted(agent: Agent, service: IngestService) -> None:
    await agent.send("s-1.jsonl", b'{"kind": "unheard of"}\n')
    await agent.send("s-2.jsonl", talk("Hello"))
    summary = await service.store.summary(agent.tenant, [""])
    assert (summary.unprocessed_transcripts, summary.strange_transcripts) == (2, 1)


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

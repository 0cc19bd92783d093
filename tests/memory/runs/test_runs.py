"""``graph_run`` and ``graph_audit``: leases, watermarks, reports."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from app.context import Deadline
from app.errors import CallError, Conflict, DatabaseUnavailable, InvalidInput, NotFound
from app.memory.runs.leading import Leading
from app.memory.runs.lease import LEASE_SECONDS
from app.memory.runs.reporting import FIELDS, report
from app.memory.runs.schemas import EVENTS, AuditInput, RunInput
from app.memory.runs.standing import standing
from app.memory.service import MemoryService
from app.store.control.audit import Audit
from app.store.control.run_events import RunEvents
from app.store.control.runs import RunStore
from app.store.database import Database
from tests.identity import fresh_name
from tests.memory.conftest import settings

FORWARD = (LEASE_SECONDS + 60) * 1000


class Leader:
    """One person on one device, which keeps the lease that it was handed."""

    def __init__(
        self, database: Database, tenant: str, subject: str, device: str = "", layers: tuple[str, ...] = ("",)
    ) -> None:
        self.database = database
        self.tenant = tenant
        self.subject = subject
        self.device = device
        self.layers = layers
        self.lease: str | None = None

    def on(self, device: str) -> Leader:
        return Leader(self.database, self.tenant, self.subject, device, self.layers)

    def call(self, tool: str, digest: str = "") -> Any:
        from tests.memory.conftest import Agent

        service = MemoryService(self.database, None, settings())  # type: ignore[arg-type]
        write = self.layers[-1]
        call = Agent(service, self.tenant, self.layers, write).call(tool, digest)
        principal = replace(call.principal, subject=self.subject)
        return replace(call, principal=principal, scope=replace(call.scope, subject=self.subject))

    async def run(self, action: str, digest: str = "", **arguments: Any) -> dict[str, Any]:
        named = {"device": self.device} if action == "begin" else {"lease": self.lease}
        given = RunInput.model_validate({"action": action, **named, **arguments})
        call = self.call("graph_run", digest)
        if action == "status":
            return dict(await standing(self.database, call, given))
        answer = dict(await Leading(self.database, call, given).answer())
        self.lease = answer.get("lease", self.lease)
        return answer

    async def report(self, event: str, digest: str = "", **arguments: Any) -> dict[str, Any]:
        given = AuditInput.model_validate({"event": event, "lease": self.lease, **arguments})
        return dict(await report(self.database, self.call("graph_audit", digest), given))


@pytest.fixture
def ann(database: Database) -> Leader:
    return Leader(database, fresh_name("d"), fresh_name("us"), "laptop")


@pytest.fixture
def bob(ann: Leader) -> Leader:
    return Leader(ann.database, ann.tenant, fresh_name("us"), "desk")


async def _let_the_lease_pass(leader: Leader) -> None:
    """As if every run of the tenant had been silent for longer than its lease."""
    store = RunStore(leader.database.control)

    async def work(writing: Any) -> None:
        for run in await store.runs(leader.tenant, leader.layers, states=("running",)):
            past = {"begun_at": run.begun_at - FORWARD, "beat_at": run.beat_at - FORWARD}
            await store.save(writing, leader.tenant, replace(run, **past, expires_at=run.expires_at - FORWARD))

    await leader.database.control.write(work)


@pytest.mark.shows("graph_run", 1, 2)
async def test_of_several_devices_that_begin_at_once_one_leads(ann: Leader) -> None:
    """W-M30: the lock was checked and then written, and belonged to nobody. Kind 19: one consolidation at a time."""
    devices = [ann.on(f"device {number}") for number in range(6)]
    answers = await asyncio.gather(*(device.run("begin") for device in devices), return_exceptions=True)
    led = [answer for answer in answers if isinstance(answer, dict)]
    refused = [answer for answer in answers if isinstance(answer, Conflict)]
    assert (len(led), len(refused)) == (1, 5)
    assert led[0]["run"]["state"] == "running"
    assert all(0 < error.retry_after_ms <= LEASE_SECONDS * 1000 for error in refused)
    assert all("Nothing was begun" in error.message for error in refused)


@pytest.mark.shows("graph_run", 3, 7)
async def test_the_same_device_takes_its_interrupted_run_up_again(ann: Leader) -> None:
    begun = await ann.run("begin", kind="dream", source="nightly")
    await ann.run("progress", session_id="s1", through="2026-01-01", line_count=10, entities=2, edges=3)
    again = await ann.run("begin", kind="dream")
    assert (begun["resumed"], again["resumed"]) == (False, True)
    assert again["run"]["run_id"] == begun["run"]["run_id"]
    assert (again["run"]["transcripts_processed"], again["run"]["edges_created"]) == (1, 3)
    status = await ann.run("status", session_ids=["s1", "s2"])
    assert [(mark["session_id"], mark["line_count"]) for mark in status["watermarks"]] == [("s1", 10)]
    await _let_the_lease_pass(ann)
    late = await ann.run("begin", kind="dream")
    assert late["run"]["run_id"] == begun["run"]["run_id"], "nobody else took it meanwhile"


@pytest.mark.shows("graph_run", 4, 7)
async def test_after_its_lease_another_device_goes_on_and_the_first_cannot_come_back(ann: Leader, bob: Leader) -> None:
    """W-M30: a lock was stale after two hours, whether its run lived or not."""
    first = (await ann.run("begin"))["run"]["run_id"]
    await ann.run("progress", session_id="s1", through="2026-01-01")
    with pytest.raises(Conflict, match="somebody else's run"):
        await bob.run("begin")
    await _let_the_lease_pass(ann)
    second = await bob.run("begin")
    assert (second["resumed"], second["run"]["resumes"]) == (True, first)
    assert second["run"]["run_id"] != first
    with pytest.raises(Conflict, match="has ended"):
        await ann.run("progress", session_id="s2")
    with pytest.raises(Conflict, match="has ended"):
        await ann.run("finish")
    status = await bob.run("status", session_ids=["s1", "s2"])
    assert [mark["session_id"] for mark in status["watermarks"]] == ["s1"]


@pytest.mark.shows("graph_run", 5)
async def test_work_renews_the_lease(ann: Leader) -> None:
    run = (await ann.run("begin"))["run"]["run_id"]
    for renew in (
        lambda: ann.run("heartbeat"),
        lambda: ann.run("progress", session_id="s1"),
        lambda: ann.report("transcript_start"),
    ):
        await _let_the_lease_pass(ann)
        assert (await ann.run("status", run_id=run))["run"]["state"] == "expired"
        await renew()
        assert (await ann.run("status", run_id=run))["run"]["state"] == "running"


@pytest.mark.shows("graph_run", 14)
async def test_another_device_of_the_same_person_does_not_lead_the_run(ann: Leader, bob: Leader) -> None:
    """W-M30: whoever is the same person is not the same device."""
    run = (await ann.run("begin"))["run"]["run_id"]
    assert run == (await ann.on("phone").run("status"))["run"]["run_id"]
    phone, guessing, thief = ann.on("phone"), ann.on("phone"), Leader(ann.database, ann.tenant, bob.subject)
    guessing.lease, thief.lease = f"{run}.0", ann.lease
    for action in ("heartbeat", "progress", "finish"):
        with pytest.raises(InvalidInput, match="lease is required"):
            await phone.run(action, run_id=run)
        for other in (guessing, thief):
            with pytest.raises(Conflict, match="somebody else leads this run, so nothing was applied"):
                await other.run(action)
    await _let_the_lease_pass(ann)
    assert (await phone.report("error", run_id=run))["run_id"] == run
    assert (await guessing.report("error"))["run_id"] == run
    assert (await ann.run("status", run_id=run))["run"]["state"] == "expired", "no other device keeps it alive"
    assert (await phone.run("abort", run_id=run))["run"]["state"] == "aborted", "the laptop may be lost"
    with pytest.raises(Conflict, match="has ended"):
        await ann.run("heartbeat")


@pytest.mark.shows("graph_run", 3, 14)
async def test_of_two_programs_on_one_device_the_one_that_began_last_leads(ann: Leader) -> None:
    second = ann.on("laptop")
    first, again = await ann.run("begin"), await second.run("begin")
    assert again["run"]["run_id"] == first["run"]["run_id"]
    assert again["lease"] != first["lease"]
    with pytest.raises(Conflict, match="somebody else leads"):
        await ann.run("progress", session_id="s1")
    assert (await second.run("finish"))["run"]["state"] == "completed"


@pytest.mark.shows("graph_run", 15)
async def test_a_watermark_does_not_pass_over_what_is_still_to_be_said(ann: Leader) -> None:
    await ann.run("begin")
    now = datetime.now(UTC)
    for ahead in (timedelta(minutes=7), timedelta(days=40_000)):
        with pytest.raises(InvalidInput, match=r"lies in the future.*Nothing was applied"):
            await ann.run("progress", session_id="s1", through=(now + ahead).isoformat())
    assert (await ann.run("status", session_ids=["s1"]))["watermarks"] == []
    fast = now + timedelta(minutes=3)
    assert (await ann.run("progress", session_id="s1", through=fast.isoformat()))["watermark"]["line_count"] == 0


@pytest.mark.shows("graph_run", 6)
async def test_a_watermark_never_moves_back_and_a_repeated_report_counts_once(ann: Leader) -> None:
    """W-M31: the manifest was written by hand, and a resumed session was not noticed."""
    await ann.run("begin")
    step = {
        "session_id": "s1",
        "through": "2026-02-01T10:00:00.5Z",
        "last_event_id": "e9",
        "line_count": 90,
        "edges": 4,
        "documents": 2,
        "errors": 1,
    }
    await ann.run("progress", **step)
    again = (await ann.run("progress", **step))["run"]
    assert (again["transcripts_processed"], again["edges_created"]) == (1, 4)
    assert (again["ingest_processed"], again["errors"]) == (2, 1)
    back = await ann.run("progress", session_id="s1", through="2026-02-01T10:00:00Z", last_event_id="e2", line_count=5)
    assert back["watermark"]["through"] == "2026-02-01T10:00:00.500000Z"
    assert (back["watermark"]["last_event_id"], back["watermark"]["line_count"]) == ("e9", 90)
    assert back["warnings"]
    on = await ann.run("progress", session_id="s1", through="2026-02-02", last_event_id="e12", line_count=120, edges=1)
    assert (on["watermark"]["last_event_id"], on["run"]["edges_created"]) == ("e12", 5)
    assert on["run"]["transcripts_processed"] == 1
    with pytest.raises(InvalidInput, match="name the conversation"):
        await ann.run("progress", through="2026-02-02")


@pytest.mark.shows("graph_run", 8, 12, 13)
async def test_a_finished_run_is_kept_with_its_changelog_and_another_may_begin(ann: Leader, bob: Leader) -> None:
    run = (await ann.run("begin", source="nightly"))["run"]["run_id"]
    await ann.run("progress", session_id="s1", entities=2)
    ended = {"changelog": "# learnt\nAda", "entities": 7, "idempotency_key": "end"}
    done = await ann.run("finish", "digest", **ended)
    assert (done["run"]["state"], done["run"]["entities_created"]) == ("completed", 7)
    assert await ann.run("finish", "digest", **ended) == done, "the first answer again"
    assert (await ann.run("finish", changelog="other"))["run"]["changelog"] == "# learnt\nAda"
    status = await bob.run("status")
    assert status["run"] is None
    assert status["last_completed"]["changelog"] == "# learnt\nAda"
    assert (status["last_completed"]["run_id"], status["last_completed"]["yours"]) == (run, False)
    assert (await bob.run("begin"))["resumed"] is False
    actions = [entry.action for entry in await Audit(ann.database.control).entries(ann.tenant, ["*"])]
    assert sorted(actions) == ["run.begin", "run.begin", "run.finish"]


@pytest.mark.shows("graph_run", 9)
async def test_a_run_is_given_up_by_who_leads_it(ann: Leader, bob: Leader) -> None:
    run = (await ann.run("begin"))["run"]["run_id"]
    await ann.run("progress", session_id="s1", line_count=4)
    with pytest.raises(Conflict, match="only who leads"):
        await bob.run("abort", run_id=run)
    given_up = await ann.run("abort", reason="the laptop is closing")
    assert (given_up["run"]["state"], given_up["run"]["reason"]) == ("aborted", "the laptop is closing")
    assert (await ann.run("abort", run_id=run))["next"].startswith("This run had ended before")
    assert (await ann.run("status"))["watermarks"][0]["line_count"] == 4
    assert (await bob.run("begin"))["resumed"] is False


@pytest.mark.shows("graph_run", 10)
async def test_learning_runs_exclude_each_other_and_a_capture_only_captures(ann: Leader, bob: Leader) -> None:
    await ann.run("begin", kind="dream")
    for kind in ("bootstrap", "weekly-maintenance"):
        with pytest.raises(Conflict, match="of kind dream"):
            await bob.run("begin", kind=kind)
    with pytest.raises(Conflict, match="Finish it"):
        await ann.run("begin", kind="bootstrap")
    await bob.run("begin", kind="capture")
    with pytest.raises(Conflict, match="of kind capture"):
        await ann.run("begin", kind="capture")


@pytest.mark.shows("graph_run", 11)
async def test_a_watermark_says_nothing_to_who_may_not_read_all_of_its_layers(ann: Leader) -> None:
    """Partition rule 18: neither the answer to a report nor what it does shows that it was read before."""
    wide = Leader(ann.database, ann.tenant, ann.subject, "laptop", ("b", ""))
    await wide.run("begin")
    far = await wide.run("progress", session_id="s1", through="2026-05-01", last_event_id="e9", line_count=900)
    await wide.run("finish")
    await ann.run("begin")
    near = await ann.run("progress", session_id="s1", through="2026-01-01", line_count=10)
    assert near["watermark"]["through"].startswith("2026-01-01")
    assert (near["watermark"]["line_count"], near["watermark"]["last_event_id"]) == (10, None)
    assert (near["run"]["transcripts_processed"], near.get("warnings")) == (1, None)
    assert far["watermark"] in (await wide.run("status"))["watermarks"]
    assert (await ann.run("status"))["watermarks"] == [near["watermark"]]


@pytest.mark.shows("graph_run", 11)
async def test_a_run_shows_to_who_may_read_all_of_its_layers_and_holds_up_nobody_else(ann: Leader) -> None:
    """Partition rule 18. Where layers are shared, only that a run is under way shows."""
    hidden = Leader(ann.database, ann.tenant, ann.subject, "laptop", ("", "b"))
    run = (await hidden.run("begin", source="secret"))["run"]["run_id"]
    await hidden.run("progress", session_id="s1", line_count=3)
    assert (await ann.run("status", session_ids=["s1"]))["watermarks"] == []
    with pytest.raises(NotFound, match="no such run"):
        await ann.run("status", run_id=run)
    with pytest.raises(NotFound, match="no such run"):
        await ann.run("heartbeat", run_id=run)
    assert (await ann.run("begin"))["resumed"] is False, "it writes to another layer"
    both = Leader(ann.database, ann.tenant, fresh_name("us"), "desk", ("b",))
    with pytest.raises(Conflict) as refused:
        await both.run("begin")
    assert "another run is under way" in refused.value.message
    assert "dream" not in refused.value.message


@pytest.mark.shows("graph_run", 12)
async def test_status_shows_what_was_reported_page_by_page(ann: Leader) -> None:
    await ann.run("begin")
    for number in range(5):
        await ann.report("transcript_end", data={"session_id": f"s{number}"})
    first = await ann.run("status", limit=4)
    rest = await ann.run("status", limit=4, cursor=first["next_cursor"])
    events = [*first["events"], *rest["events"]]
    assert [entry["data"].get("session_id") for entry in events] == ["s4", "s3", "s2", "s1", "s0", None]
    assert events[-1]["event"] == "run_start"
    assert rest["next_cursor"] is None
    stranger = Leader(ann.database, fresh_name("d"), ann.subject)
    with pytest.raises(InvalidInput, match="cursor"):
        await stranger.run("status", limit=4, cursor=first["next_cursor"])


@pytest.mark.shows("graph_run", 13)
async def test_the_same_key_begins_once(ann: Leader) -> None:
    first = await ann.run("begin", "digest", idempotency_key="k")
    await ann.run("abort")
    assert await ann.run("begin", "digest", idempotency_key="k") == first
    assert (await ann.run("status"))["run"] is None


async def test_what_leads_no_run_is_told_to_begin_one(ann: Leader) -> None:
    with pytest.raises(InvalidInput, match="you lead no run"):
        await ann.run("heartbeat")
    with pytest.raises(NotFound, match="no such run"):
        await ann.run("heartbeat", lease="run-0.1")


@pytest.mark.shows("graph_audit", 1)
def test_the_events_are_those_of_the_contract() -> None:
    assert len(EVENTS) == 16
    assert set(EVENTS) == set(FIELDS)
    with pytest.raises(ValidationError):
        AuditInput.model_validate({"event": "tenant_deleted"})


@pytest.mark.shows("graph_audit", 2, 3, 4)
async def test_what_is_reported_is_stored_with_what_the_gateway_knows(ann: Leader) -> None:
    """W-M06: the log was shared, and its entries could be forged by keys of the data."""
    forged = {"event": "run_end", "timestamp": "1999", "tenant_id": "other", "principal": "eve", "run": "r", "kept": 1}
    said = await ann.report("transcript_end", data=forged)
    assert (said["logged"], said["event"], said["principal"]) == (True, "transcript_end", ann.subject)
    assert said["ignored"] == ["event", "principal", "run", "tenant_id", "timestamp"]
    assert said["missing"] == ["session_id", "entities_extracted", "edges_created"]
    entry = (await RunEvents(ann.database.control).entries(ann.tenant, ("",)))[0]
    assert (entry.event, entry.subject, entry.run, dict(entry.data)) == ("transcript_end", ann.subject, "", {"kept": 1})
    shown = (await ann.run("status"))["events"][0]
    assert (shown["timestamp"], shown["principal"]) == (said["timestamp"], ann.subject)


@pytest.mark.shows("graph_audit", 9)
async def test_what_an_agent_says_is_told_from_what_the_gateway_saw(ann: Leader) -> None:
    """W-M06: what was reported could pass for what happened."""
    await ann.run("begin", source="nightly")
    said = await ann.report("run_end", data={"source": "nightly", "origin": "gateway", "edges_created": 900})
    assert said["ignored"] == ["origin"]
    await ann.run("finish")
    events = (await ann.run("status"))["events"]
    assert [(entry["event"], entry["origin"]) for entry in events] == [
        ("run_end", "gateway"),
        ("run_end", "agent"),
        ("run_start", "gateway"),
    ]
    assert "origin" not in events[1]["data"]


@pytest.mark.shows("graph_audit", 2)
async def test_a_report_that_was_not_stored_is_an_error(ann: Leader) -> None:
    away = await Database.connect("bolt://127.0.0.1:9", "neo4j", "nothing", "neo4j", pool_size=2)
    lost = Leader(away, ann.tenant, ann.subject)
    call = replace(lost.call("graph_audit"), deadline=Deadline.after(1))
    try:
        with pytest.raises(CallError) as failed:
            await report(away, call, AuditInput(event="error", run_id="run-1"))
    finally:
        await away.close()
    assert isinstance(failed.value, DatabaseUnavailable) or failed.value.retryable


@pytest.mark.shows("graph_audit", 5)
async def test_a_report_has_a_bounded_size(ann: Leader) -> None:
    with pytest.raises(InvalidInput, match="Nothing was logged"):
        await ann.report("error", data={"message": "x" * 9000})
    assert await RunEvents(ann.database.control).entries(ann.tenant, ("",)) == []


@pytest.mark.shows("graph_audit", 6, 7)
async def test_a_report_shows_by_its_layers_and_belongs_to_a_run_that_shows(ann: Leader) -> None:
    hidden = Leader(ann.database, ann.tenant, ann.subject, "laptop", ("", "b"))
    run = (await hidden.run("begin"))["run"]["run_id"]
    assert (await hidden.report("error", data={"context": "secret"}))["run_id"] == run
    assert (await ann.run("status"))["events"] == []
    assert (await Leader(ann.database, fresh_name("d"), ann.subject).run("status"))["events"] == []
    with pytest.raises(NotFound, match="Nothing was logged"):
        await ann.report("error", run_id=run)
    with pytest.raises(NotFound, match="Nothing was logged"):
        await ann.report("error", lease=hidden.lease)
    assert (await ann.report("error"))["run_id"] is None


@pytest.mark.shows("graph_audit", 8)
async def test_the_same_key_logs_once(ann: Leader) -> None:
    first = await ann.report("error", "digest", idempotency_key="k")
    assert await ann.report("error", "digest", idempotency_key="k") == first
    assert len(await RunEvents(ann.database.control).entries(ann.tenant, ("",))) == 1

"""``graph_export`` that outlives its call: a job that goes on, is asked for by its id, or is seen to have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from app.errors import Conflict, NotFound, Overloaded, QuotaExceeded
from app.memory.moving.exports import Exports
from app.memory.moving.schemas import ExportAnswer
from app.memory.service import MemoryService
from app.store.control.exporting import MOST_OF_TENANT, MOST_TURNS, ExportJobs
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.moving.dump import Dump
from app.store.moving.format import verified
from tests.memory.conftest import Agent
from tests.memory.moving.conftest import LAYERS, learn
from tests.memory.moving.test_export import _allow, exported, folder_of

New = Callable[[], Awaitable[Tenant]]


class Held:
    """Holds every export at its first page until it is let go."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.reads = Dump._nodes

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        held = self

        async def waiting(self: Dump, door: Any, layer: str) -> AsyncIterator[Any]:
            await held.free.wait()
            async for rows in held.reads(self, door, layer):
                yield rows

        monkeypatch.setattr(Dump, "_nodes", waiting)
        monkeypatch.setattr("app.memory.moving.export._PATIENCE", 0.001)
        monkeypatch.setattr("app.memory.moving.underway._WAIT_SECONDS", 0.05)
        monkeypatch.setattr("app.memory.moving.underway._LOOK_SECONDS", 0.02)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    made = Held()
    made.patch(monkeypatch)
    return made


@pytest_asyncio.fixture
async def agent(service: MemoryService, new_tenant: New) -> AsyncIterator[Agent]:
    """Somebody of a tenant that control data knows; an export must not outlive it unseen."""
    made = Agent(service, (await new_tenant()).data, LAYERS, "work")
    await learn(service, made.tenant)
    yield made
    await service.exporting.close()


async def ended(agent: Agent, export_id: str, *, subject: str = "user") -> dict[str, Any]:
    """Ask until it runs no more."""
    async with asyncio.timeout(20):
        while (found := await exported(agent, subject=subject, export_id=export_id))["status"] == "running":
            pass
    return found


def left(agent: Agent) -> list[str]:
    return sorted(path.name for path in folder_of(agent.tenant).rglob("*") if path.is_file())


@pytest.mark.shows("graph_export", 16)
async def test_an_export_that_outlives_its_call_goes_on_and_is_asked_for_by_its_id(agent: Agent, held: Held) -> None:
    begun = await exported(agent, label="long", keep=1)
    ExportAnswer.model_validate(begun)
    assert (begun["status"], begun["backup_file"], begun["sha256"]) == ("running", None, None)
    meanwhile = await exported(agent, export_id=begun["export_id"])
    assert (meanwhile["status"], meanwhile["export_id"]) == ("running", begun["export_id"])
    held.free.set()
    found = await ended(agent, begun["export_id"])
    ExportAnswer.model_validate(found)
    (path,) = folder_of(agent.tenant).glob("*/*.jsonl")
    assert (found["backup_file"], found["size_bytes"], found["retained"]) == (path.name, path.stat().st_size, 1)
    assert verified(path).counts.nodes == 7
    assert (found["node_count"], found["edge_count"], found["records"]) == (6, 5, 13)
    assert await exported(agent, export_id=begun["export_id"]) == found, "and whenever it is asked for within a day"


@pytest.mark.shows("graph_export", 13, 16)
async def test_the_same_key_finds_the_export_that_goes_on(agent: Agent, held: Held) -> None:
    begun = await exported(agent, idempotency_key="k")
    again = await exported(agent, idempotency_key="k")
    assert (begun["status"], again["export_id"]) == ("running", begun["export_id"])
    held.free.set()
    found = await ended(agent, begun["export_id"])
    assert await exported(agent, idempotency_key="k") == found
    assert left(agent) == [found["backup_file"]]


@pytest.mark.shows("graph_export", 9, 16)
async def test_an_export_under_way_is_there_only_for_who_began_it_and_reads_all_of_it(agent: Agent, held: Held) -> None:
    """Partition rule 18."""
    begun = await exported(agent)
    narrow = Agent(agent.service, agent.tenant, ("",), "")
    for who, subject in ((narrow, "user"), (agent, "somebody else")):
        with pytest.raises(NotFound, match="no export of this id"):
            await exported(who, subject=subject, export_id=begun["export_id"])
    held.free.set()
    assert (await ended(agent, begun["export_id"]))["status"] == "done"


@pytest.mark.shows("graph_export", 17)
async def test_an_export_whose_gateway_stopped_is_begun_again_by_the_one_that_is_asked_for_it(
    agent: Agent, held: Held, database: Database
) -> None:
    begun = await exported(agent, label="long", vectors=True)
    await agent.service.exporting.close()
    assert left(agent) == []
    others = [await exported(agent) for _ in range(MOST_OF_TENANT)]
    with pytest.raises(Overloaded, match="already"):
        await exported(agent, export_id=begun["export_id"])
    await agent.service.exporting.close()
    next_gateway = MemoryService(database, agent.service.embedder, agent.service.settings)
    asker = Agent(next_gateway, agent.tenant, LAYERS, "work")
    assert (await exported(asker, export_id=begun["export_id"]))["status"] == "running"
    held.free.set()
    found = await ended(asker, begun["export_id"])
    assert (found["export_id"], found["vectors"], found["records"]) == (begun["export_id"], True, 13)
    assert "-long" in found["backup_file"]
    assert left(agent) == [found["backup_file"]]
    await next_gateway.close()
    assert begun["export_id"] not in {each["export_id"] for each in others}


@pytest.mark.shows("graph_export", 17)
async def test_an_export_is_begun_again_twice_and_only_the_last_writer_counts(
    agent: Agent, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await exported(agent)
    with monkeypatch.context() as patched:
        patched.setattr("app.store.control.exporting._ENDED_SECONDS", -1.0)  # nobody beats in time
        patched.setattr("app.memory.moving.underway._WAIT_SECONDS", 10.0)
        with pytest.raises(Conflict, match="Nothing was kept"):
            await exported(agent, export_id=begun["export_id"])
    assert len(left(agent)) == 1 + MOST_TURNS
    held.free.set()
    found = await ended(agent, begun["export_id"])
    await agent.service.exporting.close()
    assert left(agent) == [found["backup_file"]]


@pytest.mark.shows("graph_export", 17)
async def test_no_export_of_a_suspended_tenant_is_begun_again(agent: Agent, held: Held, database: Database) -> None:
    begun = await exported(agent)
    await agent.service.exporting.close()
    tenants = Tenants(database.control)
    (tenant,) = [each for each in await tenants.all() if each.data == agent.tenant]
    await tenants.set_state(tenant.id, TenantState.SUSPENDED)
    with pytest.raises(Overloaded, match="suspended"):
        await exported(agent, export_id=begun["export_id"])
    assert left(agent) == []


@pytest.mark.shows("graph_export", 17)
async def test_an_export_of_what_is_restored_or_suspended_meanwhile_is_not_kept(
    agent: Agent, held: Held, database: Database
) -> None:
    begun = await exported(agent)
    tenants = Tenants(database.control)
    (tenant,) = [each for each in await tenants.all() if each.data == agent.tenant]
    await tenants.set_state(tenant.id, TenantState.SUSPENDED)
    held.free.set()
    with pytest.raises(Overloaded, match="suspended"):
        await ended(agent, begun["export_id"])
    assert left(agent) == []


@pytest.mark.shows("graph_export", 16)
async def test_a_tenant_has_two_exports_under_way_at_once(agent: Agent, held: Held) -> None:
    begun = [await exported(agent) for _ in range(MOST_OF_TENANT)]
    with pytest.raises(Overloaded, match="already"):
        await exported(agent)
    assert len(left(agent)) == MOST_OF_TENANT
    held.free.set()
    for each in begun:
        assert (await ended(agent, each["export_id"]))["status"] == "done"


@pytest.mark.shows("graph_export", 10, 16)
async def test_an_export_that_cannot_be_noted_ends_with_its_call(
    agent: Agent, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise Overloaded("no room")

    with monkeypatch.context() as patched:
        patched.setattr(ExportJobs, "begin", refused)
        patched.setattr("app.memory.moving.export.begin_in", refused)
        for key in (None, "k"):
            with pytest.raises(Overloaded, match="no room"):
                await exported(agent, idempotency_key=key)
    assert left(agent) == []


def beaten(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[bool]:
    """What every heartbeat from now on is answered; there are many."""
    answers: asyncio.Queue[bool] = asyncio.Queue()
    beat = ExportJobs.beat

    async def told(self: ExportJobs, *given: Any) -> bool:
        goes_on = await beat(self, *given)
        answers.put_nowait(goes_on)
        return goes_on

    monkeypatch.setattr("app.memory.moving.underway.BEAT_SECONDS", 0.01)
    monkeypatch.setattr(ExportJobs, "beat", told)
    return answers


def noted_and(monkeypatch: pytest.MonkeyPatch, then: Callable[[], Awaitable[None]]) -> None:
    """Something happens when a job is noted as done, before its export knows that it is."""
    done = ExportJobs.done

    async def late(self: ExportJobs, *given: Any) -> bool:
        wanted = await done(self, *given)
        await then()
        return wanted

    monkeypatch.setattr(ExportJobs, "done", late)


@pytest.mark.shows("graph_export", 16)
async def test_no_heartbeat_meets_the_end_of_its_export(
    agent: Agent, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    beats = beaten(monkeypatch)
    late: list[bool] = []

    async def no_more() -> None:
        while not beats.empty():
            beats.get_nowait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                late.append(await beats.get())

    begun = await exported(agent)
    assert [await beats.get() for _ in range(3)] == [True] * 3
    noted_and(monkeypatch, no_more)
    held.free.set()
    found = await ended(agent, begun["export_id"])
    await agent.service.exporting.close()
    assert left(agent) == [found["backup_file"]]
    assert late == []


@pytest.mark.shows("graph_export", 16, 17)
async def test_an_export_that_is_noted_as_whole_stays_whatever_comes_after(
    agent: Agent, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that is stopped in that moment; a disk that fails when the older ones go."""
    noted, go_on = asyncio.Event(), asyncio.Event()

    async def meanwhile() -> None:
        noted.set()
        await go_on.wait()

    def broken(*_: Any) -> tuple[int, int]:
        raise OSError("the disk is away")

    noted_and(monkeypatch, meanwhile)
    monkeypatch.setattr(Exports, "prune", broken)
    begun = await exported(agent)
    held.free.set()
    await noted.wait()
    closing = asyncio.create_task(agent.service.exporting.close())
    assert await asyncio.wait({closing}, timeout=0.05) == (set(), {closing}), "it waits"
    go_on.set()
    await closing
    found = await exported(agent, export_id=begun["export_id"])
    assert (found["status"], left(agent)) == ("done", [found["backup_file"]])


@pytest.mark.shows("graph_export", 8)
async def test_room_that_another_export_took_meanwhile_is_judged_once_the_file_is_whole(
    agent: Agent, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    _allow(agent.service, monkeypatch, quota_file_bytes=100_000)
    full = [await exported(agent), await exported(agent, subject="somebody else")]
    taken = folder_of(agent.tenant) / "another" / "2026-01-01T00-00-00.jsonl"
    taken.parent.mkdir()
    taken.write_bytes(b"x" * 99_000)
    held.free.set()
    for each, subject in zip(full, ("user", "somebody else"), strict=True):
        with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_FILE_BYTES"):
            await ended(agent, each["export_id"], subject=subject)
    assert left(agent) == [taken.name]

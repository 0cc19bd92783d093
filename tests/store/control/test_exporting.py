"""Records of exports that go on: a heartbeat and an end that meet, and exports that begin at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from app.context import Deadline
from app.errors import Overloaded
from app.store.control.exporting import BEAT, END, MOST_OF_TENANT, ExportJobs, begin_in, new_export_id
from app.store.control.standing import LOCK
from app.store.control.tenants import Tenants
from app.store.database import Database
from app.store.session import ControlSession, Writing
from app.store.statement import Statement
from tests.identity import fresh_name

WHOSE: dict[str, Any] = {"subject": "user", "layers": [""], "asked": {}, "answer": {"status": "running"}}


def patient(database: Database) -> ControlSession:
    """Time to spare: a busy machine must not end what a test holds open."""
    return database.control.until(Deadline.after(120), "test")


async def waits(database: Database, statement: Statement) -> None:
    """Until it waits for a lock."""
    async with asyncio.timeout(60), database.driver.session(database=database.name) as session:
        while True:
            result = await session.run(
                "SHOW TRANSACTIONS YIELD status, currentQuery WHERE status STARTS WITH 'Blocked' "
                "AND currentQuery CONTAINS $wanted RETURN count(*) AS waiting",
                wanted=statement.text,
            )
            row = await result.single()
            if row is not None and row["waiting"]:
                return
            await asyncio.sleep(0.02)


async def met(
    database: Database, first: Callable[[Writing], Awaitable[Any]], second: Awaitable[Any], waiting: Statement
) -> Any:
    """What the second one says, which came while the first had done its work and not committed it."""
    worked, go_on = asyncio.Event(), asyncio.Event()

    async def work(writing: Writing) -> None:
        await first(writing)
        worked.set()
        await go_on.wait()

    writing = asyncio.create_task(patient(database).write(work))
    await asyncio.wait({writing, asyncio.create_task(worked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    later = asyncio.ensure_future(second)
    await waits(database, waiting)
    go_on.set()
    await writing
    return (await asyncio.gather(later, return_exceptions=True))[0]


async def test_a_heartbeat_that_waits_behind_the_end_says_that_there_is_nothing_to_beat_for(database: Database) -> None:
    jobs, id_, tenant = ExportJobs(patient(database)), new_export_id(), fresh_name("exporting")
    await jobs.begin(id_, tenant=tenant, **WHOSE)
    ended = {
        "id": id_,
        "turn": 0,
        "state": "done",
        "now": 1,
        "answer": '{"status":"done"}',
        "kind": None,
        "reason": None,
    }
    beat = jobs.beat(id_, 0, {"status": "running"})
    assert await met(database, lambda writing: writing.run(END, **ended), beat, BEAT) is False
    job = await jobs.find(id_, tenant, "user")
    assert job is not None
    assert (job.state, job.answer) == ("done", {"status": "done"})


async def test_of_two_ends_that_meet_the_first_is_the_end(database: Database) -> None:
    jobs, id_, tenant = ExportJobs(patient(database)), new_export_id(), fresh_name("exporting")
    await jobs.begin(id_, tenant=tenant, **WHOSE)
    ended = {
        "id": id_,
        "turn": 0,
        "state": "done",
        "now": 1,
        "answer": '{"status":"done"}',
        "kind": None,
        "reason": None,
    }
    await met(database, lambda writing: writing.run(END, **ended), jobs.failed(id_, 0, "", "stopped"), END)
    job = await jobs.find(id_, tenant, "user")
    assert job is not None
    assert (job.state, job.reason) == ("done", None)


async def test_exports_that_begin_at_once_are_counted_one_after_the_other(database: Database) -> None:
    tenant = (await Tenants(database.control).create(fresh_name("exporting"))).data
    jobs = ExportJobs(patient(database))
    for _ in range(MOST_OF_TENANT - 1):
        await jobs.begin(new_export_id(), tenant=tenant, **WHOSE)

    async def last(writing: Writing) -> None:
        await begin_in(writing, new_export_id(), tenant=tenant, **WHOSE)

    refused = await met(database, last, jobs.begin(new_export_id(), tenant=tenant, **WHOSE), LOCK)
    with pytest.raises(Overloaded, match="already"):
        raise refused

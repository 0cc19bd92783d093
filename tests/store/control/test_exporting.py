"""Records of exports that go on: a heartbeat and an end that meet, and exports that begin at once."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import Overloaded
from app.store.control.exporting import BEAT, END, MOST_OF_TENANT, ExportJobs, begin_in, new_export_id
from app.store.control.standing import LOCK
from app.store.control.tenants import Tenants
from app.store.database import Database
from app.store.session import Writing
from tests.identity import fresh_name
from tests.store.meeting import met, patient

WHOSE: dict[str, Any] = {"subject": "user", "layers": [""], "asked": {}, "answer": {"status": "running"}}


ENDED: dict[str, Any] = {
    "turn": 0,
    "state": "done",
    "now": 1,
    "answer": '{"status":"done"}',
    "kind": None,
    "reason": None,
}


async def test_a_heartbeat_that_waits_behind_the_end_says_that_there_is_nothing_to_beat_for(database: Database) -> None:
    jobs, id_, tenant = ExportJobs(patient(database)), new_export_id(), fresh_name("exporting")
    await jobs.begin(id_, tenant=tenant, **WHOSE)
    beat = jobs.beat(id_, 0, {"status": "running"})
    assert await met(database, lambda writing: writing.run(END, **ENDED, id=id_), beat, BEAT) is False
    job = await jobs.find(id_, tenant, "user")
    assert job is not None
    assert (job.state, job.answer) == ("done", {"status": "done"})


async def test_of_two_ends_that_meet_the_first_is_the_end(database: Database) -> None:
    jobs, id_, tenant = ExportJobs(patient(database)), new_export_id(), fresh_name("exporting")
    await jobs.begin(id_, tenant=tenant, **WHOSE)
    await met(database, lambda writing: writing.run(END, **ENDED, id=id_), jobs.failed(id_, 0, "", "stopped"), END)
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

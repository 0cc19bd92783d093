"""What no quota counts is bounded for each person."""

from __future__ import annotations

import pytest

from app.store.control.run_events import RunEvent, RunEvents
from app.store.control.runs import RunStore
from app.store.database import Database, Idempotency
from app.store.statement import statement
from app.store.trimming import trim, trim_if_grown
from tests.identity import fresh_name
from tests.store.control.test_runs import _run, _save

KEPT = statement(
    "test.list_kept_keys",
    "MATCH (i:_Idempotency {tenant: $owner}) RETURN i.subject AS subject, count(i) AS keys ORDER BY subject",
    control=True,
)
_MANY = 60
_EACH = 40_000
_ROOM = 30 * _EACH


async def test_the_oldest_reports_go_of_whoever_wrote_too_much(database: Database) -> None:
    """By 60 calls of a minute the store grew by 8 KB each, for half a year, in no quota."""
    events, tenant = RunEvents(database.control), fresh_name("d")

    async def work(writing) -> None:
        for at, who in [*((at, "us-1") for at in range(_MANY)), (0, "us-2")]:
            told = {"message": "x" * _EACH}
            await events.append(writing, tenant, RunEvent("", "error", at, who, "c", ("",), told, "agent"))

    await database.control.write(work)
    await trim(database.control, _ROOM)
    left = await events.entries(tenant, ("",), limit=500)
    assert [(entry.at, entry.subject) for entry in left] == [*((at, "us-1") for at in range(59, 49, -1)), (0, "us-2")]
    await trim(database.control, _ROOM)
    assert len(await events.entries(tenant, ("",), limit=500)) == len(left)


async def test_a_burst_is_trimmed_before_its_hour(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.trimming._GROWN", _MANY)
    events, tenant = RunEvents(database.control), fresh_name("d")
    held = await trim_if_grown(database.control, 2**63 - 1)

    async def work(writing) -> None:
        for at in range(_MANY):
            told = {"message": "x" * _EACH}
            await events.append(writing, tenant, RunEvent("", "error", at, "us-1", "c", ("",), told, "agent"))

    await database.control.write(work)
    assert await trim_if_grown(database.control, held + 1, _ROOM) == held + 1
    assert len(await events.entries(tenant, ("",), limit=500)) == _MANY
    assert await trim_if_grown(database.control, held, _ROOM) == held + 10
    assert len(await events.entries(tenant, ("",), limit=500)) == 10


async def test_the_oldest_changelogs_are_emptied_and_their_runs_stay(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")
    many = [_run(begun_at=at, state="completed", changelog="x" * _EACH) for at in range(_MANY)]
    await _save(database, tenant, *many, _run(begun_at=0, subject="us-2", changelog="mine"))
    await trim(database.control, _ROOM)
    left = await store.runs(tenant, ("",), limit=500)
    assert len(left) == _MANY + 1
    assert [run.begun_at for run in left if run.changelog] == [*range(59, 49, -1), 0]


async def test_the_oldest_remembered_answers_go(tenant, open_session, database: Database) -> None:
    async def answer(writing):
        return {"text": "x" * _EACH}

    for subject, number in [("ann", 3), ("ben", 1)]:
        for key in range(number):
            session = open_session(tenant, subject=subject)
            await session.write(answer, idempotency=Idempotency(f"k{key}", "graph_relate", "d"))
    await trim(database.control, 2 * _EACH)
    assert await database.control.read(KEPT, owner=tenant) == [{"subject": "ben", "keys": 1}]

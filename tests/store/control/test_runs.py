from __future__ import annotations

import asyncio
from dataclasses import replace

from app.store.control.run_events import RunEvent, RunEvents
from app.store.control.runs import Run, RunStore, Watermark, new_run_id
from app.store.database import Database
from tests.identity import fresh_name


def _run(**more) -> Run:
    known = {
        "id": new_run_id(),
        "kind": "dream",
        "subject": "us-1",
        "holder": "us-1 laptop",
        "device": "laptop",
        "source": "nightly",
        "layers": ("",),
        "slots": ("",),
        "begun_at": 1000,
        "beat_at": 1000,
        "expires_at": 2000,
    }
    return Run(**{**known, **more})


async def _save(database: Database, tenant: str, *runs: Run) -> None:
    store = RunStore(database.control)

    async def work(writing) -> None:
        for run in runs:
            await store.save(writing, tenant, run)

    await database.control.write(work)


async def test_a_run_comes_back_as_it_was_stored(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")
    run = _run(ended_at=3000, state="completed", entities=3, changelog="two words", layers=("", "a"))
    await _save(database, tenant, run)
    assert await store.runs(tenant, ("", "a")) == [run]
    assert await store.last(tenant, ("", "a"), completed=True) == run


async def test_a_run_shows_only_to_who_may_read_all_of_its_layers(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")
    await _save(database, tenant, _run(layers=("", "a")), _run(layers=("",), begun_at=500, kind="capture"))
    assert [run.begun_at for run in await store.runs(tenant, ("", "a", "b"))] == [1000, 500]
    assert [run.begun_at for run in await store.runs(tenant, ("",))] == [500]
    assert await store.runs(tenant, ()) == []
    assert await store.runs(fresh_name("d"), ("", "a")) == []
    assert await store.last(tenant, ("",)) is None, "a capture reads nothing that was pending"


async def test_what_runs_is_what_has_a_lease_that_is_not_over(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")
    run = _run()
    await _save(database, tenant, run)
    assert await store.running(tenant, ("",), 1999) == run
    assert await store.running(tenant, ("",), 2000) is None
    assert (run.state_at(1999), run.state_at(2000)) == ("running", "expired")
    assert replace(run, state="aborted").state_at(3000) == "aborted"


async def test_of_ten_that_take_a_slot_at_once_each_sees_the_one_before(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")

    async def begin() -> str:
        run = _run()

        async def work(writing) -> str:
            held = await store.lock_slots(writing, tenant, ("", "a"))
            if held:
                return held[0].id
            await store.save(writing, tenant, run)
            await store.take_slots(writing, tenant, replace(run, slots=("", "a")))
            return run.id

        return await database.control.write(work)

    assert len(set(await asyncio.gather(*(begin() for _ in range(10))))) == 1
    assert len(await store.runs(tenant, ("",))) == 1


async def test_watermarks_are_kept_by_conversation_and_layer(database: Database) -> None:
    store, tenant = RunStore(database.control), fresh_name("d")
    mark = Watermark("s1", ("", "a"), "run-1", 1000, "2026-01-01T00:00:00Z", "e9", 12)

    async def work(writing) -> tuple[Watermark | None, Watermark | None]:
        none = await store.mark(writing, tenant, "a", "s1")
        await store.save_mark(writing, tenant, "a", mark)
        return none, await store.mark(writing, tenant, "a", "s1")

    assert await database.control.write(work) == (None, mark)
    assert await store.marks(tenant, ("", "a"), ["s1", "s2"]) == [mark]
    assert await store.marks(tenant, ("", "a")) == [mark]
    assert await store.marks(tenant, ("",)) == []
    assert await store.marks(tenant, ("", "a"), ["s2"]) == []


async def test_events_come_newest_first_page_by_page_to_who_may_read_their_layers(database: Database) -> None:
    events, tenant = RunEvents(database.control), fresh_name("d")

    async def work(writing) -> None:
        for number in range(5):
            layers = ("a",) if number == 4 else ("",)
            await events.append(
                writing, tenant, RunEvent("run-1", "error", number, "us-1", "c", layers, {"n": number}, "agent")
            )

    await database.control.write(work)
    first = await events.entries(tenant, ("",), run="run-1", limit=2)
    rest = await events.entries(tenant, ("",), run="run-1", before=(first[-1].at, first[-1].id))
    assert [entry.data["n"] for entry in [*first, *rest]] == [3, 2, 1, 0]
    assert len(await events.entries(tenant, ("", "a"))) == 5
    assert await events.entries(tenant, ("",), run="run-2") == []


async def test_what_is_old_is_swept_but_a_run_that_never_ended(database: Database) -> None:
    store, events, tenant = RunStore(database.control), RunEvents(database.control), fresh_name("d")
    await _save(database, tenant, _run(begun_at=1), _run(begun_at=2, state="completed"), _run(begun_at=10))
    await database.control.write(
        lambda writing: events.append(writing, tenant, RunEvent("", "error", 1, "us-1", "c", ("",), {}, "agent"))
    )
    await store.sweep(before=5)
    await events.sweep(before=5)
    assert [run.begun_at for run in await store.runs(tenant, ("",))] == [10, 1]
    assert await events.entries(tenant, ("",)) == []

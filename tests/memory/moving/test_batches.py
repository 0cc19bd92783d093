"""Rows are made while the database writes, in their order, and what was left writes nothing later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.context import Deadline, Scope
from app.errors import InvalidInput
from app.memory.moving.batches import Batches
from app.store.database import Database, TenantSession
from app.store.execution import _Attempt
from app.store.moving.load import BATCH_BYTES, Load, Row
from tests.identity import fresh_name
from tests.memory.moving.conftest import records_of

NOW = {"first_seen": "2024-01-01T00:00:00Z", "last_seen": "2024-01-01T00:00:00Z"}
EDGE = {"ingested_at": "2024-01-01T00:00:00Z", "last_confirmed": "2024-01-01T00:00:00Z"}
EDGE |= dict.fromkeys(("valid_at", "invalid_at", "ended_at"))


class Waiting(Load):
    """A load that says when a batch is under way, and waits until it may go on."""

    begun: asyncio.Event
    go_on: asyncio.Event

    async def write(self, rows: Sequence[Row]) -> None:
        self.begun.set()
        await self.go_on.wait()
        await super().write(rows)


def load(database: Database, data: str) -> Waiting:
    def opened(scope: Scope) -> TenantSession:
        return database.session(scope, deadline=Deadline.after(15), request_id="test")

    made = Waiting(opened, data)
    made.begun, made.go_on = asyncio.Event(), asyncio.Event()
    return made


def node(number: int, **properties: str) -> Row:
    fields: dict[str, Any] = {
        "name": f"thing {number}",
        "type": "Concept",
        "aliases": [],
        "confidence": 0.5,
        "times_mentioned": 1,
    }
    values = {"id": f"thing-{number}", "label": "Concept", "fields": fields | properties, **NOW}
    return Row("node", "", number, values)


def edge(source: int, target: int) -> Row:
    ends = {"source": f"thing-{source}", "relation": "USES", "target": f"thing-{target}"}
    return Row("edge", "", 7, {**ends, "fields": {"weight": 0.5}, **EDGE})


async def test_the_next_rows_are_made_while_a_batch_is_written(database: Database) -> None:
    data, made, loop = fresh_name("batches"), asyncio.Event(), asyncio.get_running_loop()
    filling = load(database, data)

    def rows() -> Iterator[Row]:
        yield from (node(number, content="x" * (BATCH_BYTES // 512)) for number in range(1100))
        loop.call_soon_threadsafe(made.set)

    shown: list[int] = []
    async with Batches(filling, shown.append) as batches:
        pouring = asyncio.create_task(batches.pour(rows()))
        await made.wait()  # while the first batch is held
        assert filling.begun.is_set()
        assert shown == []
        filling.go_on.set()
        await pouring
        await batches.pour([edge(0, 1099)])
        await batches.flush()
    assert (len(shown), shown[-1]) == (4, 1101)
    records = await records_of(database, data)
    assert (len(records), records[-1]["from_id"], records[-1]["to_id"]) == (1101, "thing-0", "thing-1099")


async def test_a_commit_under_way_is_over_before_its_batches_are_left_however_often_they_are_cut_off(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, committing, go_on, commit = fresh_name("batches"), asyncio.Event(), asyncio.Event(), _Attempt.commit

    async def held(self: _Attempt) -> None:
        committing.set()
        await go_on.wait()
        await commit(self)

    monkeypatch.setattr(_Attempt, "commit", held)
    filling = load(database, data)
    filling.go_on.set()

    async def filled() -> None:
        async with Batches(filling, lambda done: None) as batches:
            await batches.pour([node(1)])
            await batches.flush()

    before = asyncio.all_tasks()
    filling_up = asyncio.create_task(filled())
    await committing.wait()
    for _ in range(2):
        filling_up.cancel()
        assert await asyncio.wait({filling_up}, timeout=0.02) == (set(), {filling_up}), "it waits"
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await filling_up
    assert len(await records_of(database, data)) == 1, "who erases now erases it"
    assert not asyncio.all_tasks() - before


async def test_rows_that_cannot_be_made_are_told_once_the_batch_before_them_is_written(database: Database) -> None:
    filling = load(database, fresh_name("batches"))

    def rows() -> Iterator[Row]:
        yield from (node(1), edge(1, 1))
        raise InvalidInput("line 3: not ours", field="file")

    async def filled() -> None:
        async with Batches(filling, lambda done: None) as batches:
            await batches.pour([node(1), edge(1, 1)])
            await batches.pour(rows())

    before = asyncio.all_tasks()
    filling_up = asyncio.create_task(filled())
    await filling.begun.wait()
    assert await asyncio.wait({filling_up}, timeout=0.02) == (set(), {filling_up}), "it waits"
    filling.go_on.set()
    with pytest.raises(InvalidInput, match="line 3"):
        await filling_up
    assert filling.counts.nodes == 1
    assert not asyncio.all_tasks() - before


async def test_large_records_make_small_batches(database: Database) -> None:
    filling = load(database, fresh_name("batches"))
    filling.go_on.set()
    shown: list[int] = []
    async with Batches(filling, shown.append) as batches:
        await batches.pour([node(number, content="x " * (BATCH_BYTES // 6)) for number in range(5)])
        await batches.flush()
    assert shown == [2, 4, 5]


async def test_a_batch_that_fails_is_told_with_the_next_rows(database: Database) -> None:
    filling = load(database, fresh_name("batches"))
    filling.go_on.set()
    async with Batches(filling, lambda done: None) as batches:
        await batches.pour([node(1), edge(1, 2), node(3)])
        with pytest.raises(InvalidInput, match="line 7: a relation whose ends are not in the file"):
            await batches.flush()

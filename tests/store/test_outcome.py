"""What a caller is told of a write: applied, not applied, or unknown; never a lie."""

from __future__ import annotations

import asyncio
import time

import pytest
import pytest_asyncio

from app.context import Deadline, Scope
from app.errors import CallError, Conflict, DatabaseUnavailable, DeadlineExceeded, NotFound
from app.store import execution
from app.store.database import Database, Idempotency
from tests.store.proxy import Proxy
from tests.store.statements import ADD, FIND, MARK, MARKS, SLOW


@pytest_asyncio.fixture
async def proxy(neo4j_server):
    started = Proxy(neo4j_server.uri)
    await started.start()
    yield started
    started.release.set()
    await started.stop()


@pytest_asyncio.fixture
async def through(proxy, neo4j_server, database):
    opened = await Database.connect(
        proxy.uri, neo4j_server.user, neo4j_server.password, neo4j_server.database, pool_size=5
    )
    yield opened
    proxy.release.set()
    await opened.close()


def open_on(database, tenant: str, *, seconds: float = 15.0):
    scope = Scope(tenant, ("",), ("",), "", "tester")
    return database.session(scope, deadline=Deadline.after(seconds), request_id="outcome")


async def add(session, key: str | None = None):
    async def work(writing):
        return (await writing.run(ADD, id="ada", name="Ada"))[0]

    idempotency = None if key is None else Idempotency(key, "graph_relate", "digest")
    return await session.write(work, idempotency=idempotency)


async def times(database, tenant: str) -> int:
    rows = await open_on(database, tenant).read(FIND, id="ada")
    return rows[0]["times"] if rows else 0


async def test_a_connection_lost_before_the_commit_arrived_is_unknown(proxy, through, database, tenant):
    proxy.trick = "drop_before_commit"
    with pytest.raises(DatabaseUnavailable) as caught:
        await add(open_on(through, tenant))
    assert caught.value.outcome == "unknown"
    assert caught.value.retryable
    assert proxy.commits == 1, "a commit whose outcome is unknown is never repeated"
    assert await times(database, tenant) == 0


async def test_a_connection_lost_after_the_commit_arrived_is_unknown_and_the_key_resolves_it(
    proxy, through, database, tenant
):
    proxy.trick = "drop_after_commit"
    with pytest.raises(DatabaseUnavailable) as caught:
        await add(open_on(through, tenant), key="k")
    assert caught.value.outcome == "unknown"
    proxy.release.set()
    proxy.trick = "none"
    await _until(lambda: times(database, tenant), 1)
    assert await add(open_on(through, tenant), key="k") == {"id": "ada", "times": 1}
    assert await times(database, tenant) == 1


async def test_what_an_unknown_commit_changed_is_read_again_until_the_server_has_done_with_it(
    proxy, through, database, tenant, monkeypatch
):
    """It counted as ended at once: who read before it was applied kept that."""
    monkeypatch.setattr(execution, "_FINISHING_SECONDS", 0.1)
    assert await add(open_on(through, tenant)) == {"id": "ada", "times": 1}
    reader = open_on(through, tenant)
    assert reader.touched_since(reader.mark) == set()
    proxy.trick = "drop_after_commit"
    with pytest.raises(DatabaseUnavailable):
        await add(open_on(through, tenant, seconds=1))
    read = reader.mark
    assert reader.touched_since(read) != set(), "it may be applied after this reading"
    proxy.release.set()
    await _until(lambda: times(database, tenant), 2)
    assert reader.touched_since(read) != set()

    async def over() -> bool:
        return reader.mark > read

    await _until(over, True)
    assert reader.touched_since(read) != set()
    assert reader.touched_since(reader.mark) == set()


async def test_a_commit_that_is_not_acknowledged_in_time_is_unknown(proxy, through, tenant):
    proxy.trick = "hold_commit"
    begun = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        await add(open_on(through, tenant, seconds=3))
    assert caught.value.outcome == "unknown"
    assert time.monotonic() - begun < 3


async def test_a_write_past_its_commit_point_completes_though_its_caller_left(proxy, through, database, tenant):
    proxy.trick = "delay_commit"
    writing = asyncio.create_task(add(open_on(through, tenant)))
    await proxy.committing.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    proxy.release.set()
    await through._execution.settle()
    assert await times(database, tenant) == 1


async def test_closing_waits_for_the_commit_under_way(proxy, neo4j_server, database, tenant):
    opened = await Database.connect(proxy.uri, neo4j_server.user, neo4j_server.password, "neo4j", pool_size=2)
    proxy.trick = "delay_commit"
    writing = asyncio.create_task(add(open_on(opened, tenant)))
    await proxy.committing.wait()
    closing = asyncio.create_task(opened.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    proxy.release.set()
    await closing
    assert await writing == {"id": "ada", "times": 1}
    assert await times(database, tenant) == 1


async def test_a_write_cancelled_before_its_commit_leaves_nothing(database, tenant):
    begun = asyncio.Event()

    async def work(writing):
        await writing.run(ADD, id="ada", name="Ada")
        begun.set()
        await writing.run(SLOW)
        return {}

    writing = asyncio.create_task(open_on(database, tenant, seconds=60).write(work))
    await begun.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await times(database, tenant) == 0


async def test_a_write_out_of_time_before_its_commit_was_not_applied(database, tenant):
    async def work(writing):
        await writing.run(ADD, id="ada", name="Ada")
        await writing.run(SLOW)
        return {}

    begun = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        await open_on(database, tenant, seconds=1.5).write(work)
    assert caught.value.outcome == "not_applied"
    assert "same idempotency_key" in caught.value.message
    assert "arrow" not in caught.value.message, "one change cannot be made narrower"
    assert time.monotonic() - begun < 1.5, "two thirds of the time are for the work"
    assert await times(database, tenant) == 0


async def test_a_refusal_by_the_work_itself_rolls_everything_back(database, tenant):
    async def work(writing):
        await writing.run(ADD, id="ada", name="Ada")
        raise NotFound("no such entity")

    with pytest.raises(NotFound):
        await open_on(database, tenant).write(work)
    assert await times(database, tenant) == 0


async def test_a_taken_unique_key_is_a_conflict(database, tenant):
    await database.command("CREATE CONSTRAINT test_mark IF NOT EXISTS FOR (m:_Mark) REQUIRE m.id IS UNIQUE")

    async def work(writing):
        return await writing.run(MARK, id=tenant)

    assert await database.control.write(work) == [{"id": tenant}]
    with pytest.raises(Conflict) as caught:
        await database.control.write(work)
    assert caught.value.outcome == "not_applied"
    assert tenant not in str(caught.value)
    assert await database.control.read(MARKS, id=tenant) == [{"id": tenant}]


async def test_a_read_outlives_a_lost_connection(proxy, through, tenant):
    assert await open_on(through, tenant).read(FIND, id="ada") == []
    await proxy.stop()
    await proxy.start()
    assert await open_on(through, tenant).read(FIND, id="ada") == []


async def test_a_database_that_is_away_is_said_within_the_deadline_and_found_again(proxy, through, tenant):
    await proxy.stop()
    for call in (lambda s: s.read(FIND, id="ada"), add):
        begun = time.monotonic()
        with pytest.raises(CallError) as caught:
            await call(open_on(through, tenant, seconds=1.5))
        assert caught.value.reason in {"database_unavailable", "deadline_exceeded"}
        assert caught.value.retryable
        assert caught.value.outcome == "not_applied"
        assert time.monotonic() - begun < 2.5
    await proxy.start()
    assert await add(open_on(through, tenant)) == {"id": "ada", "times": 1}


async def _until(question, answer) -> None:
    for _ in range(500):
        if await question() == answer:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never became {answer}")

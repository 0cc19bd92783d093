"""Sessions: what a call may do with its tenant's graph, and what it hears when it may not."""

from __future__ import annotations

import asyncio
import time

import pytest

from app.context import Deadline, Scope
from app.errors import DeadlineExceeded, Forbidden, InternalError, Overloaded
from app.store.partition import partition_token
from app.store.statement import Statement
from tests.store.statements import (
    ADD,
    BROKEN,
    FIND,
    LABEL,
    MARKS,
    PARAMETERS,
    RENAME,
    RUNNING,
    SLOW,
    VALUES,
    WHOLE,
)


async def add(session, name: str):
    async def work(writing):
        return (await writing.run(ADD, id=name.lower(), name=name))[0]

    return await session.write(work)


async def test_a_write_is_read_back_by_its_own_tenant_alone(tenant, open_session):
    assert await add(open_session(tenant), "Charlie") == {"id": "charlie", "times": 1}
    assert [row["name"] for row in await open_session(tenant).read(FIND, id="charlie")] == ["Charlie"]
    assert await open_session(tenant + "x").read(FIND, id="charlie") == []


async def test_two_tenants_and_two_layers_keep_their_own_john(tenant, open_session):
    await add(open_session(tenant), "John")
    await add(open_session(tenant, layers=("", "work"), write_layer="work"), "John")
    await add(open_session(tenant + "x"), "John")

    async def rename(writing):
        return {"layers": [row["layer"] for row in await writing.run(RENAME, id="john", name="Johnny")]}

    session = open_session(tenant, layers=("", "work"), write_layer="work")
    assert await session.write(rename) == {"layers": ["work"]}
    assert [(row["layer"], row["name"]) for row in await session.read(FIND, id="john")] == [
        ("", "John"),
        ("work", "Johnny"),
    ]
    assert [row["name"] for row in await open_session(tenant + "x").read(FIND, id="john")] == ["John"]
    assert [row["name"] for row in await open_session(tenant).read(FIND, id="john")] == ["John"]


async def test_no_layers_read_nothing(tenant, open_session):
    await add(open_session(tenant), "Ada")
    assert await open_session(tenant, layers=(), write_layer=None).read(FIND, id="ada") == []


def test_a_scope_without_a_tenant_does_not_exist():
    with pytest.raises(ValueError, match="tenant"):
        Scope("", ("",), ("",), "", "s")


async def test_the_session_sets_tenant_and_layers_itself(tenant, open_session):
    session = open_session(tenant, layers=("", "work"), write_layer="work", writable=("work",))
    assert await session.read(PARAMETERS) == [
        {
            "tenant": tenant,
            "layers": ["", "work"],
            "writable": ["work"],
            "layer": "work",
            "partitions": [partition_token(tenant, ""), partition_token(tenant, "work")],
            "partition": partition_token(tenant, "work"),
        }
    ]


@pytest.mark.parametrize("name", ["tenant", "layers", "writable", "layer", "partitions", "partition"])
async def test_a_caller_cannot_pass_what_the_session_sets(tenant, open_session, name):
    with pytest.raises(TypeError, match="session alone"):
        await open_session(tenant).read(FIND, id="a", **{name: "other"})


async def test_only_registered_statements_of_the_right_kind_run(tenant, open_session, database):
    forged = Statement("test.forged", "MATCH (n) RETURN n.id AS id", False, False, frozenset(), frozenset())
    with pytest.raises(TypeError, match="registered"):
        await open_session(tenant).read(forged)
    with pytest.raises(TypeError, match="control session"):
        await open_session(tenant).read(MARKS, id="x")
    with pytest.raises(TypeError, match="tenant session"):
        await database.control.read(FIND, id="x")
    with pytest.raises(TypeError, match="writes"):
        await open_session(tenant).read(ADD, id="x", name="x")


async def test_a_scope_that_writes_nowhere_is_refused_before_anything_runs(tenant, open_session):
    with pytest.raises(Forbidden):
        await add(open_session(tenant, write_layer=None), "Ada")
    with pytest.raises(Forbidden):
        await add(open_session(tenant, write_layer=None, writable=("",)), "Ada")
    assert await open_session(tenant).read(FIND, id="ada") == []


async def test_moments_are_text_in_utc(tenant, open_session):
    (row,) = await open_session(tenant).read(VALUES, given=[0.25] * 3)
    assert row == {
        "moment": "2026-01-02T03:04:05Z",
        "elsewhere": "2026-01-02T03:04:05.25Z",
        "list": [1, "a", "2026-01-02T03:04:05.000001Z"],
        "map": {"at": ["2026-12-31T23:59:59Z"]},
        "day": "2026-01-02",
        "span": "P1DT2H",
        "nothing": None,
        "given": [0.25] * 3,
    }


async def test_a_statement_that_returns_whole_nodes_is_our_fault(tenant, open_session):
    await add(open_session(tenant), "Ada")
    with pytest.raises(TypeError, match="Node"):
        await open_session(tenant).read(WHOLE)


async def test_a_statement_the_database_refuses_is_an_internal_error_without_its_text(tenant, open_session):
    with pytest.raises(InternalError) as caught:
        await open_session(tenant).read(BROKEN)
    assert "nonsense" not in str(caught.value)
    assert caught.value.outcome == "not_applied"


async def test_a_read_past_its_deadline_says_so_and_stops_on_the_server(tenant, open_session, database):
    begun = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        await open_session(tenant, seconds=0.4).read(SLOW)
    assert time.monotonic() - begun < 3
    assert caught.value.outcome == "not_applied"
    await _nothing_runs(database, tenant)


async def test_who_only_reads_is_told_to_ask_for_less_and_who_writes_to_try_again(tenant, open_session):
    with pytest.raises(DeadlineExceeded, match="Narrow it"):
        await open_session(tenant, write_layer=None, seconds=0).read(FIND, id="a")
    with pytest.raises(DeadlineExceeded, match="same idempotency_key"):
        await open_session(tenant, seconds=0).read(FIND, id="a")


async def test_a_deadline_in_the_past_is_exceeded_at_once(tenant, open_session):
    with pytest.raises(DeadlineExceeded):
        await open_session(tenant, seconds=0).read(FIND, id="a")


async def test_a_cancelled_read_stops_on_the_server(tenant, open_session, database):
    reading = asyncio.create_task(open_session(tenant, seconds=60).read(SLOW))
    await _until_it_runs(database, tenant)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    cancelled = time.monotonic()
    await _nothing_runs(database, tenant)
    assert time.monotonic() - cancelled < 2


async def test_cancelled_reads_leak_no_connection(tenant, neo4j_server):
    small = await neo4j_server.connect(pool_size=2)
    try:
        for _ in range(8):
            session = small.session(
                Scope(tenant, ("",), (), None, "s"), deadline=Deadline.after(30), request_id="cancelled"
            )
            reading = asyncio.create_task(session.read(SLOW))
            await asyncio.sleep(0)
            await _until_it_runs(small, tenant)
            reading.cancel()
            await asyncio.wait({reading})
        session = small.session(Scope(tenant, ("",), (), None, "s"), deadline=Deadline.after(5), request_id="after")
        assert await session.read(FIND, id="a") == []
    finally:
        await small.close()


async def test_a_full_pool_is_overload_not_a_hang(tenant, neo4j_server, monkeypatch):
    monkeypatch.setattr("app.store.database._ACQUIRE_SECONDS", 0.2)
    small = await neo4j_server.connect(pool_size=1)
    try:
        scope = Scope(tenant, ("",), (), None, "s")
        holding = asyncio.create_task(small.session(scope, deadline=Deadline.after(20), request_id="a").read(SLOW))
        await asyncio.sleep(0.3)
        with pytest.raises(Overloaded) as caught:
            await small.session(scope, deadline=Deadline.after(10), request_id="b").read(FIND, id="a")
        assert caught.value.retryable
        holding.cancel()
        await asyncio.wait({holding})
    finally:
        await small.close()


async def test_a_dynamic_label_or_type_is_a_name_whatever_it_holds(tenant, open_session):
    label, kind = "X`) DETACH DELETE n //", "Y`]->() SET n.tenant = 'z' //"

    async def work(writing):
        return (await writing.run(LABEL, id="ada", label=label, type=kind))[0]

    answer = await open_session(tenant).write(work)
    assert answer == {"labels": ["Entity", label], "type": kind}
    assert (await open_session(tenant).read(FIND, id="ada"))[0]["layer"] == ""


async def test_a_transaction_carries_tenant_and_request_and_nothing_else(tenant, open_session, database):
    reading = asyncio.create_task(open_session(tenant, seconds=60).read(SLOW))
    rows = await _until_it_runs(database, tenant)
    assert rows[0]["metadata"] == {"tenant": tenant, "request": "test"}
    reading.cancel()
    await asyncio.wait({reading})


async def test_lists_among_the_parameters_are_not_written_out_for_the_drivers_debug_lines(tenant, open_session, caplog):
    with caplog.at_level("DEBUG", logger="neo4j"):
        rows = await open_session(tenant, layers=("", "told-in-confidence")).read(FIND, id="nobody")
    assert rows == []
    assert "[...]" in caplog.text
    assert "told-in-confidence" not in caplog.text


async def _until_it_runs(database, tenant):
    for _ in range(500):
        rows = await database.control.read(RUNNING, tenant=tenant)
        if rows:
            return rows
        await asyncio.sleep(0.01)
    raise AssertionError("the query never began")


async def _nothing_runs(database, tenant):
    for _ in range(500):
        if not await database.control.read(RUNNING, tenant=tenant):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the query is still running")

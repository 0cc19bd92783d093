"""An idempotency key applies a write once (partition rule 19)."""

from __future__ import annotations

import asyncio

import pytest

from app.errors import Conflict, NotFound
from app.store.database import Idempotency
from app.store.idempotency import CLAIM
from app.store.statement import statement
from app.store.sweeping import SWEEP, keep_swept, sweep
from app.store.trimming import FORGET_ANSWERS
from tests.store.meeting import met, patient
from tests.store.statements import ADD, FIND

AGE = statement(
    "test.age_key",
    "MATCH (i:_Idempotency {tenant: $owner}) SET i.created_at = datetime() - duration('PT25H') RETURN count(i) AS aged",
    writes=True,
    control=True,
)
FORGET_KEYS = statement(
    "test.forget_keys",
    "MATCH (i:_Idempotency {tenant: $owner}) DELETE i RETURN count(*) AS gone",
    writes=True,
    control=True,
)
KEYS = statement("test.count_keys", "MATCH (i:_Idempotency {tenant: $owner}) RETURN count(i) AS keys", control=True)


async def add(session, key="k", *, tool="graph_relate", digest="d1", name="Ada"):
    async def work(writing):
        return (await writing.run(ADD, id="ada", name=name))[0]

    return await session.write(work, idempotency=Idempotency(key, tool, digest))


async def times(session) -> int:
    rows = await session.read(FIND, id="ada")
    return rows[0]["times"] if rows else 0


async def test_the_same_call_again_gets_the_first_answer(tenant, open_session):
    first = await add(open_session(tenant))
    assert await add(open_session(tenant)) == first
    assert await times(open_session(tenant)) == 1


async def test_callers_at_once_apply_it_once_and_all_get_the_answer(tenant, open_session):
    answers = await asyncio.gather(*(add(open_session(tenant)) for _ in range(12)))
    assert answers == [{"id": "ada", "times": 1}] * 12
    assert await times(open_session(tenant)) == 1


async def test_another_key_tool_or_person_is_another_call(tenant, open_session):
    await add(open_session(tenant), "k")
    await add(open_session(tenant), "k2")
    await add(open_session(tenant), "k", tool="graph_boost")
    await add(open_session(tenant, subject="other"), "k")
    assert await times(open_session(tenant)) == 4


async def test_other_arguments_are_refused(tenant, open_session):
    await add(open_session(tenant))
    with pytest.raises(Conflict, match="other arguments"):
        await add(open_session(tenant), digest="d2")
    assert await times(open_session(tenant)) == 1


async def test_other_layers_are_refused(tenant, open_session):
    await add(open_session(tenant))
    with pytest.raises(Conflict, match="other layers"):
        await add(open_session(tenant, layers=("", "work"), write_layer="work"))
    assert await times(open_session(tenant)) == 1


async def test_a_refusal_is_not_remembered(tenant, open_session):
    async def refuse(writing):
        raise NotFound("no such entity")

    with pytest.raises(NotFound):
        await open_session(tenant).write(refuse, idempotency=Idempotency("k", "graph_relate", "d1"))
    assert await add(open_session(tenant)) == {"id": "ada", "times": 1}


async def test_a_key_lives_a_day(tenant, open_session, database):
    await add(open_session(tenant))

    async def age(writing):
        return (await writing.run(AGE, owner=tenant))[0]["aged"]

    assert await database.control.write(age) == 1
    assert await add(open_session(tenant), digest="d2") == {"id": "ada", "times": 2}
    assert await add(open_session(tenant), digest="d2") == {"id": "ada", "times": 2}
    await database.control.write(age)
    assert await sweep(database.control) >= 1
    assert await database.control.read(KEYS, owner=tenant) == [{"keys": 0}]


async def test_expired_keys_go_by_themselves(tenant, open_session, database):
    await add(open_session(tenant))

    async def age(writing):
        return (await writing.run(AGE, owner=tenant))[0]["aged"]

    sweeping = asyncio.create_task(keep_swept(database.control, every=0.01))
    try:
        await database.control.write(age)
        for _ in range(1000):
            if await database.control.read(KEYS, owner=tenant) == [{"keys": 0}]:
                break
            await asyncio.sleep(0.01)
        assert await database.control.read(KEYS, owner=tenant) == [{"keys": 0}]
    finally:
        sweeping.cancel()
        await asyncio.wait({sweeping})


async def test_a_key_that_begins_anew_while_it_is_swept_is_kept(tenant, open_session, database):
    control = patient(database)
    for forgotten, count in (
        (SWEEP, {"limit": 1000}),
        (FORGET_ANSWERS, {"owner": tenant, "subject": "s", "limit": 50}),
    ):
        key = {"owner": tenant, "subject": "s", "tool": "t", "key": forgotten.name}
        anew = {**key, "arguments": "a", "digest": "d"}
        await control.write(lambda writing, anew=anew: writing.run(CLAIM, **anew))
        await control.write(lambda writing: writing.run(AGE, owner=tenant))
        swept = control.write(lambda writing, forgotten=forgotten, count=count: writing.run(forgotten, **count))
        await met(database, lambda writing, anew=anew: writing.run(CLAIM, **anew), swept, forgotten)
        assert {"keys": 1} in await database.control.read(KEYS, owner=tenant)
        await control.write(lambda writing: writing.run(AGE, owner=tenant))
        await sweep(database.control)


async def test_a_key_that_is_forgotten_while_a_call_waits_for_it_is_taken_anew(tenant, open_session, database):
    await add(open_session(tenant))

    async def forget(writing):
        return await writing.run(FORGET_KEYS, owner=tenant)

    assert await met(database, forget, add(open_session(tenant), digest="d2"), CLAIM) == {"id": "ada", "times": 2}

"""Many writers at once: no duplicate, no lost update, no error that a retry would have cured."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from app.store import integrity
from tests.store.statements import ADD, COUNT, FIND, RELATE, REMOVE

NAMES = [f"name{i:02d}" for i in range(50)]
ROOT = Path(__file__).parents[2]

# One of the two processes that update the same entity; it prints nothing and fails loudly.
WRITER = """
import asyncio, os, sys
from app.context import Deadline, Scope
from app.store.database import Database
from tests.store.statements import ADD

async def main(uri, tenant):
    database = await Database.connect(uri, "neo4j", os.environ["PASSWORD"], "neo4j", pool_size=10)
    scope = Scope(tenant, ("",), ("",), "", "writer")
    async def add():
        async def work(writing):
            return (await writing.run(ADD, id="ada", name="Ada"))[0]
        await database.session(scope, deadline=Deadline.after(30), request_id="writer").write(work)
    await asyncio.gather(*(add() for _ in range(10)))
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_writers_of_shuffled_names_beside_a_deleter_leave_no_duplicate_and_no_error(
    tenant, open_session, database
):
    chance = random.Random(7)

    def relate():
        names = chance.sample(NAMES, len(NAMES))

        async def work(writing):
            return (await writing.run(RELATE, names=names))[0]

        return open_session(tenant, seconds=60).write(work)

    def remove(name):
        async def work(writing):
            return (await writing.run(REMOVE, id=name))[0]

        return open_session(tenant, seconds=60).write(work)

    for _ in range(2):
        await asyncio.gather(*(relate() for _ in range(8)), *(remove(name) for name in chance.sample(NAMES, 12)))
    await relate()
    (row,) = await open_session(tenant).read(COUNT)
    assert row["copies"] == row["ids"] == len(NAMES)
    assert await integrity.check(database) == []


async def test_twenty_updates_from_two_processes_are_all_there(tenant, open_session, neo4j_server):
    environment = {**os.environ, "PASSWORD": neo4j_server.password, "PYTHONPATH": str(ROOT)}
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, neo4j_server.uri, tenant, env=environment, cwd=ROOT
        )
        for _ in range(2)
    ]
    assert [await writer.wait() for writer in writers] == [0, 0]
    (row,) = await open_session(tenant).read(FIND, id="ada")
    assert row["times"] == 20


async def test_concurrent_creators_of_one_entity_make_one(tenant, open_session):
    async def add():
        async def work(writing):
            return (await writing.run(ADD, id="ada", name="Ada"))[0]

        return await open_session(tenant).write(work)

    answers = await asyncio.gather(*(add() for _ in range(20)))
    assert sorted(answer["times"] for answer in answers) == list(range(1, 21))
    (row,) = await open_session(tenant).read(COUNT)
    assert row == {"copies": 1, "ids": 1, "mentions": 20}

"""A store that is rebuilt: what was erased is in none of its files, what stays is as it was, and nothing cuts it short.

Each step needs a server that starts or stops, so one home goes through all of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.errors import StartError
from app.store.compacting.compact import compact
from app.store.compacting.copying import Fingerprint, Page, pages
from app.store.database import Database
from app.store.embedded import EmbeddedServer
from app.store.moving.erase import erase_data
from app.store.schema import ensure_vector_index, migrate, status, vector_dimension
from tests.conftest import engine_cache

ROOT = Path(__file__).parents[3]
GONE, STAYS = "xylographermarginalia", "evergreenremains"
SMALL = {"heap": "400m", "page_cache": "32m"}

FILL = """
CYPHER 25
UNWIND [[$gone, 'dgone'], [$stays, 'dstays']] AS told
CREATE (a:Entity:Person {tenant: told[1], layer: '', id: 'ada', partition: told[1], name: 'Ada', names: 'ada',
  words: told[0], content: told[0] + $padding, aliases: ['Countess', '日本'], confidence: 0.1 + 0.2,
  embedding: [i IN range(1, 8) | i / 7.0], times_mentioned: 3, bold: true, empty: [],
  first_seen: datetime('2026-01-01T00:00:00.123456789Z'), last_seen: datetime('2026-01-02T00:00+01:00')})
CREATE (b:Entity:Object {tenant: told[1], layer: '', id: 'engine', name: 'Engine'})
CREATE (a)-[:USES {tenant: told[1], layer: '', weight: 0.5, evidence: told[0] + $padding,
  valid_at: datetime('2025-01-01T00:00:00Z')}]->(b)
CREATE (b)-[:KNOWS {tenant: told[1], layer: ''}]->(b)
"""
READ = """
CYPHER 25
MATCH (a:Entity {tenant: 'dstays'})
RETURN labels(a) AS labels, properties(a) AS properties,
  COLLECT { MATCH (a)-[r]->(b) RETURN [type(r), properties(r), b.id] ORDER BY type(r) } AS relations
ORDER BY a.id
"""
FOUND = "CALL db.index.fulltext.queryNodes('entity_text', $word) YIELD node RETURN node.tenant AS tenant"

FILL_CHANGES = """
CYPHER 25
UNWIND $all AS images
CREATE (:_Undo {id: 'un-' + size(images), tenant: 'dstays', layers: [''], at: 1, summary: 'merged', images: images})
"""
READ_CHANGES = "MATCH (u:_Undo) RETURN properties(u) AS properties ORDER BY u.id"

COMPACTING = """
import asyncio, sys
from pathlib import Path
from app.store.compacting.compact import compact
from app.store.embedded import EmbeddedServer

server = EmbeddedServer(Path(sys.argv[1]), engine_cache=Path(sys.argv[2]), heap="400m", page_cache="32m")
asyncio.run(compact(server, lambda line: None, lambda word, done, total: print(word, flush=True)))
"""


def managed(home: Path) -> EmbeddedServer:
    return EmbeddedServer(home, engine_cache=engine_cache(), **SMALL)


@asynccontextmanager
async def running(home: Path) -> AsyncIterator[Database]:
    server = managed(home)
    address = await server.start(lambda line: None)
    database = await Database.connect(address.uri, address.user, address.password, "neo4j", pool_size=3)
    try:
        yield database
    finally:
        await database.close()
        await server.stop()


async def run(database: Database, text: str, **parameters) -> list[dict]:
    async with database.driver.session(database="neo4j") as session:
        return await (await session.run(text, parameters)).data()


def holding(home: Path, word: str) -> list[Path]:
    """Files of the engine in which the word stands."""
    marks = (word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be"))
    files = [path for path in (home / "neo4j").rglob("*") if path.is_file()]
    return [path for path in files if any(mark in path.read_bytes() for mark in marks)]


async def killed_while(word: str, home: Path) -> None:
    """Begin to compact in another process, and kill it once it says what it does."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMPACTING, str(home), str(engine_cache())),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    while (line := await process.stdout.readline()) and line.strip() != word.encode():
        pass
    assert line, "it ended before"
    process.send_signal(signal.SIGKILL)
    await process.wait()


@pytest.mark.soak
async def test_what_was_erased_is_in_no_file_of_the_new_store_and_the_rest_is_as_it_was(tmp_path):
    async with running(tmp_path) as database:
        await migrate(database)
        await ensure_vector_index(database, 8)
        await run(database, FILL, gone=GONE, stays=STAYS, padding=" and so on" * 40)
        changes = [bytes(range(256)), os.urandom(100_000), b"\x00" * 200_000]
        await run(database, FILL_CHANGES, all=changes)
        before, changes_before = await run(database, READ), await run(database, READ_CHANGES)
        assert [each["properties"]["images"] for each in changes_before] == [changes[1], changes[2], changes[0]]
        with pytest.raises(StartError, match="stop the gateway") as beside:
            await compact(managed(tmp_path), lambda line: None, lambda *_: None)
        assert beside.value.exit_code == 69
        await erase_data(database.control, "dgone")
        assert await run(database, "MATCH (n) WHERE n.tenant = 'dgone' RETURN n.id") == []
    assert holding(tmp_path, GONE), "erased, and yet there for who reads the disk"

    unfinished = tmp_path / "neo4j" / "data-2"  # as a compaction that was killed leaves it
    unfinished.mkdir()
    (unfinished / "records.jsonl").write_text(GONE)
    lines, stages = [], set()
    done = await compact(managed(tmp_path), lines.append, lambda word, done, total: stages.add((word, done, total)))
    assert (done.totals.nodes, done.totals.relations) == (5, 2)
    assert {(word, 7, 7) for word in ("read", "written", "compared")} <= stages
    assert lines
    assert holding(tmp_path, GONE) == []
    assert holding(tmp_path, STAYS)
    stores = [path.name for path in (tmp_path / "neo4j").iterdir() if path.name.startswith("data")]
    assert len(stores) == 1

    left = tmp_path / "neo4j" / "data"  # as if it had been killed before the old store went
    left.mkdir()
    (left / "neostore").write_text(GONE)
    async with running(tmp_path) as database:
        assert not left.exists(), "the next start removes it"
        assert await run(database, READ) == before
        assert await run(database, READ_CHANGES) == changes_before, "what can be undone can still be undone"
        assert (await status(database)).ready
        assert await vector_dimension(database) == 8
        assert await run(database, FOUND, word=STAYS) == [{"tenant": "dstays"}]
        totals = Fingerprint()
        sizes = []
        async for page in pages(database):
            totals.add(page)
            sizes.append(len(page.rows))
        assert totals.totals == done.totals
        assert sizes.count(1) >= 2, "a large record is read by itself: many would be more than a transaction may hold"


@pytest.mark.soak
@pytest.mark.parametrize("word", ["read", "written", "compared"])
async def test_a_compaction_that_was_killed_leaves_the_store_whole_and_the_next_one_goes_on(tmp_path, word):
    async with running(tmp_path) as database:
        await migrate(database)
        await run(database, FILL, gone=GONE, stays=STAYS, padding="")
        before = await run(database, READ)
    await killed_while(word, tmp_path)
    async with running(tmp_path) as database:
        assert await run(database, READ) == before
    assert [path.name for path in (tmp_path / "neo4j").glob("data*")] == ["data"], "the old one, and nothing beside it"
    done = await compact(managed(tmp_path), lambda line: None, lambda *_: None)
    assert (done.totals.nodes, done.totals.relations) == (4, 4)
    async with running(tmp_path) as database:
        assert await run(database, READ) == before


async def test_a_home_without_a_database_has_nothing_to_compact(tmp_path):
    with pytest.raises(StartError, match="no database yet"):
        await compact(managed(tmp_path), lambda line: None, lambda *_: None)


async def test_no_room_for_a_second_store_is_said_before_anything_starts(tmp_path, monkeypatch):
    (tmp_path / "neo4j" / "data" / "dbms").mkdir(parents=True)
    (tmp_path / "neo4j" / "data" / "dbms" / "auth.ini").write_text("x")
    monkeypatch.setattr("app.store.compacting.compact._ROOM", 2**62)
    with pytest.raises(StartError, match="MB free") as caught:
        await compact(managed(tmp_path), lambda line: None, lambda *_: None)
    assert caught.value.exit_code == 73


def test_a_fingerprint_knows_every_difference_and_no_order():
    def of(*pages: Page) -> object:
        fingerprint = Fingerprint()
        for page in pages:
            fingerprint.add(page)
        return fingerprint.totals

    name = ["name", "Ada", "plain"]
    nodes = Page("nodes", [[0, ["A", "B"], [name, ["n", 1, "plain"]]], [1, ["C"], []]])
    other = Page("nodes", [[7, ["C"], []], [3, ["B", "A"], [["n", 1, "plain"], name]]])
    edge = Page("relations", [[[0, 1], "R", []]])
    assert of(nodes, edge) == of(other, Page("relations", [[[3, 7], "R", []]]))
    assert of(nodes, edge) != of(other, Page("relations", [[[7, 3], "R", []]]))
    assert of(nodes, edge) != of(nodes, Page("relations", [[[0, 1], "S", []]]))
    assert of(nodes) != of(Page("nodes", [[0, ["A", "B"], [name, ["n", 1.5, "plain"]]], [1, ["C"], []]]))

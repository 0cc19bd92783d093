"""Migrations: once, by whoever comes first, and never into data that is not ours."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from app.errors import DatabaseUnavailable, StartError
from app.store.database import Database
from app.store.migrations import MIGRATIONS, Migration
from app.store.schema import INDEXES, MARKER, VERSION, ensure_vector_index, migrate, status
from app.store.statement import statement


async def cypher(database: Database, text: str, **parameters) -> list:
    async with database.driver.session(database=database.name) as session:
        return await (await session.run(text, parameters)).data()


@pytest_asyncio.fixture
async def marker(database):
    """The marker as it was, put back afterwards."""
    (before,) = await database.control.read(MARKER)
    yield before
    await cypher(
        database,
        "MERGE (s:_Schema {id: 'graphkeep'}) SET s.version = $version, s.fingerprint = $fingerprint",
        **before,
    )


async def test_a_migrated_database_is_ready_and_all_its_indexes_are_online(database):
    state = await status(database)
    assert state.version == VERSION
    assert state.waiting == ()
    assert state.ready
    names = {row["name"] for row in await database.control.read(INDEXES)}
    assert {
        "entity_identity",
        "alias_identity",
        "entity_text",
        "entity_type",
        "control_idempotency_tenant_subject_tool_key_unique",
    } <= names


async def test_migrating_again_changes_nothing(database, marker):
    await migrate(database)
    assert (await database.control.read(MARKER))[0] == marker


async def test_replicas_that_start_at_once_all_succeed(database, neo4j_server, marker):
    await cypher(database, "MATCH (s:_Schema) SET s.fingerprint = 'older'")
    replicas = [await neo4j_server.connect(pool_size=5) for _ in range(3)]
    try:
        await asyncio.gather(*(migrate(replica) for replica in replicas))
    finally:
        for replica in replicas:
            await replica.close()
    assert (await database.control.read(MARKER))[0] == marker
    assert await cypher(database, "MATCH (s:_Schema) RETURN count(s) AS many") == [{"many": 1}]


UPGRADE = statement(
    "test.upgrade_marks",
    "MERGE (m:_Mark {id: 'upgraded'}) SET m.times = coalesce(m.times, 0) + 1",
    writes=True,
    control=True,
)


async def test_an_older_database_gets_each_later_change_once(database, marker, monkeypatch):
    later = Migration(VERSION + 1, ("CREATE INDEX test_later IF NOT EXISTS FOR (m:_Mark) ON (m.times)",), (UPGRADE,))
    monkeypatch.setattr("app.store.schema.MIGRATIONS", (*MIGRATIONS, later))
    try:
        await asyncio.gather(migrate(database), migrate(database))
        await migrate(database)
        assert (await database.control.read(MARKER))[0]["version"] == VERSION + 1
        assert await cypher(database, "MATCH (m:_Mark {id: 'upgraded'}) RETURN m.times AS times") == [{"times": 1}]
        assert "test_later" in {row["name"] for row in await database.control.read(INDEXES)}
    finally:
        await cypher(database, "MATCH (m:_Mark {id: 'upgraded'}) DELETE m")
        await database.command("DROP INDEX test_later IF EXISTS")


async def test_a_newer_schema_is_refused_with_guidance(database, marker):
    await cypher(database, "MATCH (s:_Schema) SET s.version = 99")
    with pytest.raises(StartError, match="newer release") as caught:
        await migrate(database)
    assert caught.value.exit_code == 78


async def test_data_that_is_not_ours_is_refused_with_guidance(database, marker):
    await cypher(database, "CREATE (:Stranger {tenant: 'x', layer: '', id: 'x'})")
    try:
        await cypher(database, "MATCH (s:_Schema) DELETE s")
        with pytest.raises(StartError, match="did not write"):
            await migrate(database)
        assert await database.control.read(MARKER) == []
    finally:
        await cypher(database, "MATCH (n:Stranger) DELETE n")


async def test_a_vector_index_is_made_once_and_replaced_for_another_dimension(database):
    def dimension(rows):
        return [r["options"]["indexConfig"]["vector.dimensions"] for r in rows if r["name"] == "entity_embedding"]

    before = dimension(await database.control.read(INDEXES))
    await cypher(database, "MATCH (e:_Embedding) DELETE e")  # what other tests decided on
    try:
        await asyncio.gather(ensure_vector_index(database, 8), ensure_vector_index(database, 8))
        assert dimension(await database.control.read(INDEXES)) == [8]
        await ensure_vector_index(database, 12)
        assert dimension(await database.control.read(INDEXES)) == [12]
        assert (await status(database)).ready
    finally:
        await database.command("DROP INDEX entity_embedding IF EXISTS")
        for size in before:
            await ensure_vector_index(database, size)


@pytest.mark.parametrize("size", [0, -1, 4097])
async def test_an_impossible_dimension_is_refused(database, size):
    with pytest.raises(ValueError, match="dimensions"):
        await ensure_vector_index(database, size)


async def test_a_wrong_password_stops_the_start_and_is_not_repeated_in_the_message(neo4j_server):
    database = await Database.connect(neo4j_server.uri, "stranger", "wrong-password", "neo4j", pool_size=2)
    try:
        with pytest.raises(StartError, match="NEO4J_PASSWORD") as caught:
            await database.verify()
    finally:
        await database.close()
    assert "wrong-password" not in caught.value.message


async def test_a_server_that_shuts_everyone_out_after_wrong_passwords_is_waited_for(neo4j_server, database):
    await cypher(database, "CREATE USER guest SET PASSWORD 'guest-password' SET PASSWORD CHANGE NOT REQUIRED")
    try:
        for password, refused in (*[("wrong-password", StartError)] * 3, ("guest-password", DatabaseUnavailable)):
            guest = await Database.connect(neo4j_server.uri, "guest", password, "neo4j", pool_size=2)
            try:
                with pytest.raises(refused) as caught:
                    await guest.verify()
                if refused is DatabaseUnavailable:
                    with pytest.raises(DatabaseUnavailable):
                        await guest.control.read(MARKER)
            finally:
                await guest.close()
    finally:
        await cypher(database, "DROP USER guest")
    assert caught.value.retryable


async def test_an_unknown_database_stops_the_start(neo4j_server):
    database = await Database.connect(neo4j_server.uri, "neo4j", neo4j_server.password, "absent", pool_size=2)
    try:
        with pytest.raises(StartError, match="NEO4J_DATABASE"):
            await database.verify()
    finally:
        await database.close()


async def test_a_server_that_is_away_can_be_tried_again():
    database = await Database.connect("bolt://127.0.0.1:9", "neo4j", "x", "neo4j", pool_size=2)
    try:
        with pytest.raises(DatabaseUnavailable) as caught:
            await database.verify()
    finally:
        await database.close()
    assert caught.value.retryable


@pytest.mark.parametrize("uri", ["http://localhost:7474", "localhost", "", "bolt://[::1"])
async def test_an_address_that_is_not_bolt_stops_the_start(uri):
    with pytest.raises(StartError, match="bolt://"):
        await Database.connect(uri, "neo4j", "x", "neo4j", pool_size=2)


@pytest.mark.parametrize(
    ("agent", "accepted"),
    [
        ("Neo4j/2026.02.0", True),
        ("Neo4j/2026.09.0", True),
        ("Neo4j/2027.01.1", True),
        ("Neo4j/2026.01.4", False),
        ("Neo4j/2025.10.1", False),
        ("Neo4j/5.26.3", False),
        ("Memgraph/3.1", False),
    ],
)
def test_an_engine_before_2026_02_is_refused(agent, accepted):
    if accepted:
        Database._check_version(agent)
    else:
        with pytest.raises(StartError, match=r"2026\.02"):
            Database._check_version(agent)

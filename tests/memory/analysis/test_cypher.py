"""``graph_cypher``: operators read the store, within bounds, and the tenants see that they did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from app.context import Deadline
from app.errors import DeadlineExceeded, Forbidden, InvalidInput, NotFound
from app.memory.analysis.cypher import ACTION
from app.memory.service import MemoryService
from app.store.control.audit import Audit, AuditEntry
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from tests.identity import fresh_name
from tests.memory.analysis.conftest import do, entity, relation
from tests.memory.conftest import Agent

ALL_OF = "MATCH (n:Entity {tenant: $tenant}) RETURN n ORDER BY n.id"


@pytest_asyncio.fixture
async def known(service: MemoryService, database: Database) -> AsyncIterator[tuple[Agent, Tenant]]:
    """A tenant that the control data knows, with two entities, and an agent of it."""
    tenant = await Tenants(database.control).create(fresh_name("asked"))
    agent = Agent(service, tenant.data, ("",), "")
    await agent.batch(
        [entity("Ann", "Person", mood="calm"), entity("Vim", "Object")],
        [relation("Ann", "USES", "Vim", valid_at="2020-01-01")],
    )
    yield agent, tenant


async def _ask(agent: Agent, cypher: str, **more: Any) -> dict[str, Any]:
    return await do(agent, "graph_cypher", operator=True, cypher=cypher, **more)


async def _trail(database: Database, tenant: str) -> list[AuditEntry]:
    return [entry for entry in await Audit(database.control).entries(tenant, ("",)) if entry.action == ACTION]


@pytest.mark.shows("graph_cypher", 1, 2, 8)
async def test_records_come_as_json_without_vectors_and_search_fields(known: tuple[Agent, Tenant]) -> None:
    agent, tenant = known
    answer = await _ask(agent, ALL_OF, tenant=tenant.name)
    assert (answer["cypher"], answer["result_count"], answer["truncated"]) == (ALL_OF, 2, False)
    assert answer["execution_time_ms"] >= 0
    ann = answer["results"][0]["n"]
    assert ann["labels"] == ["Entity", "Person"]
    assert ann["properties"]["name"] == "Ann"
    assert not {"embedding", "names", "words", "partition"} & set(ann["properties"])
    assert ann["properties"]["first_seen"].startswith("20")
    values = await _ask(
        agent,
        "MATCH p = (n:Entity {tenant: $tenant, id: 'ann'})-[r]->(m) "
        "RETURN p, r, n.embedding AS vector, {embedding: 1, own: [1, 2.5, null]} AS map, 0.0 / 0.0 AS nan, "
        "date('2020-01-01') AS day",
        tenant=tenant.name,
    )
    row = values["results"][0]
    assert (row["r"]["type"], row["p"]["relationships"][0]["type"], len(row["p"]["nodes"])) == ("USES", "USES", 2)
    assert (row["vector"], row["map"], row["nan"], row["day"]) == (
        "[384 numbers]",
        {"own": [1, 2.5, None]},
        "nan",
        "2020-01-01",
    )
    told = await _ask(
        agent, "RETURN $text AS text, $many AS many", params={"text": "SHOW USERS", "many": [1, {"a": 2}]}
    )
    assert told["results"] == [{"text": "SHOW USERS", "many": [1, {"a": 2}]}]


@pytest.mark.shows("graph_cypher", 9)
async def test_what_was_read_stands_in_the_audit_of_those_concerned_before_it_is_read(
    known: tuple[Agent, Tenant], database: Database
) -> None:
    agent, tenant = known
    other = await Tenants(database.control).create(fresh_name("other"))
    await _ask(agent, ALL_OF, tenant=tenant.name)
    assert [entry.detail["text"] for entry in await _trail(database, tenant.id)] == [ALL_OF]
    assert await _trail(database, other.id) == []
    gone = await Tenants(database.control).create(fresh_name("gone"))
    await Tenants(database.control).set_state(gone.id, TenantState.DELETED)
    await _ask(agent, "MATCH (n:Entity) RETURN count(n) AS many")
    assert await _trail(database, gone.id) == []
    assert [len(await _trail(database, one)) for one in (tenant.id, other.id, agent.tenant)] == [2, 1, 2]
    entry = (await _trail(database, other.id))[0]
    assert (entry.actor, entry.detail["all_tenants"]) == ("user", True)
    assert "MATCH" not in str(entry.detail)
    assert "MATCH" in (await _trail(database, agent.tenant))[0].detail["text"]
    with pytest.raises(InvalidInput):
        await _ask(agent, "SHOW USERS")
    assert len(await _trail(database, other.id)) == 1


@pytest.mark.shows("graph_cypher", 9)
async def test_the_audit_tells_the_whole_query_where_those_may_read_it_whose_it_is(
    known: tuple[Agent, Tenant], database: Database
) -> None:
    """Neither blanks, comments nor parameters hide what was asked; who reads less, or later, sees no name."""
    agent, tenant = known
    await Tenants(database.control).add_layers(tenant.id, ["family"])
    hidden = " " * 3_000 + "MATCH (n:Entity {tenant: $tenant}) // " + "." * 3_000
    query = hidden + "\nWHERE n.name = 'Anna' /* ... */  OR n.name = $name RETURN ((n.id)) AS id;"
    await _ask(agent, query, tenant=tenant.name, params={"name": "Zoë"})
    audit = Audit(database.control)
    (entry,) = [each for each in await audit.entries(tenant.id, ("", "family")) if each.action == ACTION]
    said = "MATCH (n:Entity {tenant: $tenant}) WHERE n.name = 'Anna' OR n.name = $name RETURN ((n.id)) AS id"
    assert (entry.detail["text"], entry.detail["params"]) == (said, '{"name": "Zoë"}')
    assert entry.layers == ("", "family")
    assert await _trail(database, tenant.id) == [], "who does not read every layer sees nothing of it"
    (own,) = await _trail(database, agent.tenant)
    assert own.detail == {"query": entry.detail["query"], "all_tenants": False}
    with pytest.raises(InvalidInput, match="8000 characters"):
        await _ask(agent, ALL_OF, tenant=tenant.name, params={"name": "y" * 8_000})


@pytest.mark.shows("graph_cypher", 6)
async def test_a_named_tenant_is_all_that_can_be_read(known: tuple[Agent, Tenant], database: Database) -> None:
    agent, tenant = known
    other = await Tenants(database.control).create(fresh_name("other"))
    await Agent(agent.service, other.data, ("",), "").batch([entity("Foreign")])
    found = await _ask(agent, ALL_OF, tenant=other.name)
    assert [row["n"]["properties"]["id"] for row in found["results"]] == ["foreign"]
    with pytest.raises(InvalidInput, match="tenant"):
        await _ask(agent, "MATCH (n:Entity) RETURN n", tenant=tenant.name)
    with pytest.raises(InvalidInput, match="argument tenant"):
        await _ask(agent, ALL_OF, tenant=tenant.name, params={"tenant": other.data})
    with pytest.raises(NotFound):
        await _ask(agent, ALL_OF, tenant="no such tenant")


@pytest.mark.shows("graph_cypher", 1)
async def test_whoever_is_no_operator_is_refused(known: tuple[Agent, Tenant], database: Database) -> None:
    agent, tenant = known
    with pytest.raises(Forbidden):
        await do(agent, "graph_cypher", cypher="RETURN 1 AS one")
    assert await _trail(database, tenant.id) == []


@pytest.mark.shows("graph_cypher", 7)
async def test_rows_size_and_time_are_bounded(known: tuple[Agent, Tenant], database: Database) -> None:
    """W-M32: nothing bounded rows or size."""
    agent, _ = known
    many = await _ask(agent, "UNWIND range(1, 5000) AS x RETURN x", limit=10)
    assert (many["result_count"], many["truncated"]) == (10, True)
    long = await _ask(
        agent, "UNWIND range(1, 500) AS x RETURN x, $text AS text", params={"text": "y" * 1000}, limit=1000
    )
    assert long["truncated"]
    assert 20 < long["result_count"] < 60
    with pytest.raises(DeadlineExceeded):
        await database.ask(
            "UNWIND range(1, 10000) AS x UNWIND range(1, 10000) AS y UNWIND range(1, 100) AS z RETURN max(z) AS most",
            {},
            confined=False,
            deadline=Deadline.after(0.3),
            request_id="test",
            rows=1,
            characters=100,
        )


@pytest.mark.shows("graph_cypher", 3)
async def test_the_database_itself_refuses_to_write_and_says_what_is_wrong(known: tuple[Agent, Tenant]) -> None:
    agent, _ = known
    with pytest.raises(InvalidInput, match="database refuses"):
        await _ask(agent, "MATCH (n:Entity) RETURN nobody")
    with pytest.raises(InvalidInput, match="64 bits"):
        await _ask(agent, "RETURN $n AS n", params={"n": 2**70})

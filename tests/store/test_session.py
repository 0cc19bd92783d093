"""Sessions: what a call may do with its tenant's graph."""

from __future__ import annotations

from app.store.statement import statement

ADD = statement(
    "test.add_entity",
    "MERGE (n:Entity {tenant: $tenant, layer: $layer, id: $id}) ON CREATE SET n.at = datetime($at) RETURN n.at AS at, n.id AS id",
    writes=True,
)
FIND = statement(
    "test.find_entity",
    "MATCH (n:Entity {tenant: $tenant, id: $id}) WHERE n.layer IN $layers RETURN n.at AS at, n.id AS id",
)


async def test_a_write_is_read_back(tenant, open_session):
    session = open_session(tenant)

    async def work(writing):
        return (await writing.run(ADD, id="a", at="2026-01-02T03:04:05Z"))[0]

    assert await session.write(work) == {"id": "a", "at": "2026-01-02T03:04:05Z"}
    assert await session.read(FIND, id="a") == [{"id": "a", "at": "2026-01-02T03:04:05Z"}]
    assert await open_session("d-other").read(FIND, id="a") == []

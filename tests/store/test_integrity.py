"""The check that runs after every module and in doctor."""

from __future__ import annotations

import pytest

from app.store import integrity

CLEAN = "MATCH (n) WHERE n.probe = $probe DETACH DELETE n"

BROKEN = {
    "cross a partition": "CREATE (a:Entity {tenant: $probe, layer: '', id: 'a', probe: $probe})-[:KNOWS "
    "{tenant: $probe, layer: ''}]->(b:Entity {tenant: $probe, layer: 'work', id: 'b', probe: $probe})",
    "cross a partition or leave": "CREATE (a:Entity {tenant: $probe, layer: '', id: 'a', probe: $probe})-[:KNOWS "
    "{tenant: $probe, layer: ''}]->(b:Entity {tenant: $probe + 'x', layer: '', id: 'a', probe: $probe})",
    "carry no partition, or another": "CREATE (a:Entity {tenant: $probe, layer: '', id: 'a', probe: $probe})-[:KNOWS]->"
    "(b:Entity {tenant: $probe, layer: '', id: 'b', probe: $probe})",
    "records Entity carry no partition": "CREATE (:Entity {layer: '', id: 'a', probe: $probe})",
    "records Entity carry no partition or id": "CREATE (:Entity {tenant: $probe, id: 'a', probe: $probe})",
    "records (no label) carry no partition": "CREATE ({probe: $probe})",
    "exist twice": "CREATE (a:Entity {tenant: $probe, layer: '', id: 'a', probe: $probe}) CREATE (b:Entity {tenant: "
    "$probe, layer: '', id: 'b', probe: $probe}) CREATE (a)-[:KNOWS {tenant: $probe, layer: ''}]->(b) "
    "CREATE (a)-[:KNOWS {tenant: $probe, layer: ''}]->(b)",
}


@pytest.mark.parametrize(("words", "text"), BROKEN.items(), ids=BROKEN.keys())
async def test_what_breaks_an_invariant_is_found_without_naming_the_tenant(database, tenant, words, text):
    async with database.driver.session(database="neo4j") as session:
        await (await session.run("CYPHER 25 " + text, probe=tenant)).consume()
        try:
            found = await integrity.check(database)
        finally:
            await (await session.run(CLEAN, probe=tenant)).consume()
    assert [sentence for sentence in found if words in sentence]
    assert not [sentence for sentence in found if tenant in sentence]
    assert await integrity.check(database) == []

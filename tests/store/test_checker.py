"""The static check of statements: what it lets through and what it refuses."""

from __future__ import annotations

import pytest

from app.store.checker import check
from app.store.statement import INJECTED, Statement


def faults(text: str, *, writes: bool = False, control: bool = False, name: str = "test.checked") -> list[str]:
    return check(Statement(name, "CYPHER 25 " + text, writes, control, INJECTED, frozenset()))


GOOD_READS = [
    "MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN n.name AS name",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id = $id RETURN n.name AS name",
    "MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $writable RETURN n.name AS name",
    "MATCH (n:Entity WHERE n.tenant = $tenant AND n.layer IN $layers) RETURN n.name AS name",
    "MATCH (a:Entity {tenant: $tenant}) WHERE a.layer IN $layers MATCH (a)-[r]-(b:Entity {tenant: $tenant, "
    "layer: a.layer}) RETURN b.id AS id",
    "MATCH (a:Entity {tenant: $tenant}), (b:Entity {tenant: $tenant}) WHERE a.layer IN $layers AND b.layer = a.layer "
    "RETURN a.id AS id",
    "CALL db.index.fulltext.queryNodes('entity_text', $query, {limit: $limit}) YIELD node, score "
    "WHERE node.tenant = $tenant AND node.layer IN $layers RETURN node.id AS id, score",
    "CALL db.index.fulltext.queryNodes('entity_text', $query) YIELD node AS n "
    "WHERE n.tenant = $tenant AND n.layer IN $layers MATCH (n)-[r]-(m:Entity {tenant: $tenant}) "
    "WHERE m.layer IN $layers RETURN m.id AS id",
    "MATCH (n:Entity) SEARCH n IN (VECTOR INDEX entity_embedding FOR $v WHERE n.tenant = $tenant AND "
    "n.layer IN $layers LIMIT $k) SCORE AS score RETURN n.id AS id, score",
    "UNWIND $ids AS id CALL (id) { MATCH (e:Entity {tenant: $tenant, id: id}) WHERE e.layer IN $layers "
    "RETURN collect(e) AS copies } UNWIND copies AS c MATCH (c)-[r]-(d:Entity {tenant: $tenant}) "
    "WHERE d.layer IN $layers RETURN d.id AS id",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND EXISTS { (n)-[r]-(m:Entity {tenant: $tenant, "
    "layer: n.layer}) WHERE r.weight > 0.5 } RETURN n.id AS id",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND (n.name = 'a' OR n.name IS NULL) "
    "RETURN CASE WHEN (n.x > 1) THEN 1 ELSE 2 END AS x, [k IN keys(n) WHERE NOT (k IN ['a']) | [k, n[k]]] AS p",
    "MATCH (x:Alias {tenant: $tenant, id: $id}) USING INDEX x:Alias(tenant, layer, id) WHERE x.layer IN $layers "
    "RETURN x.target AS id",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers RETURN n.id AS id, COUNT { (n)--() } AS degree",
    "UNWIND $starts AS start WITH start, 1 AS limit MATCH (match:Entity {tenant: $tenant, id: start}) "
    "WHERE match.layer IN $layers RETURN match.id AS set",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers /* MATCH (x) */ RETURN 'MATCH (y)' AS text // (z)",
]

BAD_READS = {
    "no partition at all": "MATCH (n:Entity {id: $id}) RETURN n.name AS name",
    "tenant without layer": "MATCH (n:Entity {tenant: $tenant, id: $id}) RETURN n.name AS name",
    "the degree of what is not bound": "UNWIND $ids AS n RETURN COUNT { (n)--() } AS degree",
    "more than a degree": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers "
    "RETURN COUNT { (n)--(m) WHERE m.secret } AS many",
    "what a bound node leads to": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers "
    "RETURN COLLECT { MATCH (n)--(m) RETURN m.id } AS ids",
    "a degree as a pattern": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers MATCH (n)--() RETURN n.id",
    "layer without tenant": "MATCH (n:Entity {id: $id}) WHERE n.layer IN $layers RETURN n.name AS name",
    "tenant from a caller": "MATCH (n:Entity {tenant: $owner, layer: $layer}) RETURN n.name AS name",
    "tenant as a literal": "MATCH (n:Entity {tenant: 't', layer: ''}) RETURN n.name AS name",
    "layer from a row": "UNWIND $rows AS row MATCH (n:Entity {tenant: $tenant, layer: row.layer}) RETURN n.id AS id",
    "a condition that may fail": "MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers OR n.open "
    "RETURN n.id AS id",
    "a condition inside a group": "MATCH (n:Entity) WHERE (n.tenant = $tenant OR true) AND n.layer IN $layers "
    "RETURN n.id AS id",
    "a condition turned round": "MATCH (n:Entity) WHERE NOT n.tenant = $tenant AND n.layer IN $layers "
    "RETURN n.id AS id",
    "a condition inside CASE": "MATCH (n:Entity) WHERE CASE WHEN $x AND n.tenant = $tenant AND n.layer IN $layers "
    "AND $y THEN true ELSE true END RETURN n.id AS id",
    "a condition in a string": "MATCH (n:Entity) WHERE n.x = ' AND n.tenant = $tenant AND n.layer IN $layers ' "
    "RETURN n.id AS id",
    "a condition in a comment": "MATCH (n:Entity) // WHERE n.tenant = $tenant AND n.layer IN $layers\n "
    "RETURN n.id AS id",
    "a condition on another variable": "MATCH (n:Entity), (m:Entity {tenant: $tenant, layer: $layer}) "
    "WHERE m.tenant = $tenant AND m.layer IN $layers RETURN n.id AS id",
    "a condition too late": "MATCH (n:Entity) WITH n WHERE n.tenant = $tenant AND n.layer IN $layers RETURN n.id AS id",
    "an unbound neighbour": "MATCH (a:Entity {tenant: $tenant, layer: $layer})-[r]-(b) RETURN b.id AS id",
    "an anonymous neighbour": "MATCH (a:Entity {tenant: $tenant, layer: $layer})-->() RETURN a.id AS id",
    "a neighbour of a foreign layer": "MATCH (a:Entity {tenant: $tenant, layer: $layer})-[r]-(b:Entity "
    "{tenant: $tenant}) RETURN b.id AS id",
    "relations alone": "MATCH ()-[r {tenant: $tenant}]->() RETURN type(r) AS kind",
    "an optional part": "MATCH (a:Entity {tenant: $tenant, layer: $layer}) OPTIONAL MATCH (b:Entity {id: a.id}) "
    "RETURN b.id AS id",
    "a subquery": "CALL { MATCH (n:Entity) RETURN n } RETURN n.id AS id",
    "a subquery that forgets its variable": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) "
    "CALL { MATCH (n)-->(m:Entity {tenant: $tenant, layer: $layer}) RETURN m } RETURN m.id AS id",
    "an EXISTS": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) WHERE EXISTS { (n)-->(:Entity) } RETURN n.id AS id",
    "a COUNT": "RETURN COUNT { MATCH (n:Entity) RETURN n } AS many",
    "a pattern in a condition": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) WHERE (n)-->(:Entity) "
    "RETURN n.id AS id",
    "a pattern comprehension": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN [(n)--(m) | m.id] AS ids",
    "a function's argument": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN size([(n)--(m) | m]) AS many",
    "a second UNION part": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN n.id AS id "
    "UNION MATCH (n:Entity) RETURN n.id AS id",
    "a variable that WITH dropped": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) WITH n.id AS id "
    "MATCH (n:Entity) RETURN n.id AS id",
    "after WITH *": "WITH * MATCH (n:Entity) RETURN n.id AS id",
    "a full-text hit": "CALL db.index.fulltext.queryNodes('entity_text', $q) YIELD node RETURN node.id AS id",
    "a full-text hit filtered by tenant alone": "CALL db.index.fulltext.queryNodes('entity_text', $q) YIELD node AS n "
    "WHERE n.tenant = $tenant RETURN n.id AS id",
    "a vector hit": "MATCH (n:Entity) SEARCH n IN (VECTOR INDEX entity_embedding FOR $v LIMIT $k) SCORE AS s "
    "RETURN n.id AS id",
    "a vector hit filtered by tenant alone": "MATCH (n:Entity) SEARCH n IN (VECTOR INDEX entity_embedding FOR $v "
    "WHERE n.tenant = $tenant LIMIT $k) SCORE AS s RETURN n.id AS id",
    "another procedure": "CALL dbms.listConnections() YIELD connectionId RETURN connectionId",
    "SHOW": "SHOW TRANSACTIONS YIELD username RETURN username",
    "SHOW inside": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) SHOW TRANSACTIONS YIELD username RETURN username",
    "LOAD CSV": "LOAD CSV FROM 'file:///etc/passwd' AS line RETURN line",
    "USE": "USE system MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN n.id AS id",
    "an admin command": "ALTER USER neo4j SET PASSWORD 'x'",
    "a control label": "MATCH (n:_Grant {tenant: $tenant, layer: $layer}) RETURN n.id AS id",
    "a control label as an alternative": "MATCH (n:Entity|_Grant {tenant: $tenant, layer: $layer}) RETURN n.id AS id",
    "a quoted control label": "MATCH (n:`_Grant` {tenant: $tenant, layer: $layer}) RETURN n.id AS id",
    "a quoted variable": "MATCH (`a b`:Entity {id: $id}) RETURN `a b`.id AS id",
    "a hint instead of a condition": "MATCH (x:Alias {tenant: $tenant}) USING INDEX x:Alias(tenant, layer, id) "
    "RETURN x.id AS id",
    "lower case": "match (n:Entity) return n.id as id",
    "a write that is not declared": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) SET n.x = 1 RETURN n.id AS id",
    "an open string": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) RETURN 'x",
    "an open bracket": "MATCH (n:Entity {tenant: $tenant, layer: $layer} RETURN n.id AS id",
    "a path": "MATCH p = shortestPath((a:Entity {tenant: $tenant, layer: $layer})-[*..3]-(b:Entity)) RETURN p",
}

GOOD_WRITES = [
    "MERGE (n:Entity {tenant: $tenant, layer: $layer, id: $id}) ON CREATE SET n.name = $name ON MATCH "
    "SET n.seen = $now "
    "RETURN n.id AS id",
    "UNWIND $rows AS row MATCH (n:Entity {tenant: $tenant, id: row.id}) WHERE n.layer IN $writable SET n += row.fields",
    "MATCH (a:Entity {tenant: $tenant, layer: $layer, id: $a}) MATCH (b:Entity {tenant: $tenant, layer: "
    "$layer, id: $b}) "
    "MERGE (a)-[r:$($type)]->(b) SET r.weight = $w, r.tenant = $tenant, r.layer = $layer",
    "MATCH (a:Entity {tenant: $tenant}) WHERE a.layer IN $writable MATCH (b:Entity {tenant: $tenant, layer: a.layer}) "
    "MERGE (a)-[r:KNOWS]->(b) SET r.weight = 1, r.tenant = $tenant, r.layer = a.layer",
    "MATCH (a:Entity {tenant: $tenant, layer: $layer, id: $a}) CREATE (a)-[r:KNOWS]->(a) SET r = $fields "
    "SET r.tenant = $tenant, r.layer = $layer",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $writable AND n.id = $id DETACH DELETE n",
    "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $writable WITH collect(n) AS found "
    "FOREACH (n IN found | SET n.x = 1)",
]

BAD_WRITES = {
    "creating without a layer": "CREATE (n:Entity {tenant: $tenant, id: $id})",
    "creating without a tenant": "CREATE (n:Entity {layer: $layer, id: $id})",
    "creating by conditions": "MERGE (n:Entity {id: $id}) WITH n WHERE n.tenant = $tenant AND n.layer = "
    "$layer SET n.x = 1",
    "creating in a readable layer": "MATCH (a:Entity {tenant: $tenant}) WHERE a.layer IN $layers "
    "CREATE (n:Entity {tenant: $tenant, layer: a.layer, id: $id})",
    "changing what is only readable": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers SET n.x = 1",
    "deleting what is only readable": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers DETACH DELETE n",
    "removing what is only readable": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers REMOVE n.x",
    "changing readable relations": "MATCH (a:Entity {tenant: $tenant})-[r]-(b:Entity {tenant: $tenant}) "
    "WHERE a.layer IN $layers AND b.layer IN $layers SET r.weight = 1",
    "changing a collected readable node": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers "
    "WITH collect(n) AS ns UNWIND ns AS m SET m.x = 1",
    "changing in FOREACH": "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers WITH collect(n) AS ns "
    "FOREACH (m IN ns | SET m.x = 1)",
    "moving to another tenant": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) SET n.tenant = $other",
    "moving to another layer": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) SET n.layer = $name",
    "replacing all properties": "MATCH (n:Entity {tenant: $tenant, layer: $layer}) SET n = $fields",
    "replacing all properties of a relation": "MATCH (a:Entity {tenant: $tenant, layer: $layer})-[r]->(a) SET r = $f",
    "a relation without a partition": "MATCH (a:Entity {tenant: $tenant, layer: $layer}) MERGE (a)-[r:KNOWS]->(a)",
    "a nameless relation": "MATCH (a:Entity {tenant: $tenant, layer: $layer}) CREATE (a)-[:KNOWS]->(a)",
    "a relation that may cross": "MATCH (a:Entity {tenant: $tenant, id: $a}), (b:Entity {tenant: $tenant, id: $b}) "
    "WHERE a.layer IN $writable AND b.layer IN $writable MERGE (a)-[r:KNOWS]->(b)",
    "a relation to a stranger": "MATCH (a:Entity {tenant: $tenant, layer: $layer}) MERGE "
    "(a)-[r:KNOWS]->(b:Entity {id: $b})",
    "many transactions": "CALL { MATCH (n:Entity {tenant: $tenant, layer: $layer}) DETACH DELETE n } IN TRANSACTIONS",
}


@pytest.mark.parametrize("text", GOOD_READS)
def test_a_read_that_binds_its_partition_passes(text):
    assert faults(text) == []


@pytest.mark.parametrize("text", BAD_READS.values(), ids=BAD_READS.keys())
def test_a_read_that_could_leave_its_partition_is_refused(text):
    assert faults(text) != []


@pytest.mark.parametrize("text", GOOD_WRITES)
def test_a_write_that_stays_in_its_partition_passes(text):
    assert faults(text, writes=True) == []


@pytest.mark.parametrize("text", BAD_WRITES.values(), ids=BAD_WRITES.keys())
def test_a_write_that_could_leave_its_partition_is_refused(text):
    assert faults(text, writes=True) != []


def test_a_control_statement_touches_control_labels_alone():
    assert faults("MATCH (t:_Tenant {id: $id}) SET t.name = $name RETURN t.id AS id", control=True) == []
    assert faults("MATCH (u:_User), (m:_Membership {user: u.id}) RETURN u.id AS id", control=True) == []
    assert faults("MATCH (n:Entity {tenant: $tenant}) RETURN n.id AS id", control=True) != []
    assert faults("MATCH (n) RETURN count(n) AS many", control=True) != []
    assert faults("MATCH (t:_Tenant) MATCH (e:Entity {tenant: t.data}) RETURN e.id AS id", control=True) != []
    assert faults("MATCH (n) RETURN count(n) AS many", control=True, name="integrity.count") == []

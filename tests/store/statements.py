"""Statements that the tests of this room use."""

from __future__ import annotations

from app.store.statement import statement

ADD = statement(
    "test.add_entity",
    """
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: $id})
    ON CREATE SET n.name = $name, n.times_mentioned = 0, n.partition = $partition
    SET n.times_mentioned = n.times_mentioned + 1
    RETURN n.id AS id, n.times_mentioned AS times
    """,
    writes=True,
)
FIND = statement(
    "test.find_entity",
    """
    MATCH (n:Entity {tenant: $tenant, id: $id}) WHERE n.layer IN $layers
    RETURN n.name AS name, n.layer AS layer, n.times_mentioned AS times ORDER BY layer
    """,
)
RENAME = statement(
    "test.rename_entity",
    """
    MATCH (n:Entity {tenant: $tenant, id: $id}) WHERE n.layer IN $writable
    SET n.name = $name RETURN n.layer AS layer
    """,
    writes=True,
)
RELATE = statement(
    "test.relate_entities",
    """
    UNWIND $names AS name
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: name})
    ON CREATE SET n.name = name, n.times_mentioned = 0, n.partition = $partition
    SET n.times_mentioned = n.times_mentioned + 1
    WITH collect(n) AS ends
    UNWIND range(0, size(ends) - 2) AS i
    WITH ends[i].id AS source, ends[i + 1].id AS target
    MATCH (a:Entity {tenant: $tenant, layer: $layer, id: source})
    MATCH (b:Entity {tenant: $tenant, layer: $layer, id: target})
    MERGE (a)-[r:KNOWS]->(b)
    SET r.tenant = $tenant, r.layer = $layer
    RETURN count(r) AS related
    """,
    writes=True,
)
REMOVE = statement(
    "test.remove_entity",
    "MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id}) DETACH DELETE n RETURN count(*) AS removed",
    writes=True,
)
COUNT = statement(
    "test.count_entities",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers
    RETURN count(n) AS copies, count(DISTINCT n.id) AS ids, sum(n.times_mentioned) AS mentions
    """,
)
VALUES = statement(
    "test.return_values",
    """
    RETURN datetime('2026-01-02T03:04:05Z') AS moment, datetime('2026-01-02T05:04:05.250+02:00') AS elsewhere,
           [1, 'a', datetime('2026-01-02T03:04:05.000001Z')] AS list, {at: [datetime('2026-12-31T23:59:59Z')]} AS map,
           date('2026-01-02') AS day, duration('P1DT2H') AS span, null AS nothing, $given AS given
    """,
)
SLOW = statement(
    "test.count_slowly", "UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*) AS many"
)
PARAMETERS = statement(
    "test.return_parameters",
    "RETURN $tenant AS tenant, $layers AS layers, $writable AS writable, $layer AS layer, "
    "$partitions AS partitions, $partition AS partition",
)
WHOLE = statement("test.return_node", "MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers RETURN n")
BROKEN = statement("test.return_nonsense", "RETURN nonsense AS x")
RUNNING = statement(
    "test.list_running",
    "SHOW TRANSACTIONS YIELD metaData, currentQuery WHERE metaData.tenant = $tenant RETURN metaData AS metadata",
    control=True,
)
MARK = statement("test.create_mark", "CREATE (m:_Mark {id: $id}) RETURN m.id AS id", writes=True, control=True)
MARKS = statement("test.find_mark", "MATCH (m:_Mark {id: $id}) RETURN m.id AS id", control=True)
LABEL = statement(
    "test.label_entity",
    """
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: $id})
    ON CREATE SET n.partition = $partition, n.times_mentioned = 0
    SET n:$($label)
    MERGE (n)-[r:$($type)]->(n)
    SET r.tenant = $tenant, r.layer = $layer
    RETURN labels(n) AS labels, type(r) AS type
    """,
    writes=True,
)

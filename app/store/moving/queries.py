"""Statements that read a tenant's partitions page by page and write them again under another data id.

A page starts behind a key and its order is that of an index, so that reading on costs the page alone. It comes as one
row: the driver needs several turns of the event loop for each.
"""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = [
    "ALIASES",
    "COUNT_MERGED",
    "COUNT_STORED",
    "EDGES",
    "EDGES_BY_KEY",
    "EDGE_KEYS",
    "FIND_DOUBLES",
    "NODES",
    "NODES_BY_ID",
    "RESOLVE",
    "WRITE_ALIASES",
    "WRITE_EDGES",
    "WRITE_NODES",
]

_NODE: Final = """[k IN keys(n) WHERE NOT k IN ['tenant', 'layer', 'partition', 'names', 'words', 'thread', 'position']
      AND ($vectors OR NOT k IN ['embedding', 'embedding_of'])
      | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END, n[k] IS :: ZONED DATETIME]]"""

NODES: Final = statement(
    "moving.page_nodes",
    f"""
    MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, layer, id)
    WHERE n.layer IN $layers AND n.layer = $of AND n.id > $after
    WITH n ORDER BY n.tenant, n.layer, n.id LIMIT $limit
    RETURN collect({{id: n.id, properties: {_NODE}}}) AS rows
    """,
)

NODES_BY_ID: Final = statement(
    "moving.read_nodes",
    f"""
    UNWIND $ids AS id
    MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers AND n.layer = $of
    WITH n ORDER BY n.id
    RETURN collect({{id: n.id, properties: {_NODE}}}) AS rows
    """,
)

ALIASES: Final = statement(
    "moving.page_aliases",
    """
    MATCH (x:Alias {tenant: $tenant}) USING INDEX x:Alias(tenant, layer, id)
    WHERE x.layer IN $layers AND x.layer = $of AND x.id > $after
    WITH x ORDER BY x.tenant, x.layer, x.id LIMIT $limit
    RETURN collect({id: x.id, target: x.target, name: x.name}) AS rows
    """,
)

_EDGE: Final = """{source: a.id, relation: type(r), target: b.id,
      properties: [k IN keys(r) WHERE NOT k IN ['tenant', 'layer']
      | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END, r[k] IS :: ZONED DATETIME]]}"""

# The last source of a full page may have more: those are found by the two statements below.
EDGES: Final = statement(
    "moving.page_edges",
    f"""
    MATCH (a:Entity {{tenant: $tenant}}) USING INDEX a:Entity(tenant, layer, id)
    WHERE a.layer IN $layers AND a.layer = $of AND a.id > $after
    MATCH (a)-[r]->(b:Entity {{tenant: $tenant}}) WHERE b.layer IN $layers
    WITH a, r, b ORDER BY a.tenant, a.layer, a.id, type(r), b.id LIMIT $limit
    RETURN collect({_EDGE}) AS rows
    """,
)

# No index orders the relations of one source, so each of these looks at all of them: it takes many at once.
EDGE_KEYS: Final = statement(
    "moving.page_edge_keys",
    """
    MATCH (a:Entity {tenant: $tenant, id: $source}) WHERE a.layer IN $layers AND a.layer = $of
    MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
    WITH type(r) AS relation, b.id AS target
    WHERE relation > $relation OR (relation = $relation AND target > $target)
    WITH relation, target ORDER BY relation, target LIMIT $limit
    RETURN collect([relation, target]) AS rows
    """,
)

EDGES_BY_KEY: Final = statement(
    "moving.read_edges",
    f"""
    MATCH (a:Entity {{tenant: $tenant, id: $source}}) WHERE a.layer IN $layers AND a.layer = $of
    UNWIND $keys AS key
    MATCH (b:Entity {{tenant: $tenant, id: key[1]}}) WHERE b.layer IN $layers AND b.layer = $of
    MATCH (a)-[r]->(b) WHERE type(r) = key[0]
    WITH a, r, b ORDER BY type(r), b.id
    RETURN collect({_EDGE}) AS rows
    """,
)

COUNT_MERGED: Final = statement(
    "moving.count_merged",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      RETURN count(DISTINCT n.id) AS nodes
    }
    CALL {
      MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id IS NOT NULL
      MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
      RETURN count(DISTINCT [a.id, type(r), b.id]) AS edges
    }
    RETURN nodes, edges
    """,
)

COUNT_STORED: Final = statement(
    "moving.count_stored",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      RETURN count(n) AS nodes
    }
    CALL {
      MATCH (x:Alias {tenant: $tenant}) WHERE x.layer IN $layers AND x.id IS NOT NULL
      RETURN count(x) AS aliases
    }
    CALL {
      MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id IS NOT NULL
      MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
      RETURN count(r) AS edges
    }
    RETURN nodes, aliases, edges
    """,
)

RESOLVE: Final = statement(
    "moving.resolve_ids",
    """
    UNWIND $ids AS id
    CALL (id) {
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name, n.type]) AS shown, max(n.confidence) AS confidence
    }
    CALL (id) {
      MATCH (x:Alias {tenant: $tenant, id: id}) USING INDEX x:Alias(tenant, layer, id) WHERE x.layer IN $layers
      MATCH (n:Entity {tenant: $tenant, id: x.target}) WHERE n.layer IN $layers
      RETURN collect(DISTINCT n.id) AS targets, min([n.layer, n.name, n.type]) AS aliased
    }
    WITH id, shown, confidence, targets, aliased WHERE shown IS NOT NULL OR targets <> [] ORDER BY id
    RETURN collect([id, shown, confidence, targets, aliased]) AS rows
    """,
)

FIND_DOUBLES: Final = statement(
    "moving.find_doubles",
    """
    MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
    WHERE a.layer IN $layers AND a.id IS NOT NULL
    MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
    WITH a, type(r) AS relation, b, count(*) AS copies WHERE copies > 1
    RETURN count(*) AS doubles
    """,
)

# Moments come as text: the driver needs far longer for each than the server does.
WRITE_NODES: Final = statement(
    "moving.write_nodes",
    """
    UNWIND $rows AS row
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
    SET n += row.fields
    SET n.partition = $partition, n.first_seen = datetime(row.first_seen), n.last_seen = datetime(row.last_seen)
    SET n:$(row.label)
    RETURN count(*) AS written
    """,
    writes=True,
)

WRITE_ALIASES: Final = statement(
    "moving.write_aliases",
    """
    UNWIND $rows AS row
    MERGE (x:Alias {tenant: $tenant, layer: $layer, id: row.id})
    SET x.target = row.target, x.name = row.name
    RETURN count(*) AS written
    """,
    writes=True,
)

# The data id is new and one process fills it, so nothing is there that a MERGE could find.
WRITE_EDGES: Final = statement(
    "moving.write_edges",
    """
    UNWIND $rows AS row
    MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row.source}),
          (b:Entity {tenant: $tenant, layer: $layer, id: row.target})
    CREATE (a)-[r:$(row.relation)]->(b)
    SET r = row.fields
    SET r.tenant = $tenant, r.layer = $layer
    SET r.ingested_at = datetime(row.ingested_at), r.last_confirmed = datetime(row.last_confirmed),
        r.valid_at = datetime(row.valid_at), r.invalid_at = datetime(row.invalid_at),
        r.ended_at = datetime(row.ended_at)
    RETURN collect(row.line) AS written
    """,
    writes=True,
)

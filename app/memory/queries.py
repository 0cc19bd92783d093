"""The statements that tools which keep, find and change share.

Entities are copies by partition; ``id`` names the merged record. A relation's ends always lie in one partition, so
binding both ends to the readable layers bounds the relation too. Moments are made text by the server, which is faster.
"""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = [
    "AFFINITY",
    "DETAILS",
    "ENTITY",
    "EVIDENCE",
    "EXPANSION",
    "LOCK",
    "LOCK_COPIES",
    "NEIGHBOURHOOD",
    "PAGE",
    "PICKED",
    "READ_ENDS",
    "SEARCHED",
    "WIDE_NEIGHBOURHOOD",
    "WRITE",
]

READ_ENDS: Final = statement(
    "memory.read_ends",
    """
    UNWIND $ids AS id
    CALL (id) {
      MATCH (e:Entity {tenant: $tenant, id: id}) WHERE e.layer IN $layers
      RETURN collect({layer: e.layer, properties: [k IN keys(e)
        WHERE NOT k IN ['tenant', 'layer', 'partition', 'embedding', 'names', 'words']
          | [k, CASE WHEN e[k] IS :: ZONED DATETIME THEN toString(e[k]) ELSE e[k] END]]}) AS copies
    }
    CALL (id) {
      MATCH (x:Alias {tenant: $tenant, id: id}) USING INDEX x:Alias(tenant, layer, id) WHERE x.layer IN $layers
      WITH x
      MATCH (e:Entity {tenant: $tenant, id: x.target}) WHERE e.layer IN $layers
      RETURN collect({layer: e.layer, properties: [k IN keys(e)
        WHERE NOT k IN ['tenant', 'layer', 'partition', 'embedding', 'names', 'words']
          | [k, CASE WHEN e[k] IS :: ZONED DATETIME THEN toString(e[k]) ELSE e[k] END]]}) AS aliased
    }
    RETURN id, copies, aliased
    """,
)

# The rows come sorted by id, and REMOVE (of what no entity has: app.store.images) takes each node's lock before
# anything about it is read (partition rule 10), so two calls over the same entities wait for each other in one order.
LOCK: Final = statement(
    "memory.lock_ends",
    """
    UNWIND $ends AS row
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
    ON CREATE SET n.name = row.name, n.type = row.type, n.partition = $partition, n.first_seen = $now,
                  n.times_mentioned = 0
    REMOVE n.target
    WITH n, {id: n.id, properties: [k IN keys(n)
      WHERE NOT k IN ['tenant', 'layer', 'partition', 'embedding', 'names', 'words']
        | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]]} AS end
    SET n.last_seen = $now
    WITH collect(end) AS ends
    CALL {
      UNWIND $pairs AS pair
      MATCH (a:Entity {tenant: $tenant, id: pair.source}) WHERE a.layer IN $layers
      MATCH (b:Entity {tenant: $tenant, layer: a.layer, id: pair.target})
      WITH DISTINCT a, b, pair.relation AS relation
      MATCH (a)-[r]->(b) WHERE type(r) = relation
      RETURN collect({layer: r.layer, source: a.id, relation: type(r), target: b.id,
        properties: [k IN keys(r) WHERE NOT k IN ['tenant', 'layer']
          | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END]]}) AS same
    }
    CALL {
      UNWIND $rivals AS rival
      MATCH (a:Entity {tenant: $tenant, layer: $layer, id: rival.source})
      MATCH (a)-[r]->(b:Entity {tenant: $tenant, layer: $layer}) WHERE type(r) = rival.relation
      RETURN collect({layer: r.layer, source: a.id, relation: type(r), target: b.id,
        properties: [k IN keys(r) WHERE NOT k IN ['tenant', 'layer']
          | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END]]}) AS others
    }
    RETURN ends, same, others
    """,
    writes=True,
    touches=("ends.id",),
)

# Both ends of every relation are locked and what lies between them was read under that lock, so what is not there can
# be created. (MERGE of a relationship whose type is a parameter scans all relationships of that type, of all tenants.)
WRITE: Final = statement(
    "memory.write_relations",
    """
    CALL {
      UNWIND $entities AS row
      MATCH (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
      SET n += row.fields
      SET n:$(row.label)
    }
    CALL {
      UNWIND $aliases AS row
      MERGE (x:Alias {tenant: $tenant, layer: $layer, id: row.id})
      SET x.target = row.target, x.name = row.name
    }
    CALL {
      UNWIND $changed AS row
      MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row.source})
      MATCH (b:Entity {tenant: $tenant, layer: $layer, id: row.target})
      WITH DISTINCT a, b, row
      MATCH (a)-[r]->(b) WHERE type(r) = row.relation
      SET r += row.fields
    }
    CALL {
      UNWIND $created AS row
      MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row.source}),
            (b:Entity {tenant: $tenant, layer: $layer, id: row.target})
      CREATE (a)-[r:$(row.relation)]->(b)
      SET r = row.fields
      SET r.tenant = $tenant, r.layer = $layer
    }
    RETURN true AS done
    """,
    writes=True,
    touches=("entities.id", "changed.source", "changed.target", "created.source", "created.target"),
)

_HOP: Final = """
      MATCH (a:Entity {tenant: $tenant, id: i}) WHERE a.layer IN $layers
      MATCH (a)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
      WITH startNode(r).id AS f, type(r) AS t, endNode(r).id AS g,
           max(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) END) AS now,
           max(CASE WHEN r.invalid_at IS NOT NULL THEN coalesce(r.weight, 0.5) END) AS past
      WITH f, t, g, CASE WHEN now IS NOT NULL OR $current_only THEN now ELSE past END AS w
      WHERE w >= $min_weight
      ORDER BY w DESC, f, t, g LIMIT $most
"""

_FOUND: Final = """
      WITH id, collect(n) AS found
      CALL (found) {
        UNWIND found AS n
        MATCH (n)-[r]-(m:Entity {tenant: $tenant}) WHERE m.layer IN $layers AND r.invalid_at IS NULL
        RETURN count(DISTINCT [type(r), startNode(r).id, endNode(r).id]) AS edge_count
      }
      WITH id, edge_count, [n IN found | {layer: n.layer, properties: [k IN keys(n) WHERE NOT k IN ['tenant', 'layer',
        'partition', 'embedding', 'embedding_of', 'names', 'words', 'evidence_text', 'thread', 'position']
        | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]]}] AS copies
"""

_SEEDS: Final = """
    CALL {
      UNWIND $starts AS start
      CALL (start) {
        OPTIONAL MATCH (e:Entity {tenant: $tenant, id: start}) WHERE e.layer IN $layers
        RETURN count(e) > 0 AS exact
      }
      CALL (start, exact) {
        UNWIND CASE WHEN exact THEN [] ELSE [start] END AS alias
        MATCH (x:Alias {tenant: $tenant, id: alias}) USING INDEX x:Alias(tenant, layer, id) WHERE x.layer IN $layers
        WITH x
        MATCH (e:Entity {tenant: $tenant, id: x.target}) WHERE e.layer IN $layers
        RETURN collect(DISTINCT e.id) AS targets
      }
      RETURN collect({start: start, ids: CASE WHEN exact THEN [start] ELSE targets END}) AS seeds
    }
    WITH seeds, reduce(ids = [], s IN seeds | CASE WHEN size(s.ids) = 1 AND NOT s.ids[0] IN ids
      THEN ids + s.ids ELSE ids END) AS f0
"""


def _hop(number: int) -> str:
    """Relations from the ends ``f<number - 1>`` on, and the strongest of the new ends."""
    before = [f"f{earlier}" for earlier in range(number)]
    return f"""
    CALL ({before[-1]}) {{
      UNWIND CASE WHEN $hops >= {number} THEN {before[-1]} ELSE [] END AS i
      {_HOP}
      RETURN collect([f, t, g, w]) AS e{number}
    }}
    CALL (e{number}, {", ".join(before)}) {{
      UNWIND CASE WHEN $hops > {number} THEN e{number} ELSE [] END AS e UNWIND [e[0], e[2]] AS id
      WITH id, max(e[3]) AS strength, {", ".join(before)}
      WHERE {" AND ".join(f"NOT id IN {earlier}" for earlier in before)}
      ORDER BY strength DESC, id LIMIT $width
      RETURN collect(id) AS f{number}
    }}"""


def _neighbourhood(hops: int) -> str:
    numbers = range(1, hops + 1)
    edges, fronts = (", ".join(f"{letter}{number}" for number in numbers) for letter in "ef")
    return f"{_SEEDS}{''.join(map(_hop, numbers))}\n    RETURN seeds, [{edges}] AS hops, [{fronts}] AS fronts"


# Hop by hop over collected ids: paths are never enumerated (a pattern of variable length does, exponentially on hubs).
# Each hop groups the copies of a relation (partition rule 5: the state is current if a copy is, the weight is the
# greatest of that state) and goes on from the $width strongest ends. Two statements, since planning four hops is slow.
NEIGHBOURHOOD: Final = statement("memory.read_neighbourhood", _neighbourhood(2))
WIDE_NEIGHBOURHOOD: Final = statement("memory.read_wide_neighbourhood", _neighbourhood(4))

# The project is named by its directory (or one inside it) or by its name; the copies of a project are one.
AFFINITY: Final = statement(
    "memory.read_affinity",
    """
    CALL {
      MATCH (p:Entity {tenant: $tenant, type: 'Project'}) WHERE p.layer IN $layers
      WITH p, toLower(replace(coalesce(toStringOrNull(p.directory), ''), '\\\\', '/')) AS place
      WITH p, CASE WHEN place ENDS WITH '/' THEN left(place, size(place) - 1) ELSE place END AS place
      WITH p.id AS id, max(CASE WHEN p.id = $id THEN 3 WHEN place = '' THEN 0
        WHEN place = $place OR $place STARTS WITH place + '/' THEN 2
        WHEN $place CONTAINS '/' AND place CONTAINS $place THEN 1 ELSE 0 END) AS fit,
        max(size(place)) AS precise
      WHERE fit > 0
      ORDER BY fit DESC, precise DESC, id LIMIT 1
      RETURN collect(id) AS projects
    }
    CALL (projects) {
      UNWIND projects AS i
      MATCH (p:Entity {tenant: $tenant, id: i}) WHERE p.layer IN $layers
      MATCH (p)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND r.invalid_at IS NULL
      WITH DISTINCT b.id AS id, projects WHERE NOT id IN projects
      ORDER BY id LIMIT $width
      RETURN collect(id) AS near
    }
    CALL (projects, near) {
      UNWIND near AS i
      MATCH (a:Entity {tenant: $tenant, id: i}) WHERE a.layer IN $layers
      MATCH (a)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND r.invalid_at IS NULL AND b.id IN $among
      WITH DISTINCT b.id AS id, projects, near WHERE NOT id IN projects AND NOT id IN near
      RETURN collect(id) AS far
    }
    RETURN projects, near, far
    """,
)

DETAILS: Final = statement(
    "memory.read_details",
    """
    CALL {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      WITH id, collect({layer: n.layer, properties: [k IN keys(n)
        WHERE CASE WHEN $brief THEN k IN ['id', 'name', 'type', 'confidence'] ELSE NOT k IN ['tenant', 'layer',
        'partition', 'embedding', 'embedding_of', 'names', 'words', 'evidence_text', 'thread', 'position'] END
        | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]]}) AS copies
      RETURN collect({id: id, copies: copies}) AS nodes
    }
    CALL {
      UNWIND $triples AS e
      MATCH (a:Entity {tenant: $tenant, id: e[0]})-[r]->(b:Entity {tenant: $tenant, id: e[2]})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND b.layer IN $layers AND type(r) = e[1]
      WITH e, collect({layer: r.layer, properties: [k IN keys(r) WHERE NOT k IN ['tenant', 'layer']
        | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END]]})
        AS copies
      RETURN collect({triple: e, copies: copies}) AS edges
    }
    RETURN nodes, edges
    """,
)

ENTITY: Final = statement(
    "memory.read_entity",
    """
    MATCH (n:Entity {tenant: $tenant, id: $id}) WHERE n.layer IN $layers
    WITH $id AS id, n
    """
    + _FOUND
    + """
    RETURN copies, edge_count
    """,
)

# `min` of [layer, name, type] is the copy of the first layer by name, tenant-wide ("") before all (partition rule 4).
PAGE: Final = statement(
    "memory.list_entities",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      WITH n.id AS id, min([n.layer, n.type]) AS first, max(n.confidence) AS confidence
      RETURN count(*) AS everything, count(CASE WHEN ($type IS NULL OR first[1] = $type)
        AND ($min_confidence IS NULL OR confidence >= $min_confidence) THEN 1 END) AS total
    }
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      WITH n.id AS id, min([n.layer, n.type, n.name]) AS first, max(n.confidence) AS confidence,
        max(n.last_seen) AS last_seen
      WHERE ($type IS NULL OR first[1] = $type) AND ($min_confidence IS NULL OR confidence >= $min_confidence)
      WITH id, CASE $sort WHEN 'confidence' THEN -coalesce(confidence, 0.5)
        WHEN 'last_seen' THEN -(last_seen.epochSeconds * 1000000 + last_seen.microsecond)
        ELSE toLower(first[2]) END AS place
      WHERE $after IS NULL OR place > $after[0] OR (place = $after[0] AND id > $after[1])
      ORDER BY place, id LIMIT $limit
      RETURN collect([id, place]) AS page
    }
    CALL (page) {
      UNWIND page AS p
      WITH p[0] AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
    """
    + _FOUND
    + """
      RETURN collect({id: id, edge_count: edge_count, copies: copies}) AS rows
    }
    RETURN everything, total, page, rows
    """,
)

PICKED: Final = statement(
    "memory.read_picked",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      RETURN count(DISTINCT n.id) AS everything
    }
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IN $beyond
      WITH n.id AS id, min([n.layer, n.type])[1] AS type, coalesce(max(n.confidence), 0.5) AS confidence
      WHERE type = coalesce($type, type) AND confidence >= coalesce($min_confidence, 0.0) RETURN count(*) AS fitting
    }
    CALL {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
    """
    + _FOUND
    + """
      RETURN collect({id: id, edge_count: edge_count, copies: copies}) AS rows
    }
    RETURN everything, fitting, rows
    """,
)

EXPANSION: Final = statement(
    "memory.expand_seeds",
    """
    UNWIND range(0, size($ids) - 1) AS place
    MATCH (a:Entity {tenant: $tenant, id: $ids[place]}) WHERE a.layer IN $layers
    MATCH (a)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND r.invalid_at IS NULL
    WITH startNode(r).id AS source, type(r) AS relation, endNode(r).id AS target,
      max(coalesce(r.weight, 0.5)) AS weight, min(place) AS place
    WHERE weight > $min_weight
    ORDER BY weight DESC, source, relation, target LIMIT $limit
    CALL (source) {
      MATCH (n:Entity {tenant: $tenant, id: source}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name, n.type]) AS from_
    }
    CALL (target) {
      MATCH (n:Entity {tenant: $tenant, id: target}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name, n.type]) AS to_
    }
    RETURN source, relation, target, weight, $ids[place] AS seed, from_[1] AS from_name, from_[2] AS from_type,
      to_[1] AS to_name, to_[2] AS to_type
    """,
)

# Whoever changes, moves or takes away a relation holds both of its ends before: it is read under their locks, and no
# relation comes to an end that goes.
LOCK_COPIES: Final = statement(
    "memory.lock_copies",
    """
    UNWIND $ids AS id
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $writable
    WITH n ORDER BY n.id, n.layer
    REMOVE n.target
    RETURN count(n) AS locked
    """,
    writes=True,
    touches=("ids",),
)

# The searchable evidence of an entity is that of its relations, the newest first (partition rule 13).
EVIDENCE: Final = statement(
    "memory.read_evidence",
    """
    UNWIND $ids AS id
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $writable
    CALL (n) {
      MATCH (n)-[r]-(o:Entity {tenant: $tenant, layer: n.layer}) WHERE r.evidence IS NOT NULL
      WITH r ORDER BY r.last_confirmed DESC, type(r), startNode(r).id, endNode(r).id
      RETURN collect(r.evidence)[..$most] AS evidence
    }
    RETURN n.layer AS layer, evidence, [k IN keys(n)
      WHERE NOT k IN ['tenant', 'layer', 'partition', 'embedding', 'names', 'words']
        | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]] AS properties
    """,
)

SEARCHED: Final = statement(
    "memory.write_searched",
    """
    UNWIND $searched AS row
    MATCH (n:Entity {tenant: $tenant, id: row.id}) WHERE n.layer IN $writable AND n.layer = row.layer
    SET n += row.fields
    RETURN count(n) AS written
    """,
    writes=True,
    touches=("searched.id",),
)

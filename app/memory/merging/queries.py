"""Statements of merge and unmerge. What they write goes through exact images (``app.store.images``)."""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["HOLD", "LOOK", "LOOK_APART"]

# REMOVE takes the locks of both ends in the order of their ids, as every writer of relations does (app.store.images).
_LOCKED: Final = """
    CALL () {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $writable
      WITH n ORDER BY n.id, n.layer
      REMOVE n.target
      RETURN count(n) AS locked
    }
"""

# Names and relations of the source; the evidence of relations between the two, which go, that other relations of
# theirs give too; and the current values of relations that have one value at a time.
LOOK: Final = statement(
    "memory.look_at_merge",
    f"""
    {_LOCKED}
    CALL (locked) {{
      MATCH (n:Entity {{tenant: $tenant, id: $source}}) WHERE n.layer IN $writable
      UNWIND [n.name] + coalesce(n.aliases, []) AS name
      RETURN collect(DISTINCT name) AS names
    }}
    CALL (locked) {{
      MATCH (n:Entity {{tenant: $tenant, id: $source}}) WHERE n.layer IN $writable
      MATCH (n)-[r]-(o:Entity {{tenant: $tenant, layer: n.layer}})
      WITH DISTINCT startNode(r).id AS f, type(r) AS t, endNode(r).id AS g LIMIT $most
      RETURN collect([f, t, g]) AS triples
    }}
    CALL (locked) {{
      MATCH (a:Entity {{tenant: $tenant, id: $source}})-[r]-(b:Entity {{tenant: $tenant, id: $target}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id)
      WHERE a.layer IN $writable AND b.layer IN $writable AND r.evidence IS NOT NULL
      RETURN collect(DISTINCT r.evidence) AS loops
    }}
    CALL (loops) {{
      UNWIND CASE WHEN loops = [] THEN [] ELSE $ids END AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $writable
      MATCH (n)-[r]-(o:Entity {{tenant: $tenant, layer: n.layer}}) WHERE r.evidence IN loops AND NOT o.id IN $ids
      RETURN collect(DISTINCT r.evidence) AS still
    }}
    CALL (locked) {{
      UNWIND $ids AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
      MATCH (n)-[r]->(o:Entity {{tenant: $tenant}})
      WHERE o.layer IN $layers AND r.invalid_at IS NULL AND type(r) IN $single AND NOT o.id IN $ids
      WITH type(r) AS relation, o.id AS id, min([o.layer, o.name]) AS named
      ORDER BY relation, id
      RETURN collect([relation, id, named[1]]) AS values
    }}
    CALL (triples) {{
      UNWIND $ids + [t IN triples | t[0]] + [t IN triples | t[2]] AS id
      WITH DISTINCT id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers AND n.subtype = 'rule'
      RETURN collect(DISTINCT id) AS rules
    }}
    RETURN names, triples, loops, still, values, rules
    """,
    writes=True,
    touches=("ids",),
)

# What of the listed relations is there (with the layers of their visible copies), what else hangs on the entity, which
# evidence stays with it, and what has the new one's id.
LOOK_APART: Final = statement(
    "memory.look_at_unmerge",
    f"""
    {_LOCKED}
    CALL (locked) {{
      UNWIND $triples AS t
      MATCH (a:Entity {{tenant: $tenant, id: t[0]}}) WHERE a.layer IN $layers
      MATCH (b:Entity {{tenant: $tenant, layer: a.layer, id: t[2]}})
      WITH DISTINCT a, b, t
      MATCH (a)-[r]->(b) WHERE type(r) = t[1]
      WITH t, r.layer AS layer, collect(r.evidence) AS evidence
      RETURN collect([t, layer]) AS moving, reduce(every = [], e IN collect(evidence) | every + e) AS pieces
    }}
    CALL (locked) {{
      MATCH (n:Entity {{tenant: $tenant, id: $source}}) WHERE n.layer IN $layers
      MATCH (n)-[r]-(o:Entity {{tenant: $tenant}}) WHERE o.layer IN $layers
      RETURN count(DISTINCT [startNode(r).id, type(r), endNode(r).id]) AS edges
    }}
    CALL (pieces) {{
      MATCH (n:Entity {{tenant: $tenant, id: $source}}) WHERE n.layer IN $writable AND pieces <> []
      MATCH (n)-[r]-(o:Entity {{tenant: $tenant, layer: n.layer}})
      WHERE r.evidence IN pieces AND NOT [startNode(r).id, type(r), endNode(r).id] IN $triples
      RETURN collect(DISTINCT r.evidence) AS still
    }}
    CALL (locked) {{
      MATCH (n:Entity {{tenant: $tenant, id: $id}}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name]) AS clash
    }}
    RETURN moving, pieces, edges, still, clash[1] AS clash
    """,
    writes=True,
    touches=("ids",),
)

# MERGE takes the lock of the id in its partition: whoever makes an entity of this id has done so before, and then it
# has a name, or waits until the new one is there.
HOLD: Final = statement(
    "memory.hold_id",
    """
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: $id})
    RETURN n.name AS name
    """,
    writes=True,
    touches=("id",),
)

"""Statements that choose what goes and take it away (graph_delete, graph_prune).

Chosen is on the merged view of the readable layers; what goes are the copies in the writable ones (partition rule 9).
"""

from __future__ import annotations

from typing import Final, LiteralString

from app.store.statement import statement

__all__ = ["CANDIDATES", "COPIES", "ENDS", "FITTING", "FITTING_OF_THESE", "REMOVE", "STILL_FITTING"]

_SCANNED: Final[LiteralString] = """
      MATCH (a:Entity {tenant: $tenant})-[r]->(b:Entity {tenant: $tenant})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id) USING JOIN ON b
      WHERE a.layer IN $writable AND a.id IS NOT NULL AND b.layer IN $writable AND b.id IS NOT NULL
        AND r.weight < $edge_threshold
      WITH DISTINCT a.id AS source, type(r) AS relation, b.id AS target"""
_GIVEN: Final[LiteralString] = """
      UNWIND $triples AS t
      MATCH (a:Entity {tenant: $tenant, id: t[0]}) WHERE a.layer IN $writable
      MATCH (b:Entity {tenant: $tenant, layer: a.layer, id: t[2]})
      MATCH (a)-[r]->(b) WHERE type(r) = t[1] AND r.weight < $edge_threshold
      WITH DISTINCT a.id AS source, type(r) AS relation, b.id AS target"""
_FADED: Final[LiteralString] = """(coalesce(n.confidence, 0.5) < $node_threshold
        OR ($include_orphans AND n.last_seen < $unseen_since
          AND NOT EXISTS { MATCH (n)-[]-(m:Entity {tenant: $tenant}) WHERE m.layer IN $layers }))
      WITH DISTINCT n.id AS id"""
_EVERY_ONE: Final[LiteralString] = f"""
      MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $writable AND n.id IS NOT NULL AND {_FADED}"""
_THESE: Final[LiteralString] = f"""
      UNWIND $ids AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $writable AND {_FADED}"""


def _fitting(relations: LiteralString, entities: LiteralString) -> LiteralString:
    """What fits among the writable copies that are given, each judged merged.

    A merged record fits only if its writable copies do. A relation's state and weight are those of partition rule 5.
    Relations of a rule stay, and so does what has one.
    """
    return f"""
    CALL {{{relations}
      CALL (source, relation, target) {{
        MATCH (x:Entity {{tenant: $tenant, id: source}}) WHERE x.layer IN $layers
        MATCH (y:Entity {{tenant: $tenant, layer: x.layer, id: target}})
        WITH DISTINCT x, y, relation
        MATCH (x)-[c]->(y) WHERE type(c) = relation
        RETURN coalesce(max(CASE WHEN c.invalid_at IS NULL THEN coalesce(c.weight, 0.5) END),
          max(coalesce(c.weight, 0.5))) AS weight
      }}
      WITH source, relation, target, weight
      WHERE weight < $edge_threshold AND NOT EXISTS {{
        MATCH (n:Entity {{tenant: $tenant}})
        WHERE n.layer IN $layers AND n.id IN [source, target] AND n.subtype = 'rule' }}
      WITH source, relation, target, weight ORDER BY source, relation, target
      RETURN collect([source, relation, target, weight]) AS edges
    }}
    CALL {{{entities}
      CALL (id) {{
        MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
        RETURN min([n.layer, n.type, n.name]) AS first, max(coalesce(n.confidence, 0.5)) AS confidence,
          max(n.last_seen) AS last_seen, max(CASE WHEN n.subtype = 'rule' THEN 1 ELSE 0 END) AS rule
      }}
      CALL (id) {{
        MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
        MATCH (n)-[r]-(o:Entity {{tenant: $tenant}}) WHERE o.layer IN $layers
        WITH startNode(r).id AS f, type(r) AS t, endNode(r).id AS g, o.id AS other,
          coalesce(max(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) END), max(coalesce(r.weight, 0.5)))
            AS weight
        RETURN count(*) AS edge_count, max(weight) AS strongest, collect(DISTINCT other) AS others
      }}
      WITH id, first, confidence, last_seen, edge_count, others, rule, strongest
      WHERE rule = 0 AND (strongest IS NULL OR strongest < $edge_threshold) AND (confidence < $node_threshold
        OR ($include_orphans AND edge_count = 0 AND last_seen < $unseen_since))
      WITH id, first, confidence, last_seen, edge_count, others
      WHERE NOT EXISTS {{
        MATCH (o:Entity {{tenant: $tenant}}) WHERE o.layer IN $layers AND o.id IN others AND o.subtype = 'rule' }}
      WITH id, first, confidence, last_seen, edge_count ORDER BY id
      RETURN collect([id, first[1], first[2], confidence, toString(last_seen), edge_count]) AS nodes
    }}"""


# Both lists in one order and counted whole, so that a page, its successors and an execution choose alike. Both ends of
# relations come by index and are joined, which spares reading the other end of each.
_PAGE: Final[LiteralString] = """
    RETURN size(edges) AS edge_count, edges[$at_edge..$at_edge + $limit] AS edges,
      size(nodes) AS node_count, nodes[$at_node..$at_node + $limit] AS nodes
    """
FITTING: Final = statement("memory.find_prunable", _fitting(_SCANNED, _EVERY_ONE) + _PAGE)

# Of each range what may fit by its writable copies alone, $most of either kind.
CANDIDATES: Final = statement(
    "memory.list_prunable",
    f"""
    UNWIND $ranges AS part
    CALL (part) {{
      MATCH (a:Entity {{tenant: $tenant}}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $writable AND a.id >= part.start AND a.id < part.end
      MATCH (a)-[r]->(b:Entity {{tenant: $tenant}}) WHERE b.layer IN $writable AND r.weight < $edge_threshold
      WITH DISTINCT a.id AS source, type(r) AS relation, b.id AS target LIMIT $most
      RETURN collect([source, relation, target]) AS edges
    }}
    CALL (part) {{
      MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $writable AND n.id >= part.start AND n.id < part.end AND {_FADED} LIMIT $most
      RETURN collect(id) AS nodes
    }}
    RETURN part.place AS place, edges, nodes
    """,
)
FITTING_OF_THESE: Final = statement("memory.find_prunable_of_these", _fitting(_GIVEN, _THESE) + _PAGE)

# Which of those that were chosen still fit, now that they are locked.
STILL_FITTING: Final = statement(
    "memory.judge_prunable",
    f"{_fitting(_GIVEN, _THESE)} RETURN [e IN edges | e[..3]] AS edges, [n IN nodes | n[0]] AS ids",
)

# What else has to be known of what goes: the other ends of its relations; those whose searchable evidence changes; and
# entities of type Alias that say nothing but being another name of what goes. (With its type in the pattern everybody's
# relations of that type were looked at where few have it.)
ENDS: Final = statement(
    "memory.find_loose_ends",
    """
    CALL {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $writable
      MATCH (n)-[r]-(o:Entity {tenant: $tenant, layer: n.layer})
      RETURN collect(DISTINCT o.id) AS around, collect(DISTINCT CASE WHEN r.evidence IS NOT NULL THEN o.id END) AS said
    }
    CALL {
      UNWIND $triples AS t
      MATCH (a:Entity {tenant: $tenant, id: t[0]}) WHERE a.layer IN $writable
      MATCH (b:Entity {tenant: $tenant, layer: a.layer, id: t[2]})
      WITH DISTINCT a, b, t
      MATCH (a)-[r]->(b) WHERE type(r) = t[1] AND r.evidence IS NOT NULL
      RETURN collect(DISTINCT a.id) + collect(DISTINCT b.id) AS ends
    }
    CALL {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      MATCH (x:Entity {tenant: $tenant, layer: n.layer, type: 'Alias'})-[a]->(n) WHERE type(a) = 'ALIAS_OF'
      WITH DISTINCT x.id AS alias
      WHERE NOT alias IN $ids AND NOT EXISTS {
        MATCH (y:Entity {tenant: $tenant, id: alias})-[r]-(o:Entity {tenant: $tenant})
        WHERE y.layer IN $layers AND o.layer IN $layers
          AND NOT (type(r) = 'ALIAS_OF' AND startNode(r).id = alias AND o.id IN $ids) }
      RETURN collect(alias) AS aliases
    }
    RETURN around, said + ends AS ends, aliases
    """,
)

# Whatever else is kept in the graph hangs on an entity by relationships to nodes of its own kinds: an entity that has
# one stays, without the memory's relations. This is the one place that asks.
_BACKED: Final = "EXISTS { MATCH (n)-[]-(x {tenant: $tenant, layer: n.layer}) WHERE NOT x:Entity }"

COPIES: Final = statement(
    "memory.read_going",
    f"""
    UNWIND $ids AS id
    MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
    RETURN id, n.layer AS layer, n.name AS name, n.type AS type, n.layer IN $writable AS may, {_BACKED} AS backed
    ORDER BY id, layer
    """,
)

REMOVE: Final = statement(
    "memory.remove_going",
    f"""
    CALL {{
      UNWIND $triples AS t
      MATCH (a:Entity {{tenant: $tenant, id: t[0]}}) WHERE a.layer IN $writable
      MATCH (b:Entity {{tenant: $tenant, layer: a.layer, id: t[2]}})
      WITH DISTINCT a, b, t
      MATCH (a)-[r]->(b) WHERE type(r) = t[1]
      DELETE r
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $writable
      MATCH (n)-[r]-(o:Entity {{tenant: $tenant, layer: n.layer}})
      WITH DISTINCT r
      DELETE r
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $writable AND NOT {_BACKED}
      DELETE n
    }}
    CALL {{
      UNWIND $ids AS id
      MATCH (x:Alias {{tenant: $tenant, target: id}}) USING INDEX x:Alias(tenant, layer, target)
      WHERE x.layer IN $writable
        AND NOT EXISTS {{ MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers }}
      DELETE x
      RETURN count(x) AS aliases
    }}
    RETURN aliases
    """,
    writes=True,
    touches=("ids", "triples.0", "triples.2"),
)

"""Statements of the tools that change the memory: relations and contradictions.

What is judged is read over the readable layers, what is changed lies in the writable ones (partition rule 9). REMOVE
takes the lock of both ends first (see ``app.store.images``), in the order of their ids, as every writer of relations
does.
"""

from __future__ import annotations

from typing import Final, LiteralString

from app.memory.fading.queries import OF_RELATION
from app.store.statement import statement

__all__ = ["ADJUST", "HELD", "HELD_IN_ALL", "RESOLVE", "SHOWN"]

_LOCK: Final = """
    UNWIND $ids AS id
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $writable
    REMOVE n.target
    WITH count(n) AS locked
"""

# What answers show of a relation and of its ends, texts as long as they show them and one character more: what is read
# is kept, and callers may store 32 KiB under each name.
_COPY: Final = """layer: r.layer, source: a.id, relation: type(r), target: b.id,
        properties: [k IN ['weight', 'valid_at', 'invalid_at', 'ingested_at', 'detected_date', 'resolved',
            'resolution', 'description'] WHERE r[k] IS NOT NULL
          | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) WHEN r[k] IS :: STRING THEN left(r[k], 501)
            WHEN r[k] IS :: LIST<ANY> THEN null ELSE r[k] END]]"""
_SIDE: Final = """layer: n.layer, properties: [k IN ['id', 'name', 'type'] | [k, n[k]]]
        + [k IN ['content', 'description', 'summary'] | [k, CASE WHEN n[k] IS :: STRING THEN left(n[k], 501) END]]"""

# The weight fades before it is changed, as graph_decay lets it: a rule's relation never does.
ADJUST: Final = statement(
    "memory.adjust_relation",
    f"""
    {_LOCK}
    CALL (locked) {{
      MATCH (a:Entity {{tenant: $tenant, id: $source}}) WHERE a.layer IN $layers
      MATCH (b:Entity {{tenant: $tenant, layer: a.layer, id: $target}})
      WITH DISTINCT a, b
      MATCH (a)-[r]->(b) WHERE type(r) = $relation
      RETURN collect({{{_COPY}}}) AS before
    }}
    CALL (locked) {{
      MATCH (n:Entity {{tenant: $tenant}}) WHERE n.layer IN $layers AND n.id IN $ids AND n.subtype = 'rule'
      RETURN count(n) > 0 AS rule
    }}
    CALL (before, rule) {{
      MATCH (a:Entity {{tenant: $tenant, id: $source}}) WHERE a.layer IN $writable
      MATCH (b:Entity {{tenant: $tenant, layer: a.layer, id: $target}})
      WITH DISTINCT a, b, rule
      MATCH (a)-[r]->(b) WHERE type(r) = $relation
      {OF_RELATION}
      WITH r, rule, CASE WHEN days < 1 THEN since ELSE since + 86400 * days END AS since,
        coalesce(CASE WHEN rule THEN held ELSE value END, held, 0.5) AS was
      WITH r, rule, since, was, round(was + $change, 10) AS weight
      WITH r, rule, since, was, CASE WHEN weight > 1.0 THEN 1.0 WHEN weight < 0.0 THEN 0.0 ELSE weight END AS weight
      SET r.weight = weight
      SET r.decay_state = CASE WHEN $confirms THEN null WHEN rule OR since IS NULL THEN r.decay_state
        ELSE [weight, since, 0.0, weight] END
      SET r.last_confirmed = CASE WHEN $confirms THEN $now ELSE r.last_confirmed END
      RETURN collect({{layer: r.layer, was: was, weight: weight}}) AS after
    }}
    RETURN before, after
    """,
    writes=True,
    touches=("ids",),
)

RESOLVE: Final = statement(
    "memory.resolve_contradiction",
    f"""
    {_LOCK}
    CALL (locked) {{
      MATCH (a:Entity {{tenant: $tenant}})-[r:CONTRADICTS]->(b:Entity {{tenant: $tenant}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND b.layer IN $layers AND a.id IN $ids AND b.id IN $ids
      RETURN collect({{{_COPY}}}) AS before
    }}
    CALL (before) {{
      MATCH (a:Entity {{tenant: $tenant}})-[r:CONTRADICTS]->(b:Entity {{tenant: $tenant}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id)
      WHERE a.layer IN $writable AND b.layer IN $writable AND a.id IN $ids AND b.id IN $ids
      SET r.resolved = true
      SET r.resolution = $resolution
      RETURN collect(r.layer) AS changed
    }}
    CALL (changed) {{
      MATCH (n:Entity {{tenant: $tenant}}) WHERE n.layer IN $layers AND n.id IN $ids
      RETURN collect({{{_SIDE}}}) AS sides
    }}
    RETURN before, changed, sides
    """,
    writes=True,
    touches=("ids",),
)

# What goes out from the entities of each range and may contradict, on the merged view: contradictions, each open while
# a current copy is, and relations that have several current values. (Callers look only at those that have one at a
# time.) Of each range how many ends there are, and which unless they are more than $most.
_OPEN: Final[LiteralString] = "max(CASE WHEN toBooleanOrNull(r.resolved) THEN 0 ELSE 1 END) AS open"
_DETECTED: Final[LiteralString] = "left(toString(coalesce(r.detected_date, r.ingested_at)), 64)"
HELD: Final = statement(
    "memory.list_contradicting",
    f"""
    UNWIND $ranges AS part
    CALL (part) {{
      MATCH (a:Entity {{tenant: $tenant}}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id >= part.start AND a.id < part.end
      MATCH (a)-[r]->(b:Entity {{tenant: $tenant}})
      WHERE b.layer IN $layers AND r.invalid_at IS NULL AND type(r) IN $verbs
      WITH a.id AS source, type(r) AS relation, b.id AS target, {_OPEN},
        max(CASE WHEN type(r) = 'CONTRADICTS' THEN {_DETECTED} END) AS detected
      WITH source, relation, collect([target, open, coalesce(detected, '')]) AS ends
      WHERE relation = 'CONTRADICTS' OR size(ends) > 1
      RETURN collect([relation, source, ends]) AS held, sum(size(ends)) AS many
    }}
    RETURN part.place AS place, many, CASE WHEN many > $most THEN [] ELSE held END AS held
    """,
)

# The same chosen and cut by the database, where there is much of it. What has several values is a candidate unless all
# of their pairs are recorded. Lists of all values at a time would take more memory than one call may use.
_VALUES: Final[LiteralString] = """
        MATCH (x:Entity {tenant: $tenant, id: source})-[r]->(y:Entity {tenant: $tenant})
        USING INDEX x:Entity(tenant, layer, id)
        WHERE x.layer IN $layers AND y.layer IN $layers AND r.invalid_at IS NULL AND type(r) = relation"""
HELD_IN_ALL: Final = statement(
    "memory.list_contradictions",
    f"""
    CALL {{
      MATCH (a:Entity {{tenant: $tenant}}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id IS NOT NULL
      MATCH (a)-[r]->(b:Entity {{tenant: $tenant}})
      WHERE b.layer IN $layers AND r.invalid_at IS NULL AND type(r) = 'CONTRADICTS'
      WITH a.id AS source, b.id AS target, {_OPEN}, coalesce(max({_DETECTED}), '') AS detected
      ORDER BY detected DESC, source, target
      RETURN count(*) AS recorded,
        collect(CASE WHEN open = 1 OR $include_resolved THEN [detected, source, target] END) AS places
    }}
    WITH recorded, size(places) AS count, [p IN places WHERE $after IS NULL OR p[0] < $after[0] OR (p[0] = $after[0]
        AND (p[1] > $after[1] OR (p[1] = $after[1] AND p[2] > $after[2])))][..$limit] AS places
    CALL (recorded) {{
      MATCH (a:Entity {{tenant: $tenant}}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id IS NOT NULL
      MATCH (a)-[r]->(b:Entity {{tenant: $tenant}})
      WHERE b.layer IN $layers AND r.invalid_at IS NULL AND type(r) IN $verbs AND type(r) <> 'CONTRADICTS'
      WITH recorded, a.id AS source, type(r) AS relation, min(b.id) AS one, max(b.id) AS other
      WHERE one <> other
      CALL (source, relation, recorded) {{{_VALUES} AND recorded > 0
        WITH collect(DISTINCT y.id) AS targets
        RETURN targets, size(targets) * (size(targets) - 1) / 2 AS pairs
      }}
      CALL (targets, pairs, recorded) {{
        UNWIND CASE WHEN pairs > recorded THEN [] ELSE targets END AS id
        MATCH (x:Entity {{tenant: $tenant, id: id}})-[c:CONTRADICTS]-(y:Entity {{tenant: $tenant}})
        USING INDEX x:Entity(tenant, layer, id)
        WHERE x.layer IN $layers AND y.layer IN $layers AND c.invalid_at IS NULL AND y.id > id AND y.id IN targets
        WITH DISTINCT id, y.id AS contradicted
        RETURN count(*) AS said
      }}
      WITH source, relation, recorded, said, pairs WHERE recorded = 0 OR said < pairs
      WITH source, relation ORDER BY source, relation
      WITH collect([source, relation]) AS every
      RETURN size(every) AS candidate_count, every[..$most] AS first
    }}
    CALL (first) {{
      UNWIND first AS f
      WITH f[0] AS source, f[1] AS relation
      CALL (source, relation) {{{_VALUES}
        WITH DISTINCT y.id AS target ORDER BY target
        RETURN collect(target) AS targets
      }}
      WITH source, relation, targets ORDER BY source, relation
      RETURN collect([source, relation, targets[..$width], size(targets)]) AS candidates
    }}
    RETURN count, places, candidate_count, candidates
    """,
)

# The contradictions of a page, current values of candidates, and every entity at an end of them.
SHOWN: Final = statement(
    "memory.read_contradicting",
    f"""
    CALL {{
      UNWIND $pairs AS p
      MATCH (a:Entity {{tenant: $tenant, id: p.source}})-[r:CONTRADICTS]->(b:Entity {{tenant: $tenant, id: p.target}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND b.layer IN $layers
      WITH p, collect({{{_COPY}}}) AS copies
      RETURN collect(copies) AS page
    }}
    CALL {{
      UNWIND $doubled AS d
      WITH d.source AS source, d.relation AS relation, d.targets AS targets
      MATCH (a:Entity {{tenant: $tenant, id: source}})-[r]->(b:Entity {{tenant: $tenant}})
      WHERE a.layer IN $layers AND b.layer IN $layers AND r.invalid_at IS NULL AND type(r) = relation
        AND b.id IN targets
      WITH source, relation, collect({{{_COPY}}}) AS copies
      RETURN collect(copies) AS doubled
    }}
    CALL (page, doubled) {{
      UNWIND reduce(ends = [], copies IN page + doubled | ends + [c IN copies | c.source] + [c IN copies | c.target])
        AS id
      WITH DISTINCT id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
      WITH id, collect({{{_SIDE}}}) AS copies
      RETURN collect({{id: id, copies: copies}}) AS nodes
    }}
    RETURN page, doubled, nodes
    """,
)

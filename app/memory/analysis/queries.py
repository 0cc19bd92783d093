"""Statements of the tools that look at the memory as a whole.

Each reads merged records: copies are grouped by id, relations by (from, type, to), before anything is counted. Rows
come as one collected list, since the driver takes ten times as long for as many records.
"""

from __future__ import annotations

from typing import Final, LiteralString

from app.store.statement import statement

__all__ = [
    "COMPARABLE",
    "COUNT_STALE",
    "DEGREES",
    "EDGES",
    "EXAMPLE_QUERY",
    "HUBS",
    "JUDGED",
    "MEMBERS",
    "NAMED",
    "NAMED_IN_ONE_LAYER",
    "NAMED_OF_TYPE",
    "NEAR_EACH",
    "NEIGHBOURS",
    "NEIGHBOUR_DEGREES",
    "PAIRED",
    "RECENT",
    "RECENT_IN_ONE_LAYER",
    "REWRITE_VECTORS",
    "SCOPED",
    "STALE",
    "TYPED_ENDS",
    "VECTORS",
]

EXAMPLE_QUERY: Final = "MATCH (n:Entity {tenant: $tenant}) RETURN n.type AS type, count(*) AS many"
"""What an operator may ask; shown to callers, never run."""

# A page of merged entities by id, with what the checks of names and of single entities need. `min` of [layer, …] is the
# copy that names it (partition rule 4).
JUDGED: Final = statement(
    "memory.read_judged",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id > $after
      WITH DISTINCT n.id AS id ORDER BY id LIMIT $limit
      RETURN collect(id) AS ids
    }
    UNWIND ids AS id
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
    WITH id, min([n.layer, n.name, n.type]) AS first, collect(DISTINCT n.type) AS types, max(n.confidence) AS most,
      min(n.confidence) AS least, sum(n.times_mentioned) AS mentioned, max(coalesce(n.subtype, '')) AS subtype,
      max(CASE WHEN EXISTS { MATCH (n)-[]-(m:Entity {tenant: $tenant}) WHERE m.layer IN $layers } THEN 1 ELSE 0 END)
        AS related,
      max(CASE WHEN $thread IS NULL THEN 1 WHEN EXISTS { MATCH (n)-[r]-(m:Entity {tenant: $tenant})
        WHERE m.layer IN $layers AND r.source_session = $thread } THEN 1 ELSE 0 END) AS told
    WITH id, first, types, most, least, mentioned, subtype, related, told ORDER BY id
    RETURN collect([id, first[1], first[2], types, most, least, mentioned, subtype, related, told]) AS rows
    """,
)

# Current relations whose ends should be of certain types, with the merged types of both.
TYPED_ENDS: Final = statement(
    "memory.read_typed_ends",
    """
    MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
    WHERE a.layer IN $layers AND a.id IS NOT NULL
    MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND type(r) IN $types AND r.invalid_at IS NULL
    WITH DISTINCT a.id AS source, type(r) AS relation, b.id AS target
    CALL (source) {
      MATCH (n:Entity {tenant: $tenant, id: source}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name, n.type]) AS one
    }
    CALL (target) {
      MATCH (n:Entity {tenant: $tenant, id: target}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name, n.type]) AS two
    }
    WITH source, relation, target, one, two
    WHERE any(rule IN $rules WHERE rule[0] = relation
      AND ((size(rule[1]) > 0 AND NOT one[2] IN rule[1]) OR (size(rule[2]) > 0 AND NOT two[2] IN rule[2])))
    ORDER BY source, relation, target LIMIT $most
    RETURN collect([source, one[1], one[2], relation, target, two[1], two[2]]) AS rows
    """,
)


def _recent(first_seen: LiteralString) -> LiteralString:
    """What is new and which rules stand; ``first_seen`` finds every merged entity's ``id`` and ``first_seen``."""
    return f"""
    CALL {{
      MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, last_seen)
      WHERE n.layer IN $layers AND n.last_seen >= $since
      {first_seen}
      ORDER BY first_seen DESC, id
      WITH collect([id, first_seen]) AS found
      RETURN size(found) AS entities, found[..$limit] AS newest
    }}
    CALL (newest) {{
      UNWIND newest AS new
      WITH new[0] AS id, new[1] AS first_seen
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
      WITH id, first_seen, min([n.layer, n.name, n.type]) AS first, max(n.confidence) AS confidence
      ORDER BY first_seen DESC, id
      RETURN collect([id, first[1], first[2], toString(first_seen), confidence]) AS recent
    }}
    CALL {{
      MATCH (n:Entity {{tenant: $tenant, type: 'Preference'}}) WHERE n.layer IN $layers AND n.subtype = 'rule'
      WITH DISTINCT n.id AS id ORDER BY id LIMIT $most
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
      WITH id, min([n.layer, n.name, n.type]) AS first,
        max(coalesce(toStringOrNull(n.value), toStringOrNull(n.content), toStringOrNull(n.description))) AS text
      ORDER BY id
      RETURN collect([id, first[1], text]) AS rules
    }}
    RETURN entities, recent, rules
    """


RECENT: Final = statement(
    "memory.read_recent",
    _recent(
        """WITH DISTINCT n.id AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      WITH id, min(n.first_seen) AS first_seen WHERE first_seen >= $since"""
    ),
)

# In one layer every entity has one copy.
RECENT_IN_ONE_LAYER: Final = statement(
    "memory.read_recent_in_one_layer",
    _recent("AND n.first_seen >= $since WITH n.id AS id, n.first_seen AS first_seen"),
)

_JOINED: Final = """
      MATCH (a:Entity {tenant: $tenant})-[r]->(b:Entity {tenant: $tenant})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id) USING JOIN ON b
      WHERE a.layer IN $layers AND a.id IS NOT NULL AND b.layer IN $layers AND b.id IS NOT NULL
"""
"""Every relation once. Both ends come from an index with their ids: nothing of them is read."""

# Of each range the $each entities with the most relations in all, which the engine keeps with them, and how many the
# next has: `bound` is what any that is not told may have at most.
DEGREES: Final = statement(
    "memory.list_degrees",
    """
    UNWIND $ranges AS part
    CALL (part) {
      MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $layers AND n.id >= part.start AND n.id < part.end
      WITH n.id AS id, sum(COUNT { (n)--() }) AS most WHERE most >= 3 AND id IS NOT NULL
      ORDER BY most DESC, id LIMIT $each + 1
      WITH collect([id, most]) AS degrees
      RETURN degrees[..$each] AS degrees, coalesce(degrees[$each][1], 0) AS bound
    }
    RETURN part.place AS place, degrees, bound
    """,
)

# Those of the entities $ids that have the most strong current relations.
HUBS: Final = statement(
    "memory.read_hubs",
    """
    CALL {
      UNWIND $ids AS id
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      MATCH (n)-[r]-(m:Entity {tenant: $tenant})
      WHERE m.layer IN $layers AND r.invalid_at IS NULL AND coalesce(r.weight, 0.5) > $min_weight
      WITH id, count(DISTINCT [type(r), m.id, startNode(r) = n]) AS degree WHERE degree >= 3
      ORDER BY degree DESC, id LIMIT $limit
      RETURN collect([id, degree]) AS ranked
    }
    CALL (ranked) {
      UNWIND ranked AS hub
      WITH hub[0] AS id, hub[1] AS degree
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      WITH id, degree, min([n.layer, n.name, n.type]) AS first, max(n.confidence) AS confidence
      ORDER BY degree DESC, id
      RETURN collect({id: id, name: first[1], type: first[2], degree: degree, confidence: confidence}) AS hubs
    }
    RETURN hubs
    """,
)

# Undirected and without loops: what lies between two entities is one link whose weight is the sum over its relations.
EDGES: Final = statement(
    "memory.read_links",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      RETURN count(DISTINCT n.id) AS everything
    }
    CALL {
    """
    + _JOINED
    + """
        AND r.invalid_at IS NULL
      WITH a.id AS f, type(r) AS t, b.id AS g, max(coalesce(r.weight, 0.5)) AS weight
      WHERE weight > $min_weight AND f <> g
      WITH CASE WHEN f < g THEN f ELSE g END AS one, CASE WHEN f < g THEN g ELSE f END AS two, sum(weight) AS weight
      ORDER BY weight DESC, one, two LIMIT $most
      RETURN collect([one, two, weight]) AS links
    }
    RETURN everything, links
    """,
)

MEMBERS: Final = statement(
    "memory.read_members",
    """
    UNWIND $ids AS id
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
    WITH id, min([n.layer, n.name, n.type]) AS first
    RETURN collect([id, first[1], first[2]]) AS rows
    """,
)

# Whether there are more than $few vectors that may be compared: up to then the caller compares each with each.
COMPARABLE: Final = statement(
    "memory.count_comparable",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, type)
    WHERE n.layer IN $layers AND n.type IS NOT NULL AND ($type IS NULL OR n.type = $type) AND n.embedding_of = $recipe
    WITH n LIMIT $few + 1
    RETURN count(n) AS held
    """,
)

# Of a type or of all, who is looked at; $after goes on behind an id.
SCOPED: Final = statement(
    "memory.list_scoped",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
    WHERE n.layer IN $layers AND n.id > $after AND ($type IS NULL OR n.type = $type)
    WITH DISTINCT n.id AS id ORDER BY id LIMIT $limit
    RETURN collect(id) AS seeds
    """,
)

# A vector takes a sixth of the time and room of a list of its numbers.
VECTORS: Final = statement(
    "memory.read_vectors",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, type)
    WHERE n.layer IN $layers AND n.type IS NOT NULL AND n.embedding_of = $recipe
      AND ($type IS NULL OR n.type = $type)
    WITH n ORDER BY n.id, n.layer LIMIT $few
    RETURN collect([n.id, n.type, vector(n.embedding, size(n.embedding), FLOAT32)]) AS rows
    """,
)

NEAR_EACH: Final = statement(
    "memory.find_near_each",
    """
    UNWIND $ids AS id
    CALL (id) {
      MATCH (s:Entity {tenant: $tenant, id: id}) WHERE s.layer IN $layers AND s.embedding_of = $recipe
      WITH s.type AS type, s.embedding AS own
      CALL (type, own) {
        MATCH (n:Entity)
          SEARCH n IN (VECTOR INDEX entity_embedding FOR own
                       WHERE n.tenant = $tenant AND n.layer IN $layers AND n.type = type LIMIT $nearest) SCORE AS near
        WITH n, near WHERE n.embedding_of = $recipe
        RETURN n.id AS other, near
      }
      WITH id, other, max(near) AS near WHERE other <> id AND near >= $least
      ORDER BY near DESC, other LIMIT $width
      RETURN collect([other, near]) AS found
    }
    RETURN id, found
    """,
)

NAMED: Final = statement(
    "memory.read_named",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
    WHERE n.layer IN $layers AND n.id IS NOT NULL
    WITH n.id AS id, min([n.layer, n.name, n.type]) AS first, collect(coalesce(n.aliases, [])) AS aliases
    WITH id, first, aliases ORDER BY id LIMIT $most
    RETURN collect([id, first[1], first[2], reduce(all = [], some IN aliases | all + some)]) AS rows
    """,
)

# The same of one type: what has a copy of that type, if it is of that type once its copies are merged.
NAMED_OF_TYPE: Final = statement(
    "memory.read_named_of_type",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, type)
      WHERE n.layer IN $layers AND n.type = $type
      RETURN DISTINCT n.id AS id
    }
    MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
    WITH id, min([n.layer, n.name, n.type]) AS first, collect(coalesce(n.aliases, [])) AS aliases
    WHERE first[2] = $type
    WITH id, first, aliases ORDER BY id LIMIT $most
    RETURN collect([id, first[1], first[2], reduce(all = [], some IN aliases | all + some)]) AS rows
    """,
)

# In one layer every entity has one copy.
NAMED_IN_ONE_LAYER: Final = statement(
    "memory.read_named_in_one_layer",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, type)
    WHERE n.layer IN $layers AND n.type = $type
    WITH n ORDER BY n.id LIMIT $most
    RETURN collect([n.id, n.name, n.type, coalesce(n.aliases, [])]) AS rows
    """,
)

PAIRED: Final = statement(
    "memory.compare_pairs",
    """
    UNWIND $pairs AS pair
    MATCH (a:Entity {tenant: $tenant, id: pair.source}) WHERE a.layer IN $layers AND a.embedding_of = $recipe
    MATCH (b:Entity {tenant: $tenant, id: pair.target}) WHERE b.layer IN $layers AND b.embedding_of = $recipe
    WITH pair.source AS one, pair.target AS two, max(vector.similarity.cosine(a.embedding, b.embedding)) AS near
    RETURN collect([one, two, near]) AS rows
    """,
)

NEIGHBOURS: Final = statement(
    "memory.read_neighbours",
    """
    UNWIND $ids AS id
    MATCH (a:Entity {tenant: $tenant, id: id}) WHERE a.layer IN $layers
    MATCH (a)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND r.invalid_at IS NULL
    WITH DISTINCT id, b.id AS other, type(r) AS relation
    ORDER BY id, other, relation
    WITH id, collect([other, relation]) AS beside
    RETURN collect([id, beside[..$most]]) AS sets
    """,
)

NEIGHBOUR_DEGREES: Final = statement(
    "memory.count_neighbours",
    """
    UNWIND $ids AS id
    MATCH (a:Entity {tenant: $tenant, id: id}) WHERE a.layer IN $layers
    MATCH (a)-[r]-(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers AND r.invalid_at IS NULL
    WITH id, count(DISTINCT [startNode(r).id, type(r), endNode(r).id]) AS degree
    RETURN collect([id, degree]) AS degrees
    """,
)

COUNT_STALE: Final = statement(
    "memory.count_stale",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $writable AND n.id IS NOT NULL
    WITH n.id AS id, max(CASE WHEN n.embedding IS NULL OR coalesce(n.embedding_of, '') <> $recipe THEN 1 ELSE 0 END)
      AS stale,
      max(CASE WHEN n.id > $after[0] OR (n.id = $after[0] AND n.layer > $after[1]) THEN 1 ELSE 0 END) AS ahead
    RETURN count(*) AS total, coalesce(sum(stale), 0) AS stale, coalesce(sum(ahead), 0) AS ahead
    """,
)

STALE: Final = statement(
    "memory.list_stale",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
    WHERE n.layer IN $writable AND n.id >= $after[0] AND (n.id > $after[0] OR n.layer > $after[1])
      AND ($force OR n.embedding IS NULL OR coalesce(n.embedding_of, '') <> $recipe)
    WITH n ORDER BY n.id, n.layer LIMIT $limit
    RETURN n.layer AS layer, toString(n.last_seen) AS seen, [k IN keys(n)
      WHERE NOT k IN ['tenant', 'layer', 'partition', 'embedding', 'names', 'words']
        | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]] AS properties
    """,
)

# Somebody may have written to an entity since its text was read; then its vector is newer than ours and stays.
REWRITE_VECTORS: Final = statement(
    "memory.rewrite_vectors",
    """
    UNWIND $vectors AS row
    MATCH (n:Entity {tenant: $tenant, id: row.id}) WHERE n.layer IN $writable AND n.layer = row.layer
    REMOVE n.target
    WITH n, row WHERE coalesce(toString(n.last_seen), '') = coalesce(row.seen, '')
    SET n.embedding = row.embedding, n.embedding_of = $recipe
    RETURN collect(row.place) AS done
    """,
    writes=True,
    touches=("vectors.id",),
)

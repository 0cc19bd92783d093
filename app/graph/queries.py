"""The graph room's statements. What a caller writes reaches them as tokens and parameters only."""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["DETAILS", "NAMES", "NEAREST", "OUTLINES", "TEXT", "WHOLE_SET"]

WHOLE_SET: Final = 2_000
"""Records up to which a term's whole match set is fetched (partition rule 20)."""

# Each term's match set among the readable partitions, whole up to $whole records; if every term is more frequent, the
# records that hold them all. Lucene's score orders nothing: above $whole it only says where its own cut falls.
TEXT = statement(
    "graph.find_by_text",
    """
    WITH reduce(list = '', p IN $partitions | list + ' ' + p) AS mine
    CALL (mine) {
      UNWIND $terms AS term
      CALL (mine, term) {
        CALL db.index.fulltext.queryNodes('entity_text', '+partition:(' + mine + ') +words:' + term,
                                          {limit: $whole + 1}) YIELD node AS n
        WHERE n.tenant = $tenant AND n.layer IN $layers
        RETURN count(*) AS copies, collect(DISTINCT CASE WHEN $types = [] OR n.type IN $types THEN n.id END) AS ids
      }
      RETURN collect({term: term, frequent: copies > $whole,
                      ids: CASE WHEN copies > $whole THEN [] ELSE ids END}) AS sets
    }
    CALL (mine, sets) {
      WITH mine, sets WHERE size(sets) > 0 AND all(s IN sets WHERE s.frequent)
      CALL db.index.fulltext.queryNodes('entity_text',
             '+partition:(' + mine + ')' + reduce(list = '', s IN sets | list + ' +words:' + s.term),
             {limit: $whole}) YIELD node AS n
      WHERE n.tenant = $tenant AND n.layer IN $layers AND ($types = [] OR n.type IN $types)
      RETURN collect(DISTINCT n.id) AS together
    }
    CALL () {
      MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers AND n.id IN $grams
      RETURN collect(DISTINCT n.id) AS direct
    }
    CALL () {
      MATCH (a:Alias) WHERE a.tenant = $tenant AND a.layer IN $layers AND a.id IN $grams
      RETURN collect(DISTINCT a.target) AS aliased
    }
    RETURN sets, together, direct, aliased
    """,
)

# The nearest vectors: all of them where the readable partitions hold at most $few, else the index's first $nearest.
# The hint matters: while the database is small, the planner would rather read every tenant's entities.
NEAREST = statement(
    "graph.find_nearest",
    """
    CALL () {
      MATCH (n:Entity) USING INDEX n:Entity(tenant, layer, type)
      WHERE n.tenant = $tenant AND n.layer IN $layers AND n.type IS NOT NULL AND n.embedding_of = $recipe
      WITH n LIMIT $few + 1
      RETURN collect(n) AS held
    }
    CALL (held) {
      WITH held WHERE size(held) <= $few
      UNWIND held AS n
      WITH n WHERE $types = [] OR n.type IN $types
      RETURN n.id AS id, vector.similarity.cosine(n.embedding, $vector) AS similarity
      UNION ALL
      WITH held WHERE size(held) > $few AND $types = []
      MATCH (n:Entity)
        SEARCH n IN (VECTOR INDEX entity_embedding FOR $vector
                     WHERE n.tenant = $tenant AND n.layer IN $layers LIMIT $nearest) SCORE AS near
      WITH n, near WHERE n.embedding_of = $recipe
      RETURN n.id AS id, near AS similarity
      UNION ALL
      WITH held WHERE size(held) > $few AND $types <> []
      MATCH (n:Entity)
        SEARCH n IN (VECTOR INDEX entity_embedding FOR $vector
                     WHERE n.tenant = $tenant AND n.layer IN $layers AND n.type IN $types LIMIT $nearest) SCORE AS near
      WITH n, near WHERE n.embedding_of = $recipe
      RETURN n.id AS id, near AS similarity
    }
    WITH size(held) <= $few AS exact, id, max(similarity) AS similarity
    RETURN exact, collect([id, similarity]) AS vectors
    """,
)

# What candidates hold, and what stands beside them in their conversation. $vector null: no similarities.
DETAILS = statement(
    "graph.read_candidates",
    """
    CALL () {
      MATCH (c:Entity) WHERE c.tenant = $tenant AND c.layer IN $layers AND c.id IN $ids AND c.thread IS NOT NULL
      MATCH (m:Entity) WHERE m.tenant = $tenant AND m.layer IN $layers AND m.thread = c.thread
        AND m.position IN [c.position - 2, c.position - 1, c.position + 1, c.position + 2]
        AND ($types = [] OR m.type IN $types)
      RETURN collect(DISTINCT m.id) AS beside
    }
    MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers AND n.id IN $ids + beside
    CALL (n) {
      MATCH (m:Entity) WHERE m.tenant = $tenant AND m.layer IN $layers AND m.id IN $named AND m.layer = n.layer
        AND EXISTS { (n)-[r]-(m) WHERE r.invalid_at IS NULL }
      RETURN collect(DISTINCT m.id) AS linked
    }
    RETURN n.layer AS layer, n.thread AS thread, n.position AS position, linked,
           [t IN $frequent WHERE (' ' + n.words + ' ') CONTAINS (' ' + t + ' ')] AS holds,
           CASE WHEN $vector IS NOT NULL AND n.embedding_of = $recipe
             THEN vector.similarity.cosine(n.embedding, $vector) END AS similarity,
           [k IN keys(n) WHERE NOT k IN ['tenant', 'layer', 'partition', 'names', 'words', 'thread', 'position',
             'evidence_text', 'embedding', 'embedding_of'] | [k, n[k]]] AS properties
    """,
)

# What puts candidates in order where nothing else of them is asked for: hundreds, of which a page is shown.
OUTLINES = statement(
    "graph.outline_candidates",
    """
    MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers AND n.id IN $ids
    RETURN collect([n.layer, n.id, n.name, n.type, n.confidence, toString(n.first_seen), toString(n.last_seen),
      [t IN $frequent WHERE (' ' + n.words + ' ') CONTAINS (' ' + t + ' ')]]) AS copies
    """,
)

# Who a name may be: by id, by alias, and by the words of its names, each at most so many edits away.
NAMES = statement(
    "graph.find_names",
    """
    WITH reduce(list = '', p IN $partitions | list + ' ' + p) AS mine
    UNWIND range(0, size($asked) - 1) AS place
    WITH mine, place, $asked[place] AS name
    CALL (name) {
      MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers AND n.id = name.id
      RETURN collect({id: n.id, layer: n.layer, name: n.name, type: n.type}) AS exact
    }
    CALL (name) {
      MATCH (a:Alias) WHERE a.tenant = $tenant AND a.layer IN $layers AND a.id = name.id
      MATCH (n:Entity) WHERE n.tenant = $tenant AND n.layer IN $layers AND n.id = a.target
      RETURN collect({id: n.id, layer: n.layer, name: n.name, type: n.type}) AS aliased
    }
    CALL (mine, name, exact, aliased) {
      WITH mine, name WHERE size(exact) = 0 AND size(aliased) = 0 AND name.fuzzy <> ''
      CALL db.index.fulltext.queryNodes('entity_text', '+partition:(' + mine + ') ' + name.fuzzy, {limit: $near})
        YIELD node AS n
      WHERE n.tenant = $tenant AND n.layer IN $layers
      RETURN collect({id: n.id, layer: n.layer, name: n.name, type: n.type, aliases: n.aliases, names: n.names}) AS near
    }
    RETURN place, exact, aliased, near
    ORDER BY place
    """,
)

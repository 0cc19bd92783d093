"""The statements that count a whole memory: what graph_stats tells, and what a quota is held against."""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["BOUNDS", "COUNT_ENTITIES", "COUNT_RELATIONS", "STATS", "STATS_OF_ONE_LAYER"]

# Where ranges of ids begin: $parts of them, or fewer if each would hold less than $fewest entities.
BOUNDS: Final = statement(
    "memory.divide_ids",
    """
    MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
    WHERE n.layer IN $layers AND n.id IS NOT NULL
    WITH n.id AS id ORDER BY id
    WITH collect(id) AS ids
    WITH ids, toInteger(ceil(1.0 * size(ids) / $parts)) AS many
    WITH ids, CASE WHEN many < $fewest THEN $fewest ELSE many END AS many
    RETURN [at IN range(many, size(ids), many) WHERE at < size(ids) | ids[at]] AS bounds
    """,
)

# Of each range the entities whose ids lie in it and the relations that go out from them. Whether an entity is related
# to anything is asked of the engine's own count of its relations, which it keeps with it: looking for a neighbour takes
# ten times as long. That is right while entities alone are linked; see app.store.checker. What another call is deleting
# may still be found, without properties: it has no type.
STATS: Final = statement(
    "memory.read_stats",
    """
    UNWIND $ranges AS part
    CALL (part) {
      MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $layers AND n.id >= part.start AND n.id < part.end
      WITH n.id AS id, min([n.layer, n.type]) AS first, max(n.confidence) AS confidence, max(n.last_seen) AS last_seen,
        max(CASE WHEN COUNT { (n)--() } > 0 THEN 1 ELSE 0 END) AS related
      WITH first[1] AS type, count(*) AS entities, sum(1 - related) AS orphaned,
        count(CASE WHEN confidence < 0.2 AND last_seen < $unseen_since THEN 1 END) AS stale
      WHERE type IS NOT NULL
      RETURN collect([type, entities, orphaned, stale]) AS types
    }
    CALL (part) {
      MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id >= part.start AND a.id < part.end
      MATCH (a)-[r]->(b:Entity {tenant: $tenant}) WHERE b.layer IN $layers
      WITH a.id AS f, type(r) AS t, b.id AS g, min(r.ingested_at) AS at,
        max(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) END) AS weight,
        max(CASE WHEN type(r) = 'CONTRADICTS' AND r.invalid_at IS NULL
          AND NOT coalesce(toBooleanOrNull(r.resolved), false) THEN 1 ELSE 0 END) AS unresolved
      WITH t, count(weight) AS current, count(*) - count(weight) AS ended, sum(weight) AS weight,
        sum(unresolved) AS unresolved, count(CASE WHEN at >= $since THEN 1 END) AS fresh
      RETURN collect([t, current, ended, weight, unresolved, fresh]) AS relations
    }
    RETURN part.place AS place, types, relations
    """,
)

# In one layer every record has one copy: nothing is to be grouped.
STATS_OF_ONE_LAYER: Final = statement(
    "memory.read_stats_of_one_layer",
    """
    UNWIND $ranges AS part
    CALL (part) {
      MATCH (n:Entity {tenant: $tenant}) USING INDEX n:Entity(tenant, layer, id)
      WHERE n.layer IN $layers AND n.id >= part.start AND n.id < part.end
      WITH n.type AS type, count(*) AS entities, count(CASE WHEN COUNT { (n)--() } = 0 THEN 1 END) AS orphaned,
        count(CASE WHEN n.confidence < 0.2 AND n.last_seen < $unseen_since THEN 1 END) AS stale
      WHERE type IS NOT NULL
      RETURN collect([type, entities, orphaned, stale]) AS types
    }
    CALL (part) {
      MATCH (a:Entity {tenant: $tenant}) USING INDEX a:Entity(tenant, layer, id)
      WHERE a.layer IN $layers AND a.id >= part.start AND a.id < part.end
      MATCH (a)-[r]->(b:Entity {tenant: $tenant, layer: a.layer})
      WITH type(r) AS t, r
      WITH t, count(CASE WHEN r.invalid_at IS NULL THEN 1 END) AS current, count(*) AS every,
        sum(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) ELSE 0.0 END) AS weight,
        count(CASE WHEN t = 'CONTRADICTS' AND r.invalid_at IS NULL
          AND NOT coalesce(toBooleanOrNull(r.resolved), false) THEN 1 END) AS unresolved,
        count(CASE WHEN r.ingested_at >= $since THEN 1 END) AS fresh
      RETURN collect([t, current, every - current, weight, unresolved, fresh]) AS relations
    }
    RETURN part.place AS place, types, relations
    """,
)

COUNT_ENTITIES: Final = statement(
    "memory.count_entities",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
    WITH n.layer AS layer, n.type AS name, count(*) AS number WHERE name IS NOT NULL
    RETURN layer, name, number
    """,
)

COUNT_RELATIONS: Final = statement(
    "memory.count_relations",
    """
    MATCH (a:Entity {tenant: $tenant})-[r]->(b:Entity {tenant: $tenant})
    USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id) USING JOIN ON b
    WHERE a.layer IN $layers AND a.id IS NOT NULL AND b.layer IN $layers AND b.id IS NOT NULL
    RETURN a.layer AS layer, type(r) AS name, count(*) AS number
    """,
)

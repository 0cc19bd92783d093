"""The statements that count a whole memory: what graph_stats tells, and what a quota is held against."""

from __future__ import annotations

from typing import Final, LiteralString

from app.store.statement import statement

__all__ = [
    "COUNT_ENTITIES",
    "COUNT_RELATIONS",
    "STATS",
    "STATS_OF_ONE_LAYER",
    "STATS_OF_ONE_LAYER_SINCE",
    "STATS_SINCE",
]


# Whether an entity is related to anything is asked of the engine's own count of its relations, which it keeps with it:
# looking for a neighbour takes ten times as long. That is right while entities alone are linked; see app.store.checker.
def _merged(first: LiteralString, fresh: LiteralString) -> LiteralString:
    """Figures of several layers; ``first`` and ``fresh`` say which relations came lately, where that is asked."""
    return f"""
    CALL {{
      MATCH (n:Entity {{tenant: $tenant}}) WHERE n.layer IN $layers AND n.id IS NOT NULL
      WITH n.id AS id, min([n.layer, n.type]) AS first, max(n.confidence) AS confidence, max(n.last_seen) AS last_seen,
        max(CASE WHEN COUNT {{ (n)--() }} > 0 THEN 1 ELSE 0 END) AS related
      WITH first[1] AS type, count(*) AS entities, sum(1 - related) AS orphaned,
        count(CASE WHEN confidence < 0.2 AND last_seen < datetime() - duration('P90D') THEN 1 END) AS stale
      ORDER BY entities DESC, type
      RETURN collect({{type: type, entities: entities, orphaned: orphaned, stale: stale}}) AS types
    }}
    CALL {{
      MATCH (a:Entity {{tenant: $tenant}})-[r]->(b:Entity {{tenant: $tenant}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id) USING JOIN ON b
      WHERE a.layer IN $layers AND a.id IS NOT NULL AND b.layer IN $layers AND b.id IS NOT NULL
      WITH a.id AS f, type(r) AS t, b.id AS g{first},
        max(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) END) AS weight,
        max(CASE WHEN type(r) = 'CONTRADICTS' AND r.invalid_at IS NULL
          AND NOT coalesce(toBooleanOrNull(r.resolved), false) THEN 1 ELSE 0 END) AS unresolved
      WITH t, count(weight) AS current, count(*) - count(weight) AS ended, sum(weight) AS weight,
        sum(unresolved) AS unresolved, {fresh} AS fresh
      ORDER BY current DESC, t
      RETURN collect({{type: t, current: current, ended: ended, weight: weight, unresolved: unresolved}}) AS relations,
        sum(fresh) AS fresh
    }}
    RETURN types, reduce(some = 0, found IN types | some + found.stale) AS stale, relations, fresh
    """


# In one layer every record has one copy: nothing is to be grouped, and indexes alone give most of it. (That both ends
# come from the index and are joined spares reading three properties of the other end of each relation.)
def _of_one_layer(fresh: LiteralString) -> LiteralString:
    """The same of one layer."""
    return f"""
    CALL {{
      MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, layer, type)
      WHERE n.layer IN $layers AND n.type IS NOT NULL
      WITH n.type AS type, count(*) AS entities, count(CASE WHEN COUNT {{ (n)--() }} = 0 THEN 1 END) AS orphaned
      ORDER BY entities DESC, type
      RETURN collect({{type: type, entities: entities, orphaned: orphaned}}) AS types
    }}
    CALL {{
      MATCH (n:Entity {{tenant: $tenant}}) USING INDEX n:Entity(tenant, last_seen)
      WHERE n.layer IN $layers AND n.last_seen < datetime() - duration('P90D') AND n.confidence < 0.2
      RETURN count(*) AS stale
    }}
    CALL {{
      MATCH (a:Entity {{tenant: $tenant}})-[r]->(b:Entity {{tenant: $tenant}})
      USING INDEX a:Entity(tenant, layer, id) USING INDEX b:Entity(tenant, layer, id) USING JOIN ON b
      WHERE a.layer IN $layers AND a.id IS NOT NULL AND b.layer IN $layers AND b.id IS NOT NULL
      WITH r, type(r) AS t
      WITH t, count(CASE WHEN r.invalid_at IS NULL THEN 1 END) AS current, count(*) AS every,
        sum(CASE WHEN r.invalid_at IS NULL THEN coalesce(r.weight, 0.5) ELSE 0.0 END) AS weight,
        count(CASE WHEN t = 'CONTRADICTS' AND r.invalid_at IS NULL
          AND NOT coalesce(toBooleanOrNull(r.resolved), false) THEN 1 END) AS unresolved, {fresh} AS fresh
      ORDER BY current DESC, t
      RETURN collect({{type: t, current: current, ended: every - current, weight: weight, unresolved: unresolved}})
        AS relations, sum(fresh) AS fresh
    }}
    RETURN types, stale, relations, fresh
    """


STATS: Final = statement("memory.read_stats", _merged("", "0"))
STATS_OF_ONE_LAYER: Final = statement("memory.read_stats_of_one_layer", _of_one_layer("0"))

# The same, with how many relations were first told since a moment.
STATS_SINCE: Final = statement(
    "memory.read_stats_since",
    _merged(", min(r.ingested_at) AS at", "count(CASE WHEN at >= $since THEN 1 END)"),
)
STATS_OF_ONE_LAYER_SINCE: Final = statement(
    "memory.read_stats_of_one_layer_since", _of_one_layer("count(CASE WHEN r.ingested_at >= $since THEN 1 END)")
)

COUNT_ENTITIES: Final = statement(
    "memory.count_entities",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
    RETURN n.layer AS layer, n.type AS name, count(*) AS number
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

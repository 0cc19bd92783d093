"""Statements of graph_decay.

What a record holds after ``days`` whole days is ``base * rate ^ days``, at least the floor: a function of the time that
went by, however often it is computed. ``decay_state`` keeps what it is computed from: [base, moment from which the days
count (seconds since 1970), days counted so far, what the record then held]. It says of itself whether it still counts:
a record that was seen since starts anew from what it holds, and so does one that holds something else than was left
there, from the day up to which it had faded. Whatever adds to a weight or takes from it lets it fade first
(``OF_RELATION`` here, ``rest`` where it is decided in Python), so that nothing depends on when graph_decay ran; a
change that does not count as being seen (graph_weaken) loses and gains no day.

What is told is computed on the merged view and by the same terms; each copy fades by its own clock, so that what is
hidden from a reader never keeps what they see from fading. Where a call reads one layer, each copy is a merged record:
then one pass tells and writes (bringing copies together costs as much as all else).
"""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["FADE", "FADING", "FADING_MERGED", "IDS", "OF_RELATION"]

_DAY: Final = "86400"


def _value(name: str, held: str, clock: str, rate: str) -> str:
    """Clauses after which ``held`` is what the record ``name`` holds and ``value`` what it should hold.

    ``base``, ``since`` and ``days`` are what that was computed from.
    """
    return f"""
      WITH *, {name}.{held} AS held, {name}.decay_state AS s, toFloat({name}.{clock}.epochSeconds) AS clock
      WITH *, s IS NULL OR clock > s[1] AS anew
      WITH *, CASE WHEN anew OR held <> s[3] THEN held ELSE s[0] END AS base,
        CASE WHEN anew THEN clock WHEN held <> s[3] THEN s[1] + {_DAY} * s[2] ELSE s[1] END AS since
      WITH *, floor(($moment - since) / {_DAY}) AS days
      WITH *, base * {rate} ^ days AS rest
      WITH *, CASE WHEN days < 1 THEN held WHEN base <= $floor THEN base WHEN rest < $floor THEN $floor ELSE rest END
        AS value"""


_OF_ENTITY: Final = _value("n", "confidence", "last_seen", "coalesce($rates[n.type], $other_rate)")
OF_RELATION: Final = _value("r", "weight", "last_confirmed", "$edge_rate")
"""The same for the relation ``r``; whatever adds to its weight adds to ``value``."""

_CHANGED: Final = "value <> held"


def _entities(layers: str) -> str:
    return f"""
      UNWIND $ids AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN {layers} AND n.confidence IS NOT NULL"""


def _relations(layers: str) -> str:
    return f"""
      UNWIND $ids AS id
      MATCH (a:Entity {{tenant: $tenant, id: id}}) WHERE a.layer IN {layers} AND NOT id IN $exempt
      MATCH (a)-[r]->(b:Entity {{tenant: $tenant}}) WHERE b.layer IN {layers} AND NOT b.id IN $exempt
        AND r.weight IS NOT NULL"""


def _set(name: str, held: str) -> str:
    return f"""
      FOREACH (x IN CASE WHEN {_CHANGED} THEN [{name}] ELSE [] END |
        SET x.{held} = value SET x.decay_state = [base, since, days, value])"""


def _each(layers: str, *, writes: bool) -> str:
    """Copies as the records that they are: one pass that tells and, if it writes, sets."""
    return f"""
    CALL {{
      {_entities(layers)} AND NOT id IN $exempt
      {_OF_ENTITY}{_set("n", "confidence") if writes else ""}
      WITH id, n, held, value ORDER BY held - value DESC, id
      RETURN count(CASE WHEN {_CHANGED} THEN 1 END) AS entities,
        collect(CASE WHEN {_CHANGED} THEN [held - value, id, n.type, n.name, held, value] END)[..$limit] AS details,
        collect(CASE WHEN value < $node_threshold THEN id END) AS low
    }}
    CALL (low) {{
      {_relations(layers)}
      {OF_RELATION}{_set("r", "weight") if writes else ""}
      RETURN count(CASE WHEN {_CHANGED} THEN 1 END) AS relations,
        count(CASE WHEN value < $edge_threshold THEN 1 END) AS below
    }}
    {_FLAGGED}"""


_FLAGGED: Final = f"""
    CALL (low) {{
      UNWIND low AS id
      MATCH (n:Entity {{tenant: $tenant, id: id}}) WHERE n.layer IN $layers
      OPTIONAL MATCH (n)-[r]-(o:Entity {{tenant: $tenant}}) WHERE o.layer IN $layers
      {OF_RELATION}
      WITH id, max(CASE WHEN o.id IN $exempt THEN 1.0 WHEN r.layer IN $writable THEN value ELSE held END) AS strongest
      WHERE strongest IS NULL OR strongest < $edge_threshold
      RETURN count(id) AS flagged
    }}
    RETURN entities, details, relations, below, flagged
"""

IDS: Final = statement(
    "memory.list_fading",
    """
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $writable AND n.id > $from_id
      RETURN collect(DISTINCT n.id) AS ids
    }
    CALL {
      MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.subtype = 'rule'
      RETURN collect(DISTINCT n.id) AS exempt
    }
    RETURN ids, exempt
    """,
)

FADING: Final = statement("memory.read_fading", _each("$layers", writes=False))

FADE: Final = statement("memory.write_fading", _each("$writable", writes=True), writes=True)

FADING_MERGED: Final = statement(
    "memory.read_merged_fading",
    f"""
    CALL {{
      {_entities("$layers")}
      {_OF_ENTITY}
      WITH id, n, held, CASE WHEN n.layer IN $writable AND NOT id IN $exempt THEN value ELSE held END AS value
      WITH id, min([n.layer, n.type, n.name]) AS first, max(held) AS old, max(value) AS new,
        max(CASE WHEN {_CHANGED} THEN 1 ELSE 0 END) AS faded
      ORDER BY old - new DESC, id
      RETURN sum(faded) AS entities,
        collect(CASE WHEN faded = 1 THEN [old - new, id, first[1], first[2], old, new] END)[..$limit] AS details,
        collect(CASE WHEN new < $node_threshold AND NOT id IN $exempt THEN id END) AS low
    }}
    CALL (low) {{
      {_relations("$layers")}
      {OF_RELATION}
      WITH id, r, b, held, CASE WHEN r.layer IN $writable THEN value ELSE held END AS value
      WITH id, type(r) AS verb, b.id AS target, max(CASE WHEN {_CHANGED} THEN 1 ELSE 0 END) AS faded,
        coalesce(max(CASE WHEN r.invalid_at IS NULL THEN value END), max(value)) AS weight
      RETURN sum(faded) AS relations, count(CASE WHEN weight < $edge_threshold THEN 1 END) AS below
    }}
    {_FLAGGED}""",
)

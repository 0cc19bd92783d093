"""Statements that read a whole store, record by record, and write it into an empty one.

Records are found by their numbers in the store, a range at a time: no index holds all of them, and a scan would begin
anew with each page. ``_Schema`` is the new store's own.
"""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["COUNT", "LAST", "NODES", "RELATIONS", "WRITE_NODES", "WRITE_RELATIONS"]

LAST: Final = statement(
    "compacting.find_last",
    """
    CALL () { MATCH (n) RETURN coalesce(max(id(n)), -1) AS node }
    CALL () { MATCH ()-[r]->() RETURN coalesce(max(id(r)), -1) AS relation }
    RETURN node, relation
    """,
    control=True,
)
COUNT: Final = statement(
    "compacting.count_records",
    """
    CALL () { MATCH (n) WHERE NOT n:_Schema RETURN count(n) AS nodes }
    CALL () { MATCH ()-[r]->() RETURN count(r) AS relations }
    RETURN nodes, relations
    """,
    control=True,
)

# [key, value, kind] of each property; a kind but these two is the name of a type that nobody here writes.
NODES: Final = statement(
    "compacting.read_nodes",
    """
    UNWIND range($first, $last) AS at
    MATCH (n) WHERE id(n) = at AND NOT n:_Schema
    RETURN collect([at, labels(n), [k IN keys(n) |
      [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END,
       CASE WHEN n[k] IS :: ZONED DATETIME THEN 'moment'
            WHEN n[k] IS :: STRING | INTEGER | FLOAT | BOOLEAN | LIST<STRING | INTEGER | FLOAT | BOOLEAN> THEN 'plain'
            ELSE valueType(n[k]) END]]]) AS rows
    """,
    control=True,
)
RELATIONS: Final = statement(
    "compacting.read_relations",
    """
    UNWIND range($first, $last) AS at
    MATCH (a)-[r]->(b) WHERE id(r) = at
    RETURN collect([[id(a), id(b)], type(r), [k IN keys(r) |
      [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END,
       CASE WHEN r[k] IS :: ZONED DATETIME THEN 'moment'
            WHEN r[k] IS :: STRING | INTEGER | FLOAT | BOOLEAN | LIST<STRING | INTEGER | FLOAT | BOOLEAN> THEN 'plain'
            ELSE valueType(r[k]) END]]]) AS rows
    """,
    control=True,
)

WRITE_NODES: Final = statement(
    "compacting.write_nodes",
    """
    UNWIND $rows AS row
    CREATE (n)
    SET n = row.fields
    SET n:$(row.labels)
    FOREACH (m IN row.moments | SET n[m[0]] = datetime(m[1]))
    RETURN collect([row.at, id(n)]) AS made
    """,
    writes=True,
    control=True,
)
WRITE_RELATIONS: Final = statement(
    "compacting.write_relations",
    """
    UNWIND $rows AS row
    MATCH (a) WHERE id(a) = row.source
    MATCH (b) WHERE id(b) = row.target
    CREATE (a)-[r:$(row.type)]->(b)
    SET r = row.fields
    FOREACH (m IN row.moments | SET r[m[0]] = datetime(m[1]))
    RETURN count(*) AS written
    """,
    writes=True,
    control=True,
)

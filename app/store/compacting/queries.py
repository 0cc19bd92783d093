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

# [key, value, kind] of each property; a kind but these two is the name of a type that nobody here writes. A value of
# bytes counts as a list of integers.
_PROPERTIES: Final = """[k IN keys(x) |
      [k, CASE WHEN x[k] IS :: ZONED DATETIME THEN toString(x[k]) ELSE x[k] END,
       CASE WHEN x[k] IS :: ZONED DATETIME THEN 'moment'
            WHEN x[k] IS :: STRING | INTEGER | FLOAT | BOOLEAN | LIST<STRING | INTEGER | FLOAT | BOOLEAN> THEN 'plain'
            ELSE valueType(x[k]) END]]"""

# More characters, numbers and bytes than a record may have that is read together with others.
_HEAVY: Final = """reduce(sum = 0, k IN keys(x) | sum +
      CASE WHEN x[k] IS :: STRING | LIST<INTEGER | FLOAT | BOOLEAN> THEN size(x[k])
           WHEN x[k] IS :: LIST<STRING> THEN reduce(many = 0, each IN x[k] | many + size(each))
           ELSE 1 END) > $light"""

NODES: Final = statement(
    "compacting.read_nodes",
    f"""
    UNWIND range($first, $last) AS at
    MATCH (x) WHERE id(x) = at AND NOT x:_Schema
    WITH at, x, {_HEAVY} AS heavy
    RETURN collect(CASE WHEN heavy THEN at END) AS heavy,
      collect(CASE WHEN NOT heavy THEN [at, labels(x), {_PROPERTIES}] END) AS rows
    """,
    control=True,
)
RELATIONS: Final = statement(
    "compacting.read_relations",
    f"""
    UNWIND range($first, $last) AS at
    MATCH (a)-[x]->(b) WHERE id(x) = at
    WITH at, a, x, b, {_HEAVY} AS heavy
    RETURN collect(CASE WHEN heavy THEN at END) AS heavy,
      collect(CASE WHEN NOT heavy THEN [[id(a), id(b)], type(x), {_PROPERTIES}] END) AS rows
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

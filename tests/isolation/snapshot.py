"""Everything that the database holds outside some partitions, to the byte."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

import orjson

from app.store.database import Database

_RECORDS = """
CYPHER 25
MATCH (n) WHERE n.tenant IN $tenants AND NOT (n.tenant = $open
  AND CASE WHEN n:_Undo THEN all(layer IN n.layers WHERE layer IN $layers) ELSE n.layer IN $layers END)
RETURN 'node' AS kind, n.tenant AS tenant, coalesce(n.layer, '') AS layer,
       coalesce(n.id, n.subject + ' ' + n.key) AS id,
       labels(n) AS labels,
       [k IN keys(n) | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]] AS held
UNION ALL
MATCH (a)-[r]->(b) WHERE a.tenant IN $tenants AND NOT (a.tenant = $open AND a.layer IN $layers)
RETURN 'relation' AS kind, a.tenant AS tenant, a.layer AS layer, a.id + '>' + b.id AS id, [type(r)] AS labels,
       [k IN keys(r) | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END]] AS held
"""

_REST = """
CYPHER 25
MATCH (n) WHERE n.tenant IS NULL OR NOT n.tenant IN $tenants + $trail
RETURN labels(n) AS labels, n.tenant AS tenant, n.layer AS layer, count(*) AS many, sum(size(keys(n))) AS properties
"""


async def outside(database: Database, tenants: Collection[str], opened: str, layers: Collection[str]) -> dict[str, str]:
    """A digest of every record and relation of ``tenants`` but for ``layers`` of ``opened``; of all others, counts.

    Read past the sessions on purpose: what they could not see is the subject.
    """
    found: dict[str, str] = {}
    async with database.driver.session(database=database.name) as session:
        rows = await (await session.run(_RECORDS, tenants=list(tenants), open=opened, layers=list(layers))).data()
        for row in rows:
            held = orjson.dumps(sorted(row["held"], key=lambda pair: str(pair[0])), default=bytes.hex)
            name = "|".join([row["kind"], row["tenant"], str(row["layer"]), str(row["id"]), *sorted(row["labels"])])
            found[name] = hashlib.sha256(held).hexdigest()
        trail = [f"tn-{opened}"]  # its audit, which may grow
        for row in await (await session.run(_REST, tenants=list(tenants), trail=trail)).data():
            name = f"rest|{sorted(row['labels'])}|{row['tenant']}|{row['layer']}"
            found[name] = f"{row['many']} {row['properties']}"
    return found

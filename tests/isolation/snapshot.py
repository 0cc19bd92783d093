"""Everything that the database holds, to the byte, and what of it lies outside some partitions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import NamedTuple

import orjson

from app.store.database import Database

_RECORDS = """
CYPHER 25
MATCH (n) WHERE n.tenant IN $tenants
RETURN 'node' AS kind, n.tenant AS tenant, coalesce(n.layer, '') AS layer,
       CASE WHEN n:_Undo THEN n.layers ELSE [n.layer] END AS layers,
       coalesce(n.id, n.subject + ' ' + n.key) AS id,
       labels(n) AS labels,
       [k IN keys(n) | [k, CASE WHEN n[k] IS :: ZONED DATETIME THEN toString(n[k]) ELSE n[k] END]] AS held
UNION ALL
MATCH (a)-[r]->(b) WHERE a.tenant IN $tenants
RETURN 'relation' AS kind, a.tenant AS tenant, a.layer AS layer, [a.layer] AS layers,
       a.id + '>' + b.id AS id, [type(r)] AS labels,
       [k IN keys(r) | [k, CASE WHEN r[k] IS :: ZONED DATETIME THEN toString(r[k]) ELSE r[k] END]] AS held
"""

_REST = """
CYPHER 25
MATCH (n) WHERE n.tenant IS NULL OR NOT n.tenant IN $tenants
RETURN labels(n) AS labels, n.tenant AS tenant, n.layer AS layer, count(*) AS many, sum(size(keys(n))) AS properties
"""


class Held(NamedTuple):
    """One record or relation, or the number of those of a partition beside."""

    tenant: str | None
    layers: tuple[str | None, ...]
    """Where it lies. A record of what can be undone lies in each layer that undoing would change."""
    digest: str


async def everything(database: Database, tenants: Collection[str], *, apart: Collection[str]) -> dict[str, Held]:
    """A digest of every record and relation of ``tenants``; counts of all others but for the tenants ``apart``.

    Read past the sessions on purpose: what they could not see is the subject.
    """
    found: dict[str, Held] = {}
    async with database.driver.session(database=database.name) as session:
        for row in await (await session.run(_RECORDS, tenants=list(tenants))).data():
            held = orjson.dumps(sorted(row["held"], key=lambda pair: str(pair[0])), default=bytes.hex)
            name = "|".join([row["kind"], row["tenant"], str(row["layer"]), str(row["id"]), *sorted(row["labels"])])
            found[name] = Held(row["tenant"], tuple(row["layers"]), hashlib.sha256(held).hexdigest())
        for row in await (await session.run(_REST, tenants=[*tenants, *apart])).data():
            name = f"rest|{sorted(row['labels'])}|{row['tenant']}|{row['layer']}"
            found[name] = Held(row["tenant"], (row["layer"],), f"{row['many']} {row['properties']}")
    return found


def outside(held: Mapping[str, Held], opened: str, layers: Collection[str]) -> dict[str, str]:
    """The digests of what does not lie wholly in ``layers`` of the tenant ``opened``, or in none of its layers."""
    inside = {*layers, None}
    return {name: one.digest for name, one in held.items() if one.tenant != opened or not inside.issuperset(one.layers)}

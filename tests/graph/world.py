"""Entities and relations put straight into a partition, as the toolsets store them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.graph.entity import search_fields
from app.graph.identity import entity_id
from app.store.database import TenantSession
from app.store.statement import statement

RECIPE = "test-model|384|1"
PUT = statement(
    "test.put_entities",
    """
    UNWIND $rows AS row
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
    SET n += row.fields, n.partition = $partition, n:$(row.fields.type)
    """,
    writes=True,
)
LINK = statement(
    "test.put_relations",
    """
    UNWIND $rows AS row
    MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row[0]})
    MATCH (b:Entity {tenant: $tenant, layer: $layer, id: row[1]})
    MERGE (a)-[r:ATTRIBUTED_TO]->(b)
    SET r.tenant = $tenant, r.layer = $layer, r.weight = 0.7
    """,
    writes=True,
)
ALIAS = statement(
    "test.put_alias",
    """
    UNWIND $rows AS row
    MERGE (a:Alias {tenant: $tenant, layer: $layer, id: row[0]})
    SET a.name = row[0], a.target = row[1]
    """,
    writes=True,
)


def entity(
    name: str,
    type_: str = "Concept",
    *,
    vector: Sequence[float] | None = None,
    aliases: Sequence[str] = (),
    evidence: str = "",
    **properties: Any,
) -> dict[str, Any]:
    fields = {
        "name": name,
        "type": type_,
        "aliases": list(aliases),
        "confidence": 0.5,
        "times_mentioned": 1,
        **properties,
        **search_fields(name, aliases, type_, properties, evidence).stored(),
    }
    if vector is not None:
        fields |= {"embedding": list(vector), "embedding_of": RECIPE}
    return {"id": entity_id(name), "fields": fields}


async def put(
    session: TenantSession,
    rows: Iterable[Mapping[str, Any]],
    *,
    relations: Sequence[tuple[str, str]] = (),
    aliases: Sequence[tuple[str, str]] = (),
) -> None:
    entities = list(rows)

    async def link(writing: Any) -> None:
        await writing.run(LINK, rows=[[entity_id(one), entity_id(other)] for one, other in relations])
        await writing.run(ALIAS, rows=[[entity_id(one), entity_id(other)] for one, other in aliases])

    for start in range(0, len(entities), 1000):  # a transaction each: one for all needs more memory than one may use

        async def create(writing: Any, part: list[Mapping[str, Any]] = entities[start : start + 1000]) -> None:
            await writing.run(PUT, rows=part)

        await session.write(create)
    await session.write(link)


def around(seed: int, spread: float, count: int = 1) -> list[list[float]]:
    """Unit vectors of 384 floats about the first axis; ``spread`` 0 is the axis itself."""
    made = random.Random(seed)
    vectors = []
    for _ in range(count):
        values = [spread * made.gauss(0.0, 1.0) / math.sqrt(384) for _ in range(384)]
        values[0] += 1.0
        length = math.sqrt(sum(value * value for value in values))
        vectors.append([value / length for value in values])
    return vectors

"""The graph that is measured on: made from a seed, the same at every run, written straight into the database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from neo4j import AsyncDriver

from app.graph.entity import search_fields
from app.graph.identity import entity_id
from app.store.partition import partition_token

__all__ = ["Dataset", "TenantGraph", "fill"]

TYPES: Final = ("Person", "Project", "Concept", "Object", "Event", "Decision")
RELATIONS: Final = ("KNOWS", "WORKS_ON", "USES_TECH", "RELATED_TO", "DEPENDS_ON", "PART_OF")
WORDS: Final = (
    "amber",
    "anchor",
    "atlas",
    "birch",
    "bridge",
    "cedar",
    "copper",
    "delta",
    "ember",
    "falcon",
    "garden",
    "harbor",
    "indigo",
    "juniper",
    "kernel",
    "lantern",
    "maple",
    "meadow",
    "nickel",
    "ocean",
    "orchid",
    "pebble",
    "quartz",
    "raven",
    "river",
    "saffron",
    "silver",
    "spruce",
    "summit",
    "tundra",
    "velvet",
    "walnut",
    "willow",
    "zephyr",
)
BATCH: Final = 1_000

_ENTITIES: Final = """
UNWIND $rows AS row
CREATE (n:Entity)
SET n = row.fields, n.first_seen = datetime(), n.last_seen = datetime(), n:$(row.type)
"""
_RELATIONS: Final = """
UNWIND $rows AS row
MATCH (a:Entity {tenant: row.tenant, layer: '', id: row.source})
MATCH (b:Entity {tenant: row.tenant, layer: '', id: row.target})
CREATE (a)-[r:$(row.type)]->(b)
SET r = row.fields, r.ingested_at = datetime(), r.last_confirmed = datetime()
"""


@dataclass(frozen=True)
class TenantGraph:
    """One tenant's part: data id, and the names of its entities."""

    data: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """Shape of the whole. The first tenant is the measured one and holds half of everything."""

    data_ids: tuple[str, ...]
    entities: int = 20_000
    relations: int = 60_000
    seed: int = 7

    def sizes(self) -> list[tuple[str, int, int]]:
        """(data id, entities, relations) of each tenant."""
        others = len(self.data_ids) - 1
        first = (self.data_ids[0], self.entities // 2, self.relations // 2)
        rest = [(data, self.entities // 2 // others, self.relations // 2 // others) for data in self.data_ids[1:]]
        return [first, *rest]


async def fill(driver: AsyncDriver, database: str, dataset: Dataset, vectors: int | None) -> list[TenantGraph]:
    """Write the data set; with ``vectors`` each entity gets a random unit vector of that dimension."""
    chance = random.Random(dataset.seed)
    graphs = []
    for data, entities, relations in dataset.sizes():
        names = tuple(_name(chance, number) for number in range(entities))
        await _write(driver, database, _ENTITIES, _entities(chance, data, names, vectors))
        await _write(driver, database, _RELATIONS, _relations(chance, data, names, relations))
        graphs.append(TenantGraph(data, names))
    await driver.execute_query("CALL db.awaitIndexes(600)", database_=database)
    return graphs


def _name(chance: random.Random, number: int) -> str:
    return f"{chance.choice(WORDS)} {chance.choice(WORDS)} {number}"


def _entities(
    chance: random.Random, data: str, names: tuple[str, ...], vectors: int | None
) -> Iterator[dict[str, Any]]:
    for name in names:
        kind = chance.choice(TYPES)
        description = " ".join(chance.choices(WORDS, k=12))
        fields: dict[str, Any] = {
            "tenant": data,
            "layer": "",
            "partition": partition_token(data, ""),
            "id": entity_id(name),
            "name": name,
            "type": kind,
            "aliases": [],
            "confidence": round(chance.uniform(0.3, 1), 3),
            "times_mentioned": 1,
            "description": description,
            **search_fields(name, (), kind, {"description": description}).stored(),
        }
        if vectors:
            fields["embedding"] = _unit(chance, vectors)
        yield {"type": kind, "fields": {key: value for key, value in fields.items() if value is not None}}


def _relations(chance: random.Random, data: str, names: tuple[str, ...], count: int) -> Iterator[dict[str, Any]]:
    seen = set()
    while len(seen) < count:
        source, target = chance.sample(names, 2)
        kind = chance.choice(RELATIONS)
        if (source, kind, target) in seen:
            continue
        seen.add((source, kind, target))
        yield {
            "tenant": data,
            "source": entity_id(source),
            "target": entity_id(target),
            "type": kind,
            "fields": {"tenant": data, "layer": "", "weight": round(chance.uniform(0.3, 1), 3)},
        }


def _unit(chance: random.Random, dimension: int) -> list[float]:
    vector = [chance.gauss(0, 1) for _ in range(dimension)]
    length = sum(value * value for value in vector) ** 0.5
    return [value / length for value in vector]


async def _write(driver: AsyncDriver, database: str, text: str, rows: Iterator[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            await driver.execute_query(text, {"rows": batch}, database_=database)
            batch = []
    if batch:
        await driver.execute_query(text, {"rows": batch}, database_=database)

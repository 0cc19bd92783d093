"""The graph that is measured on: made from a seed, the same at every run, written straight into the database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy
from neo4j import AsyncDriver

from app.embedding.model import EmbeddingIdentity
from app.graph.entity import search_fields
from app.graph.identity import entity_id
from app.store.partition import partition_token

__all__ = ["Dataset", "TenantGraph", "fill"]

TYPES: Final = ("Person", "Project", "Concept", "Object", "Event", "Decision")
RELATIONS: Final = ("KNOWS", "WORKS_ON", "USES_TECH", "RELATED_TO", "DEPENDS_ON", "PART_OF")
VOCABULARY: Final = 4_000
"""Words, used as unevenly as those of a language (Zipf)."""

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
    """One tenant's part: data id, and what its entities are called and said to be."""

    data: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]


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


class _Speech:
    """Words and numbers by chance, the same at every run."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._vectors = numpy.random.default_rng(seed)
        syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
        words = {"".join(self.chance.choices(syllables, k=self.chance.randint(2, 4))) for _ in range(VOCABULARY * 2)}
        self._words = sorted(words)[:VOCABULARY]
        self.chance.shuffle(self._words)
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(len(self._words))))

    def words(self, count: int) -> str:
        return " ".join(self.chance.choices(self._words, cum_weights=self._weights, k=count))

    def vector(self, dimension: int) -> list[float]:
        vector = self._vectors.standard_normal(dimension)
        unit: list[float] = (vector / numpy.linalg.norm(vector)).tolist()
        return unit


async def fill(
    driver: AsyncDriver, database: str, dataset: Dataset, identity: EmbeddingIdentity | None
) -> list[TenantGraph]:
    """Write the data set; with an ``identity`` each entity gets a random unit vector that passes for the model's."""
    speech = _Speech(dataset.seed)
    graphs = []
    for data, entities, relations in dataset.sizes():
        names = tuple(f"{speech.words(2)} {number}" for number in range(entities))
        descriptions = tuple(speech.words(12) for _ in names)
        graph = TenantGraph(data, names, descriptions)
        await _write(driver, database, _ENTITIES, _entities(speech, graph, identity))
        await _write(driver, database, _RELATIONS, _relations(speech.chance, data, names, relations))
        graphs.append(graph)
    await driver.execute_query("CALL db.awaitIndexes(600)", database_=database)
    await driver.execute_query("CALL db.prepareForReplanning()", database_=database)
    return graphs


def _entities(speech: _Speech, graph: TenantGraph, identity: EmbeddingIdentity | None) -> Iterator[dict[str, Any]]:
    for name, description in zip(graph.names, graph.descriptions, strict=True):
        kind = speech.chance.choice(TYPES)
        fields: dict[str, Any] = {
            "tenant": graph.data,
            "layer": "",
            "partition": partition_token(graph.data, ""),
            "id": entity_id(name),
            "name": name,
            "type": kind,
            "aliases": [],
            "confidence": round(speech.chance.uniform(0.3, 1), 3),
            "times_mentioned": 1,
            "description": description,
            **search_fields(name, (), kind, {"description": description}).stored(),
        }
        if identity is not None:
            fields |= {"embedding": speech.vector(identity.dimension), "embedding_of": identity.key}
        yield {"type": kind, "fields": {key: value for key, value in fields.items() if value is not None}}


def _relations(chance: random.Random, data: str, names: tuple[str, ...], count: int) -> Iterator[dict[str, Any]]:
    seen: set[tuple[str, str, str]] = set()
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


async def _write(driver: AsyncDriver, database: str, text: str, rows: Iterator[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            await driver.execute_query(text, {"rows": batch}, database_=database)
            batch = []
    if batch:
        await driver.execute_query(text, {"rows": batch}, database_=database)

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
RARE: Final = 0.005
"""Share of relations that are contradictions, and of those with one value at a time."""
FADED: Final = 0.01
"""Share of entities, and of relations, that have faded away."""
OLDEST_HOURS: Final = 90 * 24
"""What is remembered was last seen at some moment since then."""
VOCABULARY: Final = 4_000
"""Words, used as unevenly as those of a language (Zipf)."""

BATCH: Final = 1_000

_ENTITIES: Final = """
UNWIND $rows AS row
WITH row, datetime() - duration({hours: row.age}) AS seen
CREATE (n:Entity)
SET n = row.fields, n.first_seen = seen, n.last_seen = seen, n:$(row.type)
"""
_RELATIONS: Final = """
UNWIND $rows AS row
MATCH (a:Entity {tenant: row.tenant, layer: '', id: row.source})
MATCH (b:Entity {tenant: row.tenant, layer: '', id: row.target})
CREATE (a)-[r:$(row.type)]->(b)
WITH row, r, datetime() - duration({hours: row.age}) AS said
SET r = row.fields, r.ingested_at = said, r.last_confirmed = said
"""


@dataclass(frozen=True)
class TenantGraph:
    """One tenant's part: data id, what its entities are called and said to be, and what relates which of them."""

    data: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    relations: tuple[tuple[str, str, str], ...]
    """(name, relation, name)."""


@dataclass(frozen=True)
class Dataset:
    """Shape of the whole. The first tenant, the measured one, holds this much; all others together as much again."""

    data_ids: tuple[str, ...]
    entities: int = 20_000
    relations: int = 60_000
    seed: int = 7

    def sizes(self) -> list[tuple[str, int, int]]:
        """(data id, entities, relations) of each tenant."""
        others = len(self.data_ids) - 1
        first = (self.data_ids[0], self.entities, self.relations)
        rest = [(data, self.entities // others, self.relations // others) for data in self.data_ids[1:]]
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
        graph = TenantGraph(data, names, descriptions, tuple(_related(speech.chance, names, relations)))
        await _write(driver, database, _ENTITIES, _entities(speech, graph, identity))
        await _write(driver, database, _RELATIONS, _relations(speech.chance, graph))
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
            "confidence": _strength(speech.chance),
            "times_mentioned": 1,
            "description": description,
            **search_fields(name, (), kind, {"description": description}).stored(),
        }
        if identity is not None:
            fields |= {"embedding": speech.vector(identity.dimension), "embedding_of": identity.key}
        held = {key: value for key, value in fields.items() if value is not None}
        yield {"type": kind, "fields": held, "age": speech.chance.randrange(OLDEST_HOURS)}


def _related(chance: random.Random, names: tuple[str, ...], count: int) -> dict[tuple[str, str, str], None]:
    found: dict[tuple[str, str, str], None] = {}
    for number in range(count * 2):
        source, target = chance.sample(names, 2)
        kind = chance.choice(RELATIONS)
        if number < count * RARE:
            kind = "CONTRADICTS"
        elif number < 2 * count * RARE:  # some of few people, so that some have two
            kind, source = "WORKS_AT", names[chance.randrange(max(1, len(names) // 50))]
        if source != target and len(found) < count:
            found[source, kind, target] = None
    return found


def _relations(chance: random.Random, graph: TenantGraph) -> Iterator[dict[str, Any]]:
    for source, kind, target in graph.relations:
        yield {
            "tenant": graph.data,
            "source": entity_id(source),
            "target": entity_id(target),
            "type": kind,
            "age": chance.randrange(OLDEST_HOURS),
            "fields": {"tenant": graph.data, "layer": "", "weight": _strength(chance)},
        }


def _strength(chance: random.Random) -> float:
    return round(chance.uniform(0.01, 0.05) if chance.random() < FADED else chance.uniform(0.3, 1), 3)


async def _write(driver: AsyncDriver, database: str, text: str, rows: Iterator[dict[str, Any]]) -> None:
    batch: list[dict[str, Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            await driver.execute_query(text, {"rows": batch}, database_=database)
            batch = []
    if batch:
        await driver.execute_query(text, {"rows": batch}, database_=database)

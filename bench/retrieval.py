"""How well search finds the turns that answer questions about long conversations, beside a plain baseline.

``python -m bench.retrieval FOLDER`` (or ``GRAPHKEEP_TEST_DATA``/locomo) reads LoCoMo conversations, stores each turn
as a Fact as the tools would, asks every question of categories 1 to 4 and prints recall at 5 and 10 and the mean
reciprocal rank of the evidence. Needs a database: ``GRAPHKEEP_TEST_NEO4J``, ``GRAPHKEEP_TEST_NEO4J_PASSWORD``.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.context import Deadline, Scope
from app.embedding.provider import Embedder
from app.graph.entity import search_fields
from app.graph.identity import entity_id
from app.graph.search import SearchOptions, search
from app.settings import EmbeddingSettings
from app.store.database import Database, TenantSession
from app.store.schema import migrate
from app.store.statement import statement
from bench.conversation import Turn, bm25, measure, questions_of, turns_of

PUT = statement(
    "bench.put_entities",
    """
    UNWIND $rows AS row
    MERGE (n:Entity {tenant: $tenant, layer: $layer, id: row.id})
    SET n += row.fields, n.partition = $partition, n:$(row.fields.type)
    """,
    writes=True,
)
LINK = statement(
    "bench.put_relations",
    """
    UNWIND $rows AS row
    MATCH (a:Entity {tenant: $tenant, layer: $layer, id: row[0]})
    MATCH (b:Entity {tenant: $tenant, layer: $layer, id: row[1]})
    MERGE (a)-[r:ATTRIBUTED_TO]->(b)
    SET r.tenant = $tenant, r.layer = $layer, r.weight = 0.7
    """,
    writes=True,
)


async def learn(session: TenantSession, embedder: Embedder, turns: Sequence[Turn]) -> dict[str, str]:
    """Store the turns; the turn of each entity id."""
    rows, links, ids = [], [], {}
    for turn in turns:
        rows.append(_row(turn.name, "Fact", turn.fact))
        ids[rows[-1]["id"]] = turn.id
        links.append([rows[-1]["id"], entity_id(turn.speaker)])
    rows += [_row(name, "Person", {}) for name in sorted({turn.speaker for turn in turns})]
    vectors = await embedder.passages([row.pop("passage") for row in rows], Deadline.after(900))
    for row, vector in zip(rows, vectors, strict=True):
        row["fields"] |= {"embedding": vector, "embedding_of": embedder.identity.key if embedder.identity else ""}

    async def work(writing: Any) -> Any:
        await writing.run(PUT, rows=rows)
        await writing.run(LINK, rows=links)

    await session.write(work)
    return ids


def _row(name: str, type_: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    fields = search_fields(name, (), type_, properties)
    stored = {"name": name, "type": type_, "confidence": 0.7, "times_mentioned": 1, **properties, **fields.stored()}
    return {"id": entity_id(name), "fields": stored, "passage": fields.passage}


async def run(folder: Path, embedder: Embedder, database: Database) -> list[dict[str, Any]]:
    """One row of figures per conversation."""
    rows = []
    for path in await asyncio.to_thread(lambda: sorted(folder.glob("*.json"))):
        conversation = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
        turns = turns_of(conversation)
        questions = questions_of(conversation)
        tenant = "bench" + secrets.token_hex(6)
        scope = Scope(tenant, ("",), ("",), "", "bench")
        session = database.session(scope, deadline=Deadline.after(900), request_id="bench")
        ids = await learn(session, embedder, turns)
        row: dict[str, Any] = {"file": path.name, "turns": len(turns), "questions": len(questions)}
        row["bm25"] = measure(bm25(turns, questions), questions)
        for label, types in (("search", ("Fact",)), ("search, any type", ())):
            orders, spent = [], []
            for question in questions:
                session = database.session(scope, deadline=Deadline.after(60), request_id="bench")
                begun = time.perf_counter()
                answer = await search(session, embedder, question.text, SearchOptions(k=50, types=types))
                spent.append(time.perf_counter() - begun)
                orders.append([ids.get(hit.entity["id"], "") for hit in answer.hits])
            row[label] = measure(orders, questions)
            row[f"{label}, p50 ms"] = round(1000 * sorted(spent)[len(spent) // 2], 1)
        rows.append(row)
        print(_line(row), flush=True)
    return rows


def _line(row: Mapping[str, Any]) -> str:
    return " | ".join(f"{key}: {value}" for key, value in row.items())


async def main(folder: Path) -> None:
    """Run against the database of the environment, with the packaged model."""
    database = await Database.connect(
        os.environ["GRAPHKEEP_TEST_NEO4J"], "neo4j", os.environ["GRAPHKEEP_TEST_NEO4J_PASSWORD"], "neo4j", pool_size=5
    )
    await migrate(database)
    with tempfile.TemporaryDirectory() as home:
        embedder = Embedder(EmbeddingSettings(embedding="offline"), Path(home))
        await embedder.start(database)
        print(embedder.state)
        try:
            rows = await run(folder, embedder, database)
        finally:
            await embedder.close()
            await database.close()
    for label in ("bm25", "search", "search, any type"):
        means = [sum(row[label][place] for row in rows) / len(rows) for place in range(3)]
        print(f"{label}: mean recall@5 / recall@10 / MRR {means[0]:.3f} / {means[1]:.3f} / {means[2]:.3f}")


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.environ["GRAPHKEEP_TEST_DATA"], "locomo")
    asyncio.run(main(Path(given)))

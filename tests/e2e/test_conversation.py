"""An agent keeps a long conversation in mind and finds the turns that answer questions about it again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from app.settings import EmbeddingSettings, LimitSettings
from app.store.database import Database
from bench.baselines import bm25
from bench.conversation import Figures, Question, Turn, batches, measure, questions_of, turns_of
from tests.conftest import Server
from tests.gateway import LEGACY, MODERN, Gateway, message_of, owner_token, running, settings_for

PUBLISHED = {
    "BM25, all words": Figures(0.373, 0.472, 0.314),
    "BM25, function words dropped": Figures(0.509, 0.557, 0.397),
    "vectors alone": Figures(0.397, 0.478, 0.302),
    "rank fusion, constant 60": Figures(0.420, 0.515, 0.354),
    "rank fusion, constant 10": Figures(0.496, 0.629, 0.391),
    "rank fusion, constant 10, with neighbouring turns": Figures(0.532, 0.669, 0.373),
}
"""Measured on LoCoMo's conversation 26 with the same model, each turn as one document."""


@dataclass
class Memory:
    """What was learnt, and a connection that asks."""

    gateway: Gateway
    client: httpx2.AsyncClient
    turns: list[Turn]
    questions: list[Question]
    baselines: dict[str, Figures]
    answers: list[dict[str, Any]]
    """What each batch was answered."""

    async def found(self, question: str, *, era: str = MODERN, **options: Any) -> list[str]:
        """The ids of the turns that a search finds, best first; empty for what is no turn."""
        said = await self.gateway.insist(
            self.client, "graph_search", query=question, top_k=10, expand=False, era=era, **options
        )
        assert said["ok"], said
        return [
            seed["properties"].get("source_ref", "").rpartition("/")[2] if seed["type"] == "Fact" else ""
            for seed in said["seeds"]
        ]

    async def figures(self, questions: Sequence[Question], **options: Any) -> Figures:
        orders = [await self.found(question.text, **options) for question in questions]
        return measure(orders, questions)


def conversation() -> tuple[dict[str, Any], dict[str, Figures]]:
    """The real conversation of GRAPHKEEP_TEST_DATA with its published baselines, else a small one of our own."""
    folder = os.environ.get("GRAPHKEEP_TEST_DATA")
    real = Path(folder) / "locomo" / "26.json" if folder else None
    path = real if real is not None and real.is_file() else Path(__file__).with_name("conversation.json")
    return json.loads(path.read_text("utf-8")), PUBLISHED if path == real else {}


@pytest_asyncio.fixture(scope="module")
async def memory(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Memory]:
    said, baselines = conversation()
    turns, questions = turns_of(said), questions_of(said)
    settings = settings_for(
        neo4j_server,
        tmp_path_factory.mktemp("gk"),
        limits=LimitSettings(calls_per_minute=100_000, burst=10_000, write_seconds=100, semantic_seconds=60),
        embedding=EmbeddingSettings(embedding="offline"),
    )
    token = await owner_token(settings, database)
    async with running(settings, token) as gateway, gateway.client(timeout=120) as client:
        await until_it_has_a_model(client)
        answers = [
            await learnt(gateway, client, batch, era=(MODERN, LEGACY)[number % 2])
            for number, batch in enumerate(batches(said))
        ]
        measured = {"BM25, measured here": measure(bm25(turns, questions), questions)}
        yield Memory(gateway, client, turns, questions, {**baselines, **measured}, answers)


async def learnt(gateway: Gateway, client: httpx2.AsyncClient, batch: dict[str, Any], *, era: str) -> dict[str, Any]:
    """The first answer to a batch; said again where the model was too busy to embed it."""
    answer = await gateway.insist(client, "graph_relate", batch, era=era)
    last = answer
    for _ in range(10):
        if not any("embedding model" in warning for warning in last.get("warnings", ())):
            break
        last = await gateway.insist(client, "graph_relate", batch, era=era)
    return answer


async def until_it_has_a_model(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(120):
        while not (await client.get("/readyz")).json().get("checks", {}).get("model", {}).get("ok"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def test_the_whole_conversation_is_kept_with_its_speakers_times_and_source(memory: Memory) -> None:
    assert all(answer["ok"] for answer in memory.answers), [answer for answer in memory.answers if not answer["ok"]]
    stats = await memory.gateway.insist(memory.client, "graph_stats")
    kept = stats["nodes"]["by_type"]
    speakers = {turn.speaker for turn in memory.turns}
    assert (kept["Fact"], kept["Person"]) == (len(memory.turns), len(speakers))
    assert kept["Event"] > 0
    turn = memory.turns[len(memory.turns) // 2]
    read = (await memory.gateway.insist(memory.client, "graph_entities", id=turn.name))["entities"][0]
    assert read["properties"]["content"] == turn.text
    assert read["properties"]["source_ref"] == turn.ref
    around = await memory.gateway.insist(
        memory.client, "graph_query", entities=[turn.name], max_hops=1, current_only=False
    )
    edge = next(edge for edge in around["edges"] if edge["from"] == read["id"])
    assert edge["type"] == "ATTRIBUTED_TO"
    assert edge["source_session"] == turn.session
    assert edge["valid_at"].endswith("Z")
    said_by = next(node for node in around["nodes"] if node["id"] == edge["to"])
    assert said_by["name"] == turn.speaker


async def test_the_turns_that_answer_a_question_are_found_better_than_by_any_baseline(
    memory: Memory, show: Callable[[str], None]
) -> None:
    facts = await memory.figures(memory.questions, entity_types=["Fact"])
    show(f"{len(memory.turns)} turns, {len(memory.questions)} questions: recall@5 / recall@10 / MRR")
    for name, figures in memory.baselines.items():
        show(f"  {figures}  {name}")
    show(f"  {facts}  graph_search, facts alone")
    best = max(figures.ten for figures in memory.baselines.values())
    if "vectors alone" in memory.baselines:
        assert facts.ten > best
    else:
        assert facts.ten >= best  # a small conversation leaves less to find


@pytest.mark.soak
async def test_entities_of_every_type_in_the_way_keep_the_turns_found(
    memory: Memory, show: Callable[[str], None]
) -> None:
    """A third of the questions, held against the same third by the baseline that can be measured here."""
    some = memory.questions[::3]
    any_type, words = await memory.figures(some), measure(bm25(memory.turns, some), some)
    show(f"  {any_type}  graph_search, every type, {len(some)} questions (BM25 on them: {words})")
    assert any_type.ten >= words.ten


@pytest.mark.soak
async def test_entities_of_every_type_in_the_way_lose_to_no_baseline(
    memory: Memory, show: Callable[[str], None]
) -> None:
    any_type = await memory.figures(memory.questions)
    show(f"  {any_type}  graph_search, every type")
    if "vectors alone" in memory.baselines:
        assert any_type.ten > max(figures.ten for figures in memory.baselines.values())


async def test_it_is_the_same_answer_in_both_eras_and_within_its_time(memory: Memory) -> None:
    question = memory.questions[0].text
    assert await memory.found(question, era=LEGACY) == await memory.found(question, era=MODERN)
    answer = await memory.gateway.ask(
        memory.client, "tools/call", name="graph_search", arguments={"query": question, "explain": True}
    )
    assert message_of(answer)["result"]["structuredContent"]["explain"]["mode"]


async def test_learning_it_again_makes_nothing_twice(memory: Memory) -> None:
    said, _ = conversation()
    before = await memory.gateway.insist(memory.client, "graph_stats")
    again = await memory.gateway.insist(memory.client, "graph_relate", next(batches(said)))
    assert again["ok"], again
    after = await memory.gateway.insist(memory.client, "graph_stats")
    assert after["nodes"] == before["nodes"]
    assert after["edges"]["by_type"] == before["edges"]["by_type"]

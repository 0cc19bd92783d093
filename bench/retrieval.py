"""How well an agent finds again what it learnt from long conversations, beside plain baselines of the same run."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from bench.baselines import baselines
from bench.conversation import Figures, Question, batches, measure, questions_of, turns_of
from bench.stage import Gateway, Stage, said
from bench.wire import Connection, tool_call

__all__ = ["GRAPH_SEARCH", "conversations", "measured"]

GRAPH_SEARCH: Final = "graph_search, facts alone"
_EVERY_TYPE: Final = "graph_search, every type"
_ATTEMPTS: Final = 20
_SHOWN_SECONDS: Final = 10.0


def conversations() -> list[Path]:
    """The files of ``GRAPHKEEP_TEST_DATA``/locomo; none without that variable."""
    folder = os.environ.get("GRAPHKEEP_TEST_DATA")
    return sorted((Path(folder) / "locomo").glob("*.json")) if folder else []


async def measured(stage: Stage, gateway: Gateway, files: Sequence[Path], rows: dict[str, Any]) -> None:
    """Learn each conversation through the tools, in a tenant of its own, and ask its questions.

    ``rows`` gains ``{file: {turns, questions, learnt_seconds, search_p50_ms, figures: {way: [recall@5, recall@10,
    MRR]}}}`` and the mean of all questions so far under ``all`` with each conversation: a stopped run has them.
    """
    orders: dict[str, list[tuple[list[str], Question]]] = {}
    for path in files:
        conversation = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
        turns, questions = turns_of(conversation), questions_of(conversation)
        said(f"Learning {path.name}: {len(turns)} turns")
        found = dict(await baselines(stage.service.embedder, turns, questions))
        async with _client(stage, gateway, path.stem) as client:
            learnt = await _learn(client, conversation)
            said(f"Asking {len(questions)} questions")
            found[GRAPH_SEARCH], spent = await _ask(client, questions, entity_types=["Fact"])
            found[_EVERY_TYPE], _ = await _ask(client, questions)
        rows[path.name] = {
            "turns": len(turns),
            "questions": len(questions),
            "learnt_seconds": round(learnt, 1),
            "search_p50_ms": round(1000 * sorted(spent)[len(spent) // 2], 1),
            "figures": {way: _rounded(measure(order, questions)) for way, order in found.items()},
        }
        for way, order in found.items():
            orders.setdefault(way, []).extend(zip(order, questions, strict=True))
        rows.pop("all", None)  # it stays the last
        rows["all"] = {"figures": {way: _rounded(measure(*_columns(pairs))) for way, pairs in orders.items()}}
        for way, figures in rows[path.name]["figures"].items():
            said(f"  {way}: recall@5 {figures[0]:.3f}, recall@10 {figures[1]:.3f}, MRR {figures[2]:.3f}")


class _Client:
    def __init__(self, connection: Connection, url: str, token: str) -> None:
        self._connection = connection
        self._url = url
        self._token = token

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's result; asked again while it says that it may help."""
        for _ in range(_ATTEMPTS):
            message = await self._connection.call(tool_call(self._url, self._token, tool, dict(arguments)))
            result: dict[str, Any] = message["result"]["structuredContent"]
            if result["ok"] or not result.get("retryable"):
                return result
            await asyncio.sleep(result.get("retry_after_ms", 500) / 1000)
        raise RuntimeError(f"{tool} goes on refusing: {result['reason']}")


@asynccontextmanager
async def _client(stage: Stage, gateway: Gateway, name: str) -> AsyncIterator[_Client]:
    token = await stage.newcomer(f"conversation-{name}")
    connection = await Connection.open(gateway.url)
    try:
        yield _Client(connection, gateway.url, token)
    finally:
        await connection.close()


async def _learn(client: _Client, conversation: Mapping[str, Any]) -> float:
    began = time.perf_counter()
    learning = list(batches(conversation))
    shown = _shown("batches learnt", len(learning))
    for done, batch in enumerate(learning):
        shown(done)
        for _ in range(_ATTEMPTS):
            result = await client.call("graph_relate", batch)
            if not result["ok"]:
                raise RuntimeError(f"a batch was refused: {result['reason']}")
            if not any("embedding model" in warning for warning in result["warnings"]):
                break
    return time.perf_counter() - began


async def _ask(client: _Client, questions: Sequence[Question], **options: Any) -> tuple[list[list[str]], list[float]]:
    """Turn ids by question, best first, "" for what is no turn; and the seconds that each question took."""
    orders, spent = [], []
    shown = _shown("questions asked", len(questions))
    for done, question in enumerate(questions):
        shown(done)
        began = time.perf_counter()
        result = await client.call("graph_search", {"query": question.text, "top_k": 50, "expand": False, **options})
        spent.append(time.perf_counter() - began)
        orders.append(
            [
                seed["properties"].get("source_ref", "").rpartition("/")[2] if seed["type"] == "Fact" else ""
                for seed in result["seeds"]
            ]
        )
    return orders, spent


def _shown(what: str, total: int) -> Callable[[int], None]:
    """Tells every few seconds how far it is."""
    last = time.monotonic()

    def shown(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _SHOWN_SECONDS:
            last = time.monotonic()
            said(f"  {done} of {total} {what}")

    return shown


def _columns(pairs: Sequence[tuple[list[str], Question]]) -> tuple[list[list[str]], list[Question]]:
    return [order for order, _ in pairs], [question for _, question in pairs]


def _rounded(figures: Figures) -> list[float]:
    return [round(figure, 3) for figure in figures]

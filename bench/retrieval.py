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
from bench.wire import Connection, Refused, tool_call

__all__ = ["GRAPH_SEARCH", "conversations", "measured"]

GRAPH_SEARCH: Final = "graph_search, facts alone"
_EVERY_TYPE: Final = "graph_search, every type"
_ATTEMPTS: Final = 20
_SHOWN_SECONDS: Final = 10.0
_LANES: Final = 2
"""Conversations at a time: while the database works for one, the model does for the other."""
_ASKING: Final = 2
"""Clients that ask the questions of one conversation."""
_WITHOUT_MODEL: Final = "embedding model"
"""What a warning names when vectors are missing: it is said again, since they are measured too."""
_WORDS_ALONE: Final = "Found by words alone"
"""How the note of such a search begins."""


def conversations() -> list[Path]:
    """The files of ``GRAPHKEEP_TEST_DATA``/locomo; none without that variable."""
    folder = os.environ.get("GRAPHKEEP_TEST_DATA")
    return sorted((Path(folder) / "locomo").glob("*.json")) if folder else []


async def measured(stage: Stage, gateway: Gateway, files: Sequence[Path], rows: dict[str, Any]) -> None:
    """Learn each conversation through the tools, in a tenant of its own, and ask its questions; some at a time.

    ``rows`` gains ``{file: {turns, questions, seconds, learnt_seconds, search_p50_ms, figures: {way: [recall@5,
    recall@10, MRR]}}}`` and the mean of all questions so far under ``all`` with each conversation: a stopped run has
    them.
    """
    lanes = asyncio.Semaphore(_LANES)
    orders: dict[Path, dict[str, list[tuple[list[str], Question]]]] = {}

    async def one(path: Path) -> None:
        async with lanes:
            row, found = await _conversation(stage, gateway, path)
        orders[path] = found
        done = {each.name: rows[each.name] if each != path else row for each in files if each in orders}
        rows.clear()
        rows.update(done, all={"figures": _figures([orders[each] for each in files if each in orders])})

    async with asyncio.TaskGroup() as group:
        for path in files:
            group.create_task(one(path))


async def _conversation(
    stage: Stage, gateway: Gateway, path: Path
) -> tuple[dict[str, Any], dict[str, list[tuple[list[str], Question]]]]:
    """Its row, and by way of searching what was found for each question."""
    conversation = json.loads(await asyncio.to_thread(path.read_text, "utf-8"))
    turns, questions = turns_of(conversation), questions_of(conversation)
    said(f"{path.name}: {len(turns)} turns, {len(questions)} questions")
    began = time.perf_counter()
    found = dict(await baselines(stage.service.embedder, turns, questions))
    token = await stage.newcomer(f"conversation-{path.stem}")
    async with _clients(gateway, token, 1) as (client,):
        learnt = await _learn(client, conversation, path.name)
    # Opened when they are needed: the gateway ends connections that nobody uses.
    async with _clients(gateway, token, _ASKING) as clients:
        found[GRAPH_SEARCH], spent = await _ask(clients, questions, path.name, entity_types=["Fact"])
        found[_EVERY_TYPE], _ = await _ask(clients, questions, path.name)
    paired = {way: list(zip(order, questions, strict=True)) for way, order in found.items()}
    row: dict[str, Any] = {
        "turns": len(turns),
        "questions": len(questions),
        "seconds": round(time.perf_counter() - began, 1),
        "learnt_seconds": round(learnt, 1),
        "search_p50_ms": round(1000 * sorted(spent)[len(spent) // 2], 1),
        "figures": _figures([paired]),
    }
    for way, figures in row["figures"].items():
        said(f"{path.name}: {way}: recall@5 {figures[0]:.3f}, recall@10 {figures[1]:.3f}, MRR {figures[2]:.3f}")
    return row, paired


class _Client:
    def __init__(self, connection: Connection, url: str, token: str) -> None:
        self._connection = connection
        self._url = url
        self._token = token

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's result; asked again while it says that it may help."""
        for _ in range(_ATTEMPTS):
            try:
                message = await self._connection.call(tool_call(self._url, self._token, tool, dict(arguments)))
            except Refused as refused:
                if not refused.retryable:
                    raise
                await asyncio.sleep(1)
                continue
            result: dict[str, Any] = message["result"]["structuredContent"]
            if result["ok"] or not result.get("retryable"):
                return result
            await asyncio.sleep(result.get("retry_after_ms", 500) / 1000)
        raise RuntimeError(f"{tool} goes on being refused")


@asynccontextmanager
async def _clients(gateway: Gateway, token: str, many: int) -> AsyncIterator[list[_Client]]:
    connections = [await Connection.open(gateway.url) for _ in range(many)]
    try:
        yield [_Client(connection, gateway.url, token) for connection in connections]
    finally:
        for connection in connections:
            await connection.close()


async def _learn(client: _Client, conversation: Mapping[str, Any], name: str) -> float:
    """Lesson after lesson, as they were said; how many seconds that took."""
    began = time.perf_counter()
    learning = list(batches(conversation))
    shown = _shown(f"{name}: batches learnt", len(learning))
    for batch in learning:
        for _ in range(_ATTEMPTS):
            result = await client.call("graph_relate", batch)
            if not result["ok"]:
                raise RuntimeError(f"a batch was refused: {result['reason']}")
            if not any(_WITHOUT_MODEL in warning for warning in result["warnings"]):
                break
        shown()
    return time.perf_counter() - began


async def _ask(
    clients: Sequence[_Client], questions: Sequence[Question], name: str, **options: Any
) -> tuple[list[list[str]], list[float]]:
    """Turn ids by question, best first, "" for what is no turn; and the seconds that each question took."""
    orders: dict[int, list[str]] = {}
    spent: list[float] = []
    shown = _shown(f"{name}: questions asked", len(questions))
    waiting = iter(enumerate(questions))

    async def asking(client: _Client) -> None:
        for place, question in waiting:
            began = time.perf_counter()
            orders[place] = await _found(client, question, options)
            spent.append(time.perf_counter() - began)
            shown()

    await asyncio.gather(*map(asking, clients))
    return [orders[place] for place in range(len(questions))], spent


async def _found(client: _Client, question: Question, options: Mapping[str, Any]) -> list[str]:
    for _ in range(_ATTEMPTS):
        result = await client.call("graph_search", {"query": question.text, "top_k": 50, "expand": False, **options})
        if not (result.get("note") or "").startswith(_WORDS_ALONE):
            break
    return [
        seed["properties"].get("source_ref", "").rpartition("/")[2] if seed["type"] == "Fact" else ""
        for seed in result["seeds"]
    ]


def _shown(what: str, total: int) -> Callable[[], None]:
    """Tells every few seconds how far it is, and how long the rest will take."""
    began = last = time.monotonic()
    done = 0

    def shown() -> None:
        nonlocal last, done
        done += 1
        now = time.monotonic()
        if now - last >= _SHOWN_SECONDS:
            last = now
            said(f"{what} {done} of {total}, about {(now - began) / done * (total - done):.0f} s to go")

    return shown


def _figures(found: Sequence[Mapping[str, list[tuple[list[str], Question]]]]) -> dict[str, list[float]]:
    """By way of searching, over all questions of these conversations."""
    together: dict[str, list[tuple[list[str], Question]]] = {}
    for ways in found:
        for way, pairs in ways.items():
            together.setdefault(way, []).extend(pairs)
    return {way: _rounded(measure(*_columns(pairs))) for way, pairs in together.items()}


def _columns(pairs: Sequence[tuple[list[str], Question]]) -> tuple[list[list[str]], list[Question]]:
    return [order for order, _ in pairs], [question for _, question in pairs]


def _rounded(figures: Figures) -> list[float]:
    return [round(figure, 3) for figure in figures]

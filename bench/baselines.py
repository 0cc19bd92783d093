"""What plain retrieval finds in a conversation, each turn one document: the figures that a graph search has to beat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

import numpy as np
from rank_bm25 import BM25Okapi

from app.context import Deadline
from app.embedding.provider import Embedder
from app.graph.text import plain_tokens, query_terms
from bench.conversation import Question, Turn

__all__ = ["baselines", "bm25"]

_LONGEST_ORDER: Final = 50
_NEIGHBOUR: Final = 0.3
"""Share of a turn's score that the turns beside it get."""
_SECONDS: Final = 600.0
_TOGETHER: Final = 32

Order = list[int]


async def baselines(
    embedder: Embedder, turns: Sequence[Turn], questions: Sequence[Question]
) -> Mapping[str, list[list[str]]]:
    """The turn ids that each way of searching finds for each question, best first."""
    every = _bm25(turns, questions, plain_tokens)
    kept = _bm25(turns, questions, _terms)
    near = await _vectors(embedder, turns, questions)
    fused = {
        constant: [_best(_fused(pair, constant)) for pair in zip(kept, near, strict=True)] for constant in (60, 10)
    }
    beside = [_best(_beside(_fused(pair, 10), len(turns))) for pair in zip(kept, near, strict=True)]
    found = {
        "BM25, all words": every,
        "BM25, function words dropped": kept,
        "vectors alone": near,
        "rank fusion, constant 60": fused[60],
        "rank fusion, constant 10": fused[10],
        "rank fusion, constant 10, with neighbouring turns": beside,
    }
    return {name: [_ids(turns, order) for order in orders] for name, orders in found.items()}


def bm25(turns: Sequence[Turn], questions: Sequence[Question]) -> list[list[str]]:
    """The turn ids that a plain text search finds: BM25 over ``speaker: text``, function words dropped."""
    return [_ids(turns, order) for order in _bm25(turns, questions, _terms)]


def _bm25(turns: Sequence[Turn], questions: Sequence[Question], words: object) -> list[Order]:
    assert callable(words)
    index = BM25Okapi([words(_document(turn)) for turn in turns])
    return [_best(dict(enumerate(index.get_scores(words(question.text))))) for question in questions]


async def _vectors(embedder: Embedder, turns: Sequence[Turn], questions: Sequence[Question]) -> list[Order]:
    deadline = Deadline.after(_SECONDS)
    documents = np.array(await embedder.passages([_document(turn) for turn in turns], deadline))
    asking = (embedder.query(question.text, deadline) for question in questions)
    asked = np.array(await _some_at_a_time(asking))
    return [_best(dict(enumerate(row))) for row in asked @ documents.T]


async def _some_at_a_time(asking: Iterable[Awaitable[list[float]]]) -> list[list[float]]:
    """In order; together they fill the batches of the model, and no more wait than it lets wait."""
    waiting, found = iter(asking), list[list[float]]()
    while some := list(islice(waiting, _TOGETHER)):
        found += await asyncio.gather(*some)
    return found


def _fused(orders: Sequence[Order], constant: int) -> dict[int, float]:
    scores: dict[int, float] = {}
    for order in orders:
        for rank, place in enumerate(order, 1):
            scores[place] = scores.get(place, 0.0) + 1 / (constant + rank)
    return scores


def _beside(scores: Mapping[int, float], turns: int) -> dict[int, float]:
    return {
        place: scores.get(place, 0.0) + _NEIGHBOUR * (scores.get(place - 1, 0.0) + scores.get(place + 1, 0.0))
        for place in range(turns)
    }


def _best(scores: Mapping[int, float]) -> Order:
    return sorted(scores, key=lambda place: (-scores[place], place))[:_LONGEST_ORDER]


def _ids(turns: Sequence[Turn], order: Order) -> list[str]:
    return [turns[place].id for place in order]


def _document(turn: Turn) -> str:
    return f"{turn.speaker}: {turn.text}"


def _terms(text: str) -> list[str]:
    kept = set(query_terms(text, 1000))
    return [token for token in plain_tokens(text) if query_terms(token, 1)[0] in kept]

"""A long conversation as an agent learns it, and how well its questions find their evidence again.

A conversation has the form of LoCoMo: ``session_N`` is a list of turns ``{speaker, dia_id, text}``,
``session_N_date_time`` its time, ``events_session_N`` what happened to each speaker, ``qa`` the questions with the
``evidence`` turns that answer them. Categories 1 to 4 have an answer in the conversation; 5 asks for what is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

__all__ = ["Figures", "Question", "Turn", "batches", "measure", "questions_of", "turns_of"]

CATEGORIES: Final = frozenset({1, 2, 3, 4})
_WORDS_OF_A_NAME: Final = 8
_TURNS_OF_A_BATCH: Final = 6


class Turn(NamedTuple):
    """One turn; ``id`` is what a question's evidence names."""

    id: str
    session: str
    speaker: str
    text: str

    @property
    def ref(self) -> str:
        """Its ``source_ref``."""
        return f"{self.session}/{self.id}"

    @property
    def name(self) -> str:
        """The name of its Fact: no two turns share one."""
        return f"{self.ref}: {' '.join(self.text.split()[:_WORDS_OF_A_NAME])}"

    @property
    def fact(self) -> dict[str, str]:
        """The properties of its Fact."""
        return {"content": self.text, "source_ref": self.ref}


class Question(NamedTuple):
    """A question and the turns that answer it."""

    text: str
    evidence: frozenset[str]


class Figures(NamedTuple):
    """Mean share of a question's evidence among the first 5 and 10, and the mean reciprocal rank of the first."""

    five: float
    ten: float
    mrr: float

    def __str__(self) -> str:
        return f"{self.five:.3f} / {self.ten:.3f} / {self.mrr:.3f}"


def turns_of(conversation: Mapping[str, Any]) -> list[Turn]:
    """The turns in their order."""
    return [
        Turn(turn["dia_id"], session, turn["speaker"], turn["text"])
        for session in _sessions(conversation)
        for turn in conversation[session]
    ]


def questions_of(conversation: Mapping[str, Any]) -> list[Question]:
    """The questions of categories 1 to 4 with those of their evidence turns that exist."""
    known = {turn.id for turn in turns_of(conversation)}
    asked = []
    for entry in conversation["qa"]:
        named = {turn for text in entry.get("evidence", []) for turn in text.replace(";", " ").split()}
        if entry["category"] in CATEGORIES and named & known:
            asked.append(Question(entry["question"], frozenset(named & known)))
    return asked


def batches(conversation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The conversation as arguments of ``graph_relate``: a batch for every few turns, as an agent keeps them.

    Speakers are Persons; a turn is a Fact with its text, attributed to its speaker; an event is an Event in which its
    speaker took part. All carry the session as provenance and its time as ``valid_at``.
    """
    for session in _sessions(conversation):
        said = [turn for turn in turns_of(conversation) if turn.session == session]
        happened = conversation.get(f"events_{session}", {})
        events = [(who, what) for who, all_ in happened.items() if who != "date" for what in all_ if what]
        at = _moment(conversation[f"{session}_date_time"])
        for start in range(0, len(said), _TURNS_OF_A_BATCH):
            last = start + _TURNS_OF_A_BATCH >= len(said)
            yield _batch(session, at, said[start : start + _TURNS_OF_A_BATCH], events if last else [])


def _batch(session: str, at: str, turns: Sequence[Turn], events: Sequence[tuple[str, str]]) -> dict[str, Any]:
    people = sorted({turn.speaker for turn in turns} | {who for who, _ in events})
    entities: list[dict[str, Any]] = [{"name": name, "type": "Person"} for name in people]
    entities += [{"name": turn.name, "type": "Fact", "properties": turn.fact} for turn in turns]
    entities += [{"name": what, "type": "Event", "properties": {"event_date": at[:10]}} for _, what in events]
    relations: list[dict[str, Any]] = [
        {"from": turn.name, "to": turn.speaker, "relation": "ATTRIBUTED_TO", "weight": 0.7, "valid_at": at}
        for turn in turns
    ]
    relations += [
        {"from": who, "to": what, "relation": "PARTICIPATED_IN", "weight": 0.7, "valid_at": at} for who, what in events
    ]
    source = {"source_session": session, "source_type": "conversation"}
    return {"batch": {"entities": entities, "relations": relations, **source}}


def measure(orders: Sequence[Sequence[str]], questions: Sequence[Question]) -> Figures:
    """Figures of the turn ids found for each question, best first."""
    asked = list(zip(orders, (question.evidence for question in questions), strict=True))

    def recall(first: int) -> float:
        return sum(len(wanted & set(order[:first])) / len(wanted) for order, wanted in asked) / len(asked)

    ranks = [next((rank for rank, turn in enumerate(order, 1) if turn in wanted), 0) for order, wanted in asked]
    return Figures(recall(5), recall(10), sum(1 / rank for rank in ranks if rank) / len(asked))


def _sessions(conversation: Mapping[str, Any]) -> list[str]:
    named = [key for key in conversation if key.removeprefix("session_").isdigit()]
    return sorted(named, key=lambda key: int(key.removeprefix("session_")))


def _moment(text: str) -> str:
    """``1:56 pm on 8 May, 2023`` as a moment; the conversations name no zone, so it is read as UTC."""
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")

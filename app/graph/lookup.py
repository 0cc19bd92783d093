"""From names to ids: exact id, alias, then fuzzy; many names in one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol

from rapidfuzz.distance import OSA

from app.graph.identity import entity_id
from app.graph.queries import NAMES
from app.graph.text import plain_tokens
from app.store.statement import Statement

__all__ = ["Candidate", "Reads", "Resolution", "resolve"]

_SHORT: Final = 4
_LONG: Final = 8
_VERY_LONG: Final = 16
_WORDS: Final = 8
_WORDS_TOO_MANY: Final = 2
_NEAR: Final = 2_000
_SHOWN: Final = 10
_FUZZY_NAMES: Final = 50
"""Names of one call that are also sought misspelt."""


class Reads(Protocol):
    """Runs a read: ``TenantSession.read`` or ``Writing.run``."""

    async def __call__(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        """Rows of ``statement``."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a name may mean."""

    id: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name stands for. ``how``: ``id``, ``alias``, ``fuzzy``, ``ambiguous`` or ``unknown``.

    ``id`` is the entity's id where it is certain, else None; ``slug`` is the id that a new entity of this name gets.
    """

    asked: str
    slug: str
    how: str
    id: str | None = None
    name: str | None = None
    type: str | None = None
    candidates: tuple[Candidate, ...] = field(default=())


async def resolve(run: Reads, names: Sequence[str], *, fuzzy: bool = True) -> dict[str, Resolution]:
    """Each of ``names`` as what it stands for among the layers that ``run`` reads. One round trip.

    Pass ``session.read`` or, inside a write, ``writing.run``. Typing errors: one edit in words of 4 to 7 letters, two
    in longer ones; words that a name has beyond those asked for count against it. Several entities equally near are
    ``ambiguous`` and come as ``candidates``, ordered by id.

    Raises:
        InvalidInput: a blank or overlong name.

    """
    distinct = list(dict.fromkeys(names))
    asked = [
        {"id": entity_id(name), "fuzzy": _near_query(name) if fuzzy and place < _FUZZY_NAMES else ""}
        for place, name in enumerate(distinct)
    ]
    if not asked:
        return {}
    rows = await run(NAMES, asked=asked, near=_NEAR)
    found = {}
    for row in rows:
        name = distinct[row["place"]]
        found[name] = _resolution(name, row)
        await asyncio.sleep(0)  # thousands of names may be near to each: other calls get their turn
    return found


def _resolution(name: str, row: Mapping[str, Any]) -> Resolution:
    slug = entity_id(name)
    for how, copies in (("id", row["exact"]), ("alias", row["aliased"])):
        found = _candidates(copies)
        if len(found) == 1:
            return Resolution(name, slug, how, found[0].id, found[0].name, found[0].type)
        if found:
            return Resolution(name, slug, "ambiguous", candidates=tuple(found))
    near = _nearest(name, row["near"])
    if len(near) == 1:
        return Resolution(name, slug, "fuzzy", near[0].id, near[0].name, near[0].type)
    return Resolution(name, slug, "ambiguous" if near else "unknown", candidates=tuple(near[:_SHOWN]))


def _candidates(copies: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """Merged by id, named as tenant-wide or the first layer names it (partition rule 4), ordered by id."""
    first: dict[str, Candidate] = {}
    for copy in sorted(copies, key=lambda copy: (copy["id"], copy["layer"])):
        first.setdefault(copy["id"], Candidate(copy["id"], copy["name"], copy["type"]))
    return list(first.values())


def _nearest(name: str, copies: Sequence[Mapping[str, Any]]) -> list[Candidate]:
    asked = _name_tokens(name)
    distances: dict[str, tuple[int, int]] = {}
    for copy in copies:
        for spelling in (copy["name"], *(copy["aliases"] or ())):
            distance = _distance(asked, _name_tokens(spelling))
            if distance is not None:
                distances[copy["id"]] = min(distance, distances.get(copy["id"], distance))
    least = min(distances.values(), default=None)
    return _candidates(copy for copy in copies if copy["id"] in distances and distances[copy["id"]] == least)


def _distance(asked: Sequence[str], held: Sequence[str]) -> tuple[int, int] | None:
    """(words too many, edits) between two names; None when they are not the same name misspelt or shortened."""
    if len(held) - len(asked) not in range(_WORDS_TOO_MANY + 1):
        return None
    left = list(held)
    edits = 0
    for token in asked:
        near = min(((_edits(token, other), other) for other in left), default=(len(token), ""))
        if near[0] > _allowed(token):
            return None
        edits += near[0]
        left.remove(near[1])
    return len(left), edits


def _edits(one: str, other: str) -> int:
    return OSA.distance(one, other)


def _allowed(token: str) -> int:
    return 0 if len(token) < _SHORT else 1 if len(token) < _LONG else 2


def _name_tokens(name: str) -> list[str]:
    return plain_tokens(name)[:_WORDS]


def _near_query(name: str) -> str:
    """A query that finds every name whose words are as near as ``_allowed`` says, and some more.

    Regular expressions, since the engine's own fuzzy terms stop after 50 expansions that other tenants could use up.
    Tokens hold letters, marks and digits alone: nothing in them means anything to the parser.
    """
    clauses = []
    for token in _name_tokens(name):
        if _allowed(token) == 0:
            clauses.append(f"+names:{token}")
        elif _allowed(token) == 1:
            clauses.append(f"+names:/{_one_edit(token)}/")
        elif len(token) > _VERY_LONG:
            clauses.append(f"+names:/{_one_part(token)}/")
        else:
            half = len(token) // 2
            head, tail = token[:half], token[half:]
            clauses.append(f"+names:/{_one_edit(head)}{_any(len(tail))}|{_any(len(head))}{_one_edit(tail)}/")
    return " ".join(clauses)


def _one_part(token: str) -> str:
    """One of three parts unchanged: two edits touch two, unless they swap letters across a border.

    Every possible edit of a word of 64 letters is an expression that the engine refuses to compile, and that of 20
    letters takes it as long as the rest of the call.
    """
    borders = [len(token) * part // 3 for part in range(4)]
    parts = [
        (_any(start) if start else "") + token[start:end] + (_any(len(token) - end) if end < len(token) else "")
        for start, end in pairwise(borders)
    ]
    return "|".join(parts)


def _one_edit(token: str) -> str:
    changed = [f"{token[:at]}.?{token[at + 1 :]}" for at in range(len(token))]
    longer = [f"{token[:at]}.{token[at:]}" for at in range(len(token) + 1)]
    swapped = [f"{token[:at]}{token[at + 1]}{token[at]}{token[at + 2 :]}" for at in range(len(token) - 1)]
    return f"({'|'.join([*changed, *longer, *swapped])})"


def _any(length: int) -> str:
    return f".{{{max(0, length - 2)},{length + 2}}}"

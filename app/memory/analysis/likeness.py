"""How alike two entities are, from what they are called, what they are and what stands around them. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from app.memory.analysis.clock import Clock
from app.memory.analysis.naming import alike_key, words_of

__all__ = [
    "Around",
    "Named",
    "Pair",
    "beside_name",
    "jaccard",
    "named_of",
    "pairs_by_name",
    "weight_of",
]

Pair = tuple[str, str]
"""Two ids, the lesser first."""

_CROWD: Final = 40
"""Entities that share a word beyond which the word says little."""
_EVERY: Final = 50
"""Names or words after which the clock is looked at."""
_SEPARATING: Final = {code: None for code in range(128) if not chr(code).isalnum()}
_ALIKE: Final = 0.5
"""Likeness of names from which a pair is one to look at."""


@dataclass(frozen=True, slots=True)
class Named:
    """A merged entity and what it is called."""

    id: str
    name: str
    type: str
    tokens: frozenset[str]
    keys: frozenset[str]
    """What its name and its aliases share with names that differ in case, separators or accents alone."""

    @classmethod
    def of(cls, id_: str, name: str, type_: str, aliases: Iterable[str]) -> Named:
        """An entity from what a statement returned."""
        return cls(id_, name, type_, frozenset(words_of(name)), frozenset(map(alike_key, (name, *aliases))))


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the candidates: (neighbour, relation) by entity, and each neighbour's degree."""

    sets: Mapping[str, frozenset[tuple[str, str]]]
    degrees: Mapping[str, int] = field(default_factory=dict)

    def of(self, id_: str, other: str) -> frozenset[tuple[str, str]]:
        """The neighbours of one member of a pair, the other member apart."""
        return frozenset(entry for entry in self.sets.get(id_, frozenset()) if entry[0] != other)

    def likeness(self, pair: Pair) -> float:
        """Shared neighbours against all, each weighted by how few relations it has; 0 without any."""
        one, two = self.of(pair[0], pair[1]), self.of(pair[1], pair[0])
        total = math.fsum(weight_of(self.degrees.get(id_, 1)) for id_, _ in one | two)
        return math.fsum(weight_of(self.degrees.get(id_, 1)) for id_, _ in one & two) / total if total else 0.0

    def shared(self, pair: Pair) -> list[dict[str, Any]]:
        """The neighbours that both have, those that say most first."""
        both = self.of(pair[0], pair[1]) & self.of(pair[1], pair[0])
        entries = [
            {
                "id": id_,
                "relation": relation,
                "degree": self.degrees.get(id_, 1),
                "weight": round(weight_of(self.degrees.get(id_, 1)), 4),
            }
            for id_, relation in sorted(both)
        ]
        return sorted(entries, key=lambda entry: (entry["degree"], entry["id"], entry["relation"]))


def weight_of(degree: int) -> float:
    """What a neighbour with so many relations counts: 1 has 1.0, 10 have 0.3028, 100 have 0.1784."""
    return 1.0 / (1.0 + math.log(max(degree, 1)))


def jaccard(one: frozenset[str], two: frozenset[str]) -> float:
    """Shared words against all; 0 without any."""
    return len(one & two) / len(one | two) if one | two else 0.0


def beside_name(clock: Clock, rows: Sequence[Sequence[Any]], id_: str) -> list[Sequence[Any]]:
    """Of ``rows`` of [id, name, type, aliases] those that may share a word with the entity ``id_``, itself included."""
    own = next((row for row in rows if row[0] == id_), None)
    if own is None:
        return []
    parts = {token for name in (own[1], *own[3]) for token in words_of(name)}
    keys = {alike_key(name) for name in (own[1], *own[3])}

    def near(name: str) -> bool:
        joined = name.lower().translate(_SEPARATING)
        return not name.isascii() or joined in keys or any(part in joined for part in parts)

    found = []
    for number, row in enumerate(rows):
        if number % _EVERY == 0:
            clock.check()
        if any(near(name) for name in (row[1], *row[3])):
            found.append(row)
    return found


def named_of(clock: Clock, rows: Sequence[Sequence[Any]]) -> list[Named]:
    """Entities from rows of [id, name, type, aliases]."""
    named = []
    for number, row in enumerate(rows):
        if number % _EVERY == 0:
            clock.check()
        named.append(Named.of(*row))
    return named


def pairs_by_name(clock: Clock, named: Sequence[Named], seeds: frozenset[str] | None, most: int | None) -> list[Pair]:
    """Pairs of one type whose names are alike, at least one of them among ``seeds`` (None: any); the likest first.

    Found through what they share: a word that many have leads to none.
    """
    by_word: dict[tuple[str, str], list[Named]] = {}
    for entity in named:
        for word in {*entity.tokens, *(f"\0{key}" for key in entity.keys)}:
            by_word.setdefault((entity.type, word), []).append(entity)
    found: dict[Pair, float] = {}
    for number, ((_, word), group) in enumerate(by_word.items()):
        if number % _EVERY == 0:
            clock.check()
        exact = word.startswith("\0")
        if (len(group) > _CROWD and not exact) or (seeds is not None and not any(one.id in seeds for one in group)):
            continue
        for one, two in combinations(group[:_CROWD], 2):
            if seeds is not None and one.id not in seeds and two.id not in seeds:
                continue
            pair = (one.id, two.id) if one.id < two.id else (two.id, one.id)
            likeness = 1.0 if exact else jaccard(one.tokens, two.tokens)
            if likeness >= _ALIKE:
                found[pair] = max(likeness, found.get(pair, 0.0))
    return sorted(found, key=lambda pair: (-found[pair], pair))[:most]

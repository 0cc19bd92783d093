"""Words of the query language: enough to find patterns, clauses and conditions in our own statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

__all__ = [
    "Clause",
    "Token",
    "clauses",
    "closing",
    "condensed",
    "conjuncts",
    "items",
    "searched",
    "tokenize",
    "top_level",
    "words",
]


def words(text: str) -> frozenset[str]:
    """A set of keywords, written as one text."""
    return frozenset(text.split())


_PATTERN: Final = re.compile(
    r"""
      (?P<blank>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<parameter>\$[A-Za-z_]\w*)
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<endless>/\*|['"`])
    | (?P<sign>\+=|<=|>=|<>|=~|\.\.|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OPEN: Final = {"(": ")", "[": "]", "{": "}"}
_CLAUSES: Final = words(
    "MATCH MERGE CREATE INSERT WITH RETURN UNWIND CALL SET REMOVE DELETE DETACH FOREACH UNION YIELD ORDER SKIP "
    "OFFSET LIMIT OPTIONAL FINISH LET FILTER SHOW LOAD USE TERMINATE NEXT"
)
_NOT_AFTER: Final = {"WITH": {"STARTS", "ENDS"}, "MATCH": {"ON"}, "CREATE": {"ON"}}
# No clause can follow one of these, so a clause's keyword there is a name.
_NAME_FOLLOWS: Final = words(
    "AS WITH RETURN BY DISTINCT UNWIND WHERE AND OR XOR NOT IN THEN ELSE WHEN CASE CONTAINS IS"
)
_NAME_FOLLOWS_SIGN: Final = frozenset(".:&|!,=+-/%^<>([") | {"<=", ">=", "<>", "+=", "=~"}


@dataclass(frozen=True, slots=True)
class Token:
    """One word: ``kind`` is string, quoted, parameter, number, word or sign; ``upper`` compares keywords."""

    kind: str
    text: str

    @property
    def upper(self) -> str:
        """The text as a keyword; empty for anything that cannot be one."""
        return self.text.upper() if self.kind == "word" else ""

    def is_name(self) -> bool:
        """Whether it can name a variable, label or property."""
        return self.kind in {"word", "quoted"}


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: its keyword and what follows, up to the next clause of the same level."""

    keyword: str
    body: tuple[Token, ...]


def condensed(text: str) -> str:
    """The same query without comments, with one blank where blanks were."""
    runs = groupby(_PATTERN.finditer(text), key=lambda found: found.lastgroup == "blank")
    return "".join(" " if blank else "".join(found[0] for found in run) for blank, run in runs).strip()


def tokenize(text: str) -> tuple[Token, ...]:
    """The words of ``text`` without blanks and comments.

    Raises:
        ValueError: a string, quotation or comment never ends.
    """
    tokens = []
    for found in _PATTERN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "endless":  # at once: each further one would be followed to the end of the text again
            raise ValueError("a string, quotation or comment never ends")
        if kind != "blank":
            tokens.append(Token(kind, found.group()))
    return tuple(tokens)


def closing(tokens: Sequence[Token], start: int) -> int:
    """The place of the bracket that closes the one at ``start``.

    Raises:
        ValueError: it is never closed, or by another kind.
    """
    waiting: list[str] = []
    for place in range(start, len(tokens)):
        token = tokens[place]
        if token.kind != "sign":
            continue
        if token.text in _OPEN:
            waiting.append(_OPEN[token.text])
        elif token.text in _OPEN.values():
            if not waiting or waiting.pop() != token.text:
                raise ValueError("brackets do not match")
            if not waiting:
                return place
    raise ValueError("a bracket is never closed")


def top_level(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """The words outside all brackets and outside CASE … END, with their places."""
    place, cases = 0, 0
    while place < len(tokens):
        token = tokens[place]
        cases += (token.upper == "CASE") - (token.upper == "END" and cases > 0)
        if not cases:
            yield place, token
        place = closing(tokens, place) + 1 if token.kind == "sign" and token.text in _OPEN else place + 1


def clauses(tokens: Sequence[Token]) -> list[Clause]:
    """The clauses of one level; words before the first clause keyword make a clause with the keyword ""."""
    starts = [place for place, token in top_level(tokens) if _starts_clause(tokens, place, token)]
    found = [Clause("", tuple(tokens[: starts[0] if starts else len(tokens)]))]
    for start, end in pairwise([*starts, len(tokens)]):
        found.append(Clause(tokens[start].upper, tuple(tokens[start + 1 : end])))
    return found if found[0].body else found[1:]


def _starts_clause(tokens: Sequence[Token], place: int, token: Token) -> bool:
    if token.upper not in _CLAUSES:
        return False
    before = tokens[place - 1] if place else None
    if before is None:
        return True
    if before.upper in _NAME_FOLLOWS or (before.kind == "sign" and before.text in _NAME_FOLLOWS_SIGN):
        return False
    return before.upper not in _NOT_AFTER.get(token.upper, set())


def conjuncts(condition: Sequence[Token]) -> list[tuple[str, ...]]:
    """The parts of a condition that must all hold; none when an OR or XOR at the top could let one fail."""
    parts: list[tuple[str, ...]] = []
    start = 0
    for place, token in top_level(condition):
        if token.upper in {"OR", "XOR"}:
            return []
        if token.upper == "AND":
            parts.append(_texts(condition[start:place]))
            start = place + 1
    parts.append(_texts(condition[start:]))
    return parts


def _texts(tokens: Sequence[Token]) -> tuple[str, ...]:
    return tuple(token.upper if token.upper == "IN" else token.text for token in tokens)


def searched(tokens: Sequence[Token]) -> list[tuple[str, ...]]:
    """Conditions inside SEARCH n IN (VECTOR INDEX … WHERE …), which the index itself applies."""
    start = next((place for place, token in enumerate(tokens) if token.text == "("), None)
    if not tokens or tokens[0].upper != "SEARCH" or start is None:
        return []
    inside = tokens[start + 1 : closing(tokens, start)]
    where = next((place for place, token in top_level(inside) if token.upper == "WHERE"), len(inside))
    limit = next((place for place, token in top_level(inside) if token.upper == "LIMIT"), len(inside))
    return conjuncts(inside[where + 1 : limit])


def items(tokens: Sequence[Token]) -> list[list[Token]]:
    """The items of a list, by the commas outside all brackets."""
    found: list[list[Token]] = [[]]
    last = 0
    for place, token in top_level(tokens):
        if token.text == ",":
            found[-1] = list(tokens[last:place])
            found.append([])
            last = place + 1
    found[-1] = list(tokens[last:])
    return [item for item in found if item]

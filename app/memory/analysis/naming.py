"""What a name must be to say what it names, in any script. Pure."""

from __future__ import annotations

import unicodedata
from typing import Final

from app.graph.identity import entity_id
from app.graph.text import plain_tokens

__all__ = ["alike_key", "is_generic", "is_meaningless", "leading_reference", "words_of"]

_SHORT: Final = 3
_LONGEST_REFERENCE: Final = 40
_FOLDED: Final = 100
"""Characters of a name that are folded, which takes milliseconds for one of 500; behind them only case is ignored."""

_GENERIC: Final = frozenset(
    """
    it this that the a an some thing things item items something anything everything nothing one other another each
    all both they them we i you he she data info information here there now then later unknown various server client
    system process service tool
    """.split()  # noqa: SIM905 (the words of the contract, as it lists them)
)
_REFERENCES: Final = ("the", "this", "that", "a", "an", "my", "our", "your", "their", "his", "her", "its")


def is_generic(name: str) -> bool:
    """Whether the name is a word for anything, like "thing" or "the system"."""
    return _folded(name) in _GENERIC


def is_meaningless(name: str) -> bool:
    """Whether a name of one or two characters holds no letter: "7" or "--". "Go", "C#" and "日" are names."""
    text = _folded(name)
    return len(text) < _SHORT and not any(unicodedata.category(ch).startswith("L") for ch in text)


def leading_reference(name: str) -> str | None:
    """The word with which a short name points at something instead of naming it: "the" of "the new server"."""
    text = _folded(name)
    first, _, rest = text.partition(" ")
    return first if rest and first in _REFERENCES and len(text) < _LONGEST_REFERENCE else None


def alike_key(name: str) -> str:
    """What two names that differ only in case, separators and accents share: of "Graph Memory" and "graphmémory".

    What tells names apart stays: "C", "C++" and "C#" have three keys.
    """
    head = name[:_FOLDED]
    return ("".join(plain_tokens(head)) or entity_id(head)) + name[_FOLDED:].casefold()


def words_of(name: str) -> list[str]:
    """The words of a name, of the first hundred characters."""
    return plain_tokens(name[:_FOLDED])


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name[:_FOLDED]).casefold().split())

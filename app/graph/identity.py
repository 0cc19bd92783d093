"""Who is who: the id of a thing is a pure function of its name (design §5), the same for every toolset."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache
from typing import Final

from app.errors import InvalidInput

__all__ = ["LONGEST_ID", "LONGEST_NAME", "clean_name", "entity_id"]

LONGEST_ID: Final = 96
"""Characters of an id before it is cut and hashed."""

LONGEST_NAME: Final = 512
"""Characters of a name that a caller may give."""

_LONGEST_FOLDED: Final = 2 * LONGEST_NAME
"""Characters of its NFKC form: one sign can stand for eighteen letters, and each is looked at one by one."""

_SEPARATORS: Final = frozenset("-_./,;:'’\"&()[]")
_CASE_KEPT: Final = frozenset({"property", "class"})
_PREFIXED: Final = frozenset({"class", "property", "literal", "episode"})
_HASH_DIGITS: Final = 6

# A registered scheme and what its specification demands after the colon; anything else is a name that holds a colon.
_ABSOLUTE_IRI: Final = re.compile(
    r"""(?: (?:https?|ftps?|sftp|ssh|git|ldaps?|wss?|file|ipfs|s3|doi|info|tag)://[^\s<>"{}|\\^`]+
          | urn:[a-z0-9][a-z0-9-]{1,31}:[^\s<>"{}|\\^`]+
          | mailto:[^\s<>"{}|\\^`@]+@[^\s<>"{}|\\^`@]+
          | tel:\+?[0-9][0-9().-]*
          | doi:10\.[0-9]{4,9}/[^\s<>"{}|\\^`]+
          | (?:did|geo|isbn):[^\s/<>"{}|\\^`][^\s<>"{}|\\^`]*
        )\Z""",
    re.VERBOSE | re.IGNORECASE,
)
_MINTED: Final = re.compile(r"(?:graphkeep|mindreader):(?P<kind>[a-z]+)/(?P<id>[^\s/]+)\Z")


def clean_name(name: str) -> str:
    """A display name without control and format characters, its white space collapsed.

    Raises:
        InvalidInput: nothing is left, it is longer than ``LONGEST_NAME``, much longer with its ligatures written out,
            or holds half a surrogate pair.

    """
    kept = (" " if ch.isspace() else ch for ch in name if unicodedata.category(ch) not in {"Cf", "Cc"} or ch.isspace())
    text = " ".join("".join(kept).split())
    if not text:
        raise InvalidInput("A name must not be blank. Give the thing's name, for example 'Graph Memory'.")
    if len(text) > LONGEST_NAME:
        raise InvalidInput(
            f"A name may have at most {LONGEST_NAME} characters. Put longer text into a property such as 'content'."
        )
    if not text.isascii() and len(unicodedata.normalize("NFKC", text)) > _LONGEST_FOLDED:
        raise InvalidInput(
            f"A name may have at most {_LONGEST_FOLDED} characters with its ligatures and fractions written out. "
            "Put longer text into a property such as 'content'."
        )
    if any("\ud800" <= ch <= "\udfff" for ch in text):
        raise InvalidInput("A name must be valid Unicode text; this one holds half a surrogate pair.")
    return text


@lru_cache(maxsize=16_384)
def entity_id(name: str, kind: str = "entity") -> str:
    """The id of ``name``: NFKC, casefold, separators as one hyphen, other characters told apart by a hash.

    ``kind`` is ``entity`` (elements are entities) or one that prefixes its ids: class, property, literal, episode;
    classes and properties keep their case. An id given as a name is its own id, except one that was cut or hashed.

    Raises:
        InvalidInput: the name is blank.

    """
    text = clean_name(name)
    if _ABSOLUTE_IRI.match(text):
        return text
    minted = _MINTED.match(text)
    if minted and (minted["kind"] if minted["kind"] != "element" else "entity") == kind:
        return minted["id"]
    slug = _slug(_normal(text, keep_case=kind in _CASE_KEPT))
    return f"{kind}-{slug}" if kind in _PREFIXED else slug


def _normal(text: str, *, keep_case: bool) -> str:
    folded = unicodedata.normalize("NFKC", text)
    if not keep_case:
        folded = folded.casefold()
    folded = unicodedata.normalize("NFKC", folded)
    visible = "".join(ch for ch in folded if unicodedata.category(ch) != "Cf")
    return " ".join(visible.split())


def _slug(text: str) -> str:
    letters: list[str] = []
    foreign = False
    for ch in text:
        if unicodedata.category(ch)[0] in "LMN":
            letters.append(ch)
            continue
        foreign = foreign or not (ch in _SEPARATORS or ch.isspace())
        letters.append("-")
    slug = re.sub("-+", "-", "".join(letters)).strip("-")
    mark = hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]
    if not slug:
        return mark
    if len(slug) > LONGEST_ID:
        return f"{slug[: LONGEST_ID - _HASH_DIGITS - 1].rstrip('-')}-{mark}"
    return f"{slug}-{mark}" if foreign else slug

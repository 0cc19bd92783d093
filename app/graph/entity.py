"""What is searched of an entity: its names, its words, the passage that is embedded, its place in a conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.embedding.model import PASSAGE_RECIPE
from app.graph.text import plain_tokens, tokens
from app.graph.vocabulary import TEXT_PROPERTIES

__all__ = ["EVIDENCE_LIMIT", "PASSAGE_RECIPE", "SearchFields", "evidence_text", "search_fields"]

EVIDENCE_LIMIT: Final = 16 * 1024
"""Bytes of evidence kept as text on an entity, the newest."""

_PASSAGE_LIMIT: Final = 4_000
_PLACE: Final = re.compile(r"(?P<thread>.*?)(?P<position>\d{1,15})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SearchFields:
    """What is stored for search. ``stored()`` is what goes onto the node; ``passage`` is embedded, not stored."""

    names: str
    """Distinct tokens of the name and the aliases, unstemmed, joined by spaces."""
    words: str
    """Distinct tokens of everything that is searched, stemmed, joined by spaces."""
    passage: str
    thread: str | None
    """Where ``source_ref`` ends in a number: what stands before it. Records of one thread are one conversation."""
    position: int | None
    """That number: the place in the conversation."""

    def stored(self) -> dict[str, Any]:
        """Node properties, for ``SET n += $fields``."""
        return {"names": self.names, "words": self.words, "thread": self.thread, "position": self.position}


def search_fields(
    name: str, aliases: Iterable[str], type_: str, properties: Mapping[str, Any], evidence: str = ""
) -> SearchFields:
    """Fields of an entity; ``properties`` are native and extra ones together, ``evidence`` is its ``evidence_text``.

    The passage is name, type and text properties joined by an em dash, ``content`` included; a
    name that only repeats the beginning of the content, as a turn's does, is left out.
    """
    known = list(aliases)
    texts = [text for key in TEXT_PROPERTIES if key in properties for text in _texts(properties[key])]
    others = [
        text
        for key, value in sorted(properties.items())
        if key not in TEXT_PROPERTIES and key not in {"confidence", "subtype"}
        for text in _texts(value)
    ]
    searched = " \n ".join([name, *known, type_, *texts, *others, evidence])
    thread, position = _place(properties.get("source_ref"))
    return SearchFields(
        names=" ".join(dict.fromkeys(token for text in (name, *known) for token in plain_tokens(text))),
        words=" ".join(dict.fromkeys(tokens(searched))),
        passage=_passage(name, type_, texts, properties.get("source_ref")),
        thread=thread,
        position=position,
    )


def evidence_text(newest_first: Iterable[str]) -> str:
    """Evidence of an entity's relations as one text: distinct pieces, the newest, at most ``EVIDENCE_LIMIT`` bytes."""
    kept: list[str] = []
    size = 0
    for piece in dict.fromkeys(text.strip() for text in newest_first):
        size += len(piece.encode("utf-8", "replace")) + 1
        if size > EVIDENCE_LIMIT:
            room = EVIDENCE_LIMIT - (size - len(piece.encode("utf-8", "replace")) - 1)
            if not kept:
                kept.append(piece.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
            break
        kept.append(piece)
    return "\n".join(kept)


def _passage(name: str, type_: str, texts: list[str], source_ref: Any) -> str:
    if isinstance(source_ref, str) and source_ref and name.startswith(f"{source_ref}:") and texts:
        parts = texts
    else:
        parts = [name.strip(), type_, *texts]
    return " — ".join(part for part in parts if part)[:_PASSAGE_LIMIT]


def _place(source_ref: Any) -> tuple[str | None, int | None]:
    match = _PLACE.match(source_ref) if isinstance(source_ref, str) else None
    return (match["thread"], int(match["position"])) if match else (None, None)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value.strip()] if value.strip() else []
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _texts(inner)]
    return []

"""From what is stored and what a call says to what is written. Pure: the same under the lock and before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

import orjson

from app.errors import InvalidInput
from app.graph.entity import evidence_text, search_fields
from app.graph.vocabulary import ENTITY_PROPERTIES, type_label
from app.memory.fading.rest import rest
from app.memory.moments import read_properties, stored_moment
from app.memory.plan import Mention
from app.memory.timeline import Relation
from app.settings import MemorySettings

__all__ = [
    "RELATION_KEYS",
    "EntityWrite",
    "Involved",
    "Stored",
    "bounded",
    "compose_entity",
    "relation_fields",
    "stored_entity",
    "stored_relation",
]

_ALIASES: Final = 50
_LARGEST: Final = 128 * 1024
"""Bytes of all properties of one record, as JSON. A search reads a hundred records, a query two hundred."""
RELATION_KEYS: Final = frozenset(
    {
        *("weight", "ingested_at", "last_confirmed", "valid_at", "invalid_at", "ended_at", "evidence", "extra", "past"),
        "decay_state",
    }
)
"""What a relation holds beside its own properties."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A copy of an entity as it is stored, without its vector."""

    id: str
    layer: str
    name: str
    type: str
    aliases: tuple[str, ...]
    confidence: float
    times_mentioned: int
    evidence: str
    embedding_of: str | None
    native: dict[str, Any]
    extra: dict[str, Any]
    last_seen: datetime | None = None
    decay_state: list[float] | None = None

    @property
    def is_rule(self) -> bool:
        """Whether neither it nor its relations fade."""
        return self.native.get("subtype") == "rule"

    def faded(self, memory: MemorySettings, now: datetime) -> Stored:
        """The same with the confidence that is left by ``now``."""
        rate = memory.rates.get(self.type, memory.decay_other_rate)
        return replace(self, confidence=rest(self.confidence, self.last_seen, self.decay_state, rate, now))


@dataclass(slots=True)
class Involved:
    """What a call does to one entity of the write layer."""

    id: str
    name: str
    type: str
    confidence: float
    mentions: list[Mention] = field(default_factory=list)
    spellings: list[str] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)
    """New evidence, newest first."""


@dataclass(frozen=True, slots=True)
class EntityWrite:
    """What is set on a copy, and the passage that its vector stands for."""

    id: str
    label: str
    fields: dict[str, Any]
    passage: str
    embedded: bool
    """Whether the stored vector still stands for ``passage``, as far as its text goes."""


def stored_entity(layer: str, properties: Iterable[Sequence[Any]]) -> Stored:
    """A copy from the pairs that a statement returned."""
    values = read_properties(properties)
    return Stored(
        id=values["id"],
        layer=layer,
        name=values["name"],
        type=values["type"],
        aliases=tuple(values.get("aliases") or ()),
        confidence=float(values.get("confidence") or 0.0),
        times_mentioned=int(values.get("times_mentioned") or 0),
        evidence=values.get("evidence_text") or "",
        embedding_of=values.get("embedding_of"),
        native={key: value for key, value in values.items() if key in ENTITY_PROPERTIES},
        extra=orjson.loads(values["extra"]) if values.get("extra") else {},
        last_seen=stored_moment(values.get("last_seen")),
        decay_state=values.get("decay_state"),
    )


def compose_entity(stored: Stored | None, involved: Involved, key: str | None) -> EntityWrite:
    """What to write on a copy; ``stored`` is None for one that does not exist yet, ``key`` the embedding in use."""
    old = stored or Stored(involved.id, "", involved.name, involved.type, (), 0.0, 0, "", None, {}, {})
    native, extra = dict(old.native), dict(old.extra)
    removed: dict[str, None] = {}
    for mention in involved.mentions:
        _describe(native, extra, removed, mention)
    bounded(involved.name, {**old.extra, **old.native}, {**extra, **native})
    aliases = _aliases(old, involved.spellings)
    evidence = evidence_text([*involved.evidence, *filter(None, old.evidence.split("\n"))])
    found = search_fields(old.name, aliases, old.type, {**extra, **native}, evidence)
    before = search_fields(old.name, old.aliases, old.type, {**old.extra, **old.native}).passage if stored else None
    stated = [mention.least for mention in involved.mentions if mention.least is not None]
    fields: dict[str, Any] = {
        **removed,
        **native,
        **found.stored(),
        "aliases": aliases,
        "confidence": max([old.confidence if old.times_mentioned else involved.confidence, *stated]),
        "times_mentioned": old.times_mentioned + 1,
        "decay_state": None,  # a mention is a new beginning
        "evidence_text": evidence or None,
        "extra": orjson.dumps(extra).decode() if extra else None,
    }
    same = stored is not None and before == found.passage and key is not None and old.embedding_of == key
    return EntityWrite(involved.id, type_label(old.type), fields, found.passage, same)


def bounded(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], *, field: str | None = "properties"
) -> None:
    """Refuse what would make one record so large that reading a page of such records takes all memory.

    Raises:
        InvalidInput: the properties together pass ``_LARGEST`` and have grown.
    """
    size = len(orjson.dumps(after))
    if size > _LARGEST and size > len(orjson.dumps(before)):
        raise InvalidInput(
            f"the properties of {name!r} may have {_LARGEST // 1024} KiB together. Remove some (null removes one), or "
            "spread them over several entities. Nothing was applied.",
            field=field,
        )


def _describe(native: dict[str, Any], extra: dict[str, Any], removed: dict[str, None], mention: Mention) -> None:
    for name, value in mention.native.items():
        extra.pop(name, None)
        if value is None:
            native.pop(name, None)
            removed[name] = None
        else:
            native[name] = value
    for name, value in mention.extra.items():
        if native.pop(name, None) is not None:
            removed[name] = None
        if value is None:
            extra.pop(name, None)
        else:
            extra[name] = value


def _aliases(old: Stored, spellings: Iterable[str]) -> list[str]:
    known = dict.fromkeys(old.aliases)
    for spelling in spellings:
        if spelling not in {old.name, old.id} and len(known) < _ALIASES:
            known.setdefault(spelling)
    return list(known)


def stored_relation(row: Mapping[str, Any]) -> Relation:
    """A relation from what a statement returned."""
    values = read_properties(row["properties"])
    ingested = stored_moment(values.get("ingested_at") or values.get("last_confirmed"))
    confirmed = stored_moment(values.get("last_confirmed")) or ingested
    if ingested is None or confirmed is None:
        raise ValueError("a relation without the moment of its assertion")
    return Relation(
        *(row["source"], row["relation"], row["target"]),
        weight=float(values.get("weight", 0.5)),
        ingested_at=ingested,
        last_confirmed=confirmed,
        valid_at=stored_moment(values.get("valid_at")),
        invalid_at=stored_moment(values.get("invalid_at")),
        ended_at=stored_moment(values.get("ended_at")),
        evidence=values.get("evidence"),
        native={key: value for key, value in values.items() if key not in RELATION_KEYS},
        extra=orjson.loads(values["extra"]) if values.get("extra") else {},
        past=orjson.loads(values["past"]) if values.get("past") else [],
        decay_state=values.get("decay_state"),
    )


def relation_fields(relation: Relation) -> dict[str, Any]:
    """A relation's properties, for ``SET r += $fields``; None removes."""
    moments: dict[str, datetime | None] = {
        "ingested_at": relation.ingested_at,
        "last_confirmed": relation.last_confirmed,
        "valid_at": relation.valid_at,
        "invalid_at": relation.invalid_at,
        "ended_at": relation.ended_at,
    }
    extra = {name: value for name, value in relation.extra.items() if value is not None}
    bounded(f"{relation.source} {relation.relation} {relation.target}", {}, {**relation.native, **extra})
    return {
        **relation.native,
        **moments,
        "weight": relation.weight,
        "evidence": relation.evidence,
        "extra": orjson.dumps(extra).decode() if extra else None,
        "past": orjson.dumps(relation.past).decode() if relation.past else None,
        "decay_state": relation.decay_state,
    }

"""An exact image of an entity from what is to be known of it: search fields and vector follow the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.graph.entity import evidence_text, search_fields
from app.graph.vocabulary import ENTITY_PROPERTIES, type_label
from app.memory.compose import EntityWrite
from app.memory.vectors import Vectors
from app.store.images import Image, Key

__all__ = ["Draft", "described", "lines", "name_in", "pieces"]

_ALIASES: Final = 50


@dataclass(slots=True)
class Draft:
    """A copy of an entity as it is to be; ``old`` is the image that it grows from, None for a new copy.

    ``fields`` are properties set as they are (None removes); moments among them are named in ``moments``.
    """

    id: str
    name: str
    type: str
    partition: str
    old: Image | None
    aliases: list[str] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    """Native and extra properties by name."""
    evidence: list[str] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    moments: set[str] = field(default_factory=set)

    def write(self, key: str | None) -> EntityWrite:
        """As the vectors of a call take it; ``key`` is the embedding in use."""
        properties, aliases = described(self.old)
        before = search_fields(self.name, aliases, self.type, properties).passage if self.old else None
        passage = search_fields(self.name, self.aliases, self.type, self.properties).passage
        held = self.old["properties"].get("embedding_of") if self.old else None
        embedded = before == passage and (key is None or held == key)
        return EntityWrite(self.id, type_label(self.type), {}, passage, embedded)

    def image(self, vectors: Vectors) -> Image:
        """The exact image."""
        evidence = evidence_text(self.evidence)
        found = search_fields(self.name, self.aliases, self.type, self.properties, evidence)
        native = {name: value for name, value in self.properties.items() if _native(name, value)}
        extra = {name: value for name, value in self.properties.items() if not _native(name, value)}
        held = self.old["properties"] if self.old else {}
        values = {
            **{name: value for name, value in held.items() if name not in ENTITY_PROPERTIES},
            "id": self.id,
            "name": self.name,
            "type": self.type,
            "partition": self.partition,
            **native,
            **found.stored(),
            **vectors.fields(self.write(vectors.key)),
            **self.fields,
            "aliases": self.aliases,
            "evidence_text": evidence or None,
            "extra": orjson.dumps(extra).decode() if extra else None,
        }
        properties = {name: value for name, value in sorted(values.items()) if value is not None}
        moments = {*(self.old["moments"] if self.old else ()), *self.moments}
        labels = self.old["labels"] if self.old else sorted({"Entity", type_label(self.type)})
        return {"labels": labels, "properties": properties, "moments": sorted(moments & properties.keys())}

    def name_also(self, names: Iterable[str]) -> None:
        """Add other names, as far as there is room."""
        for name in names:
            if name not in {self.name, self.id, *self.aliases} and len(self.aliases) < _ALIASES:
                self.aliases.append(name)


def described(image: Image | None) -> tuple[dict[str, Any], list[str]]:
    """An entity's own properties, native and extra ones together, and its other names."""
    if image is None:
        return {}, []
    held: Mapping[str, Any] = image["properties"]
    extra = orjson.loads(held["extra"]) if held.get("extra") else {}
    native = {name: value for name, value in held.items() if name in ENTITY_PROPERTIES}
    return {**extra, **native}, list(held.get("aliases") or ())


def _native(name: str, value: Any) -> bool:
    return name in ENTITY_PROPERTIES and isinstance(value, str | bool | int | float)


def pieces(image: Image | None) -> list[str]:
    """The evidence of an entity's relations, the newest first."""
    text = image["properties"].get("evidence_text") if image else None
    return [piece for piece in (text or "").split("\n") if piece]


def lines(evidence: Iterable[str]) -> set[str]:
    """The single pieces of evidence of several relations."""
    return {line for text in evidence for line in text.split("\n") if line}


def name_in(layers: Iterable[str], id_: str, records: Mapping[Key, Image]) -> str:
    """The name of an entity's first copy in these layers, else its id: a name from elsewhere is not theirs to read."""
    found = (records.get(("entity", layer, id_)) for layer in layers)
    return next((str(image["properties"]["name"]) for image in found if image), id_)

"""One entity as two. Pure: from exact images to those of what is to be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from app.graph.identity import entity_id
from app.memory.merging.combine import Party, Triple
from app.memory.merging.entity import Draft, described, pieces
from app.memory.moments import moment_text
from app.store.images import Image, Key

__all__ = ["Divided", "divide"]

_CONFIDENCE: Final = 0.5


@dataclass(slots=True)
class Divided:
    """What taking apart does."""

    wanted: dict[Key, Image | None] = field(default_factory=dict)
    drafts: dict[Key, Draft] = field(default_factory=dict)
    evidence: dict[str, list[str]] = field(default_factory=dict)
    """By layer, what the moved relations give the new entity."""

    def layers(self) -> list[str]:
        """Layers of the new entity's copies."""
        return sorted(self.evidence)

    def found(self, new: Party, layer: str, partition: str, now: datetime) -> None:
        """Add the new entity's copy in a layer: nothing of the original's properties is its own."""
        moment = moment_text(now)
        fields = {"confidence": _CONFIDENCE, "times_mentioned": 1, "first_seen": moment, "last_seen": moment}
        draft = Draft(new.id, new.name, new.type, partition, None, fields=fields)
        draft.moments = {"first_seen", "last_seen"}
        draft.evidence = self.evidence.setdefault(layer, [])
        self.drafts["entity", layer, new.id] = draft


def divide(
    records: Mapping[Key, Image], original: Party, new: Party, moving: Iterable[Triple], *, gone: Collection[str]
) -> Divided:
    """Move the relations ``moving`` of ``original`` to ``new``, with the names that led to both.

    ``records`` holds the writable copies; ``gone`` is the evidence that no relation of the original gives any more.
    """
    done = Divided()
    listed = set(moving)
    for key, image in records.items():
        if key[0] == "relation" and key[2:] in listed:
            moved = (new.id if key[2] == original.id else key[2], key[3], new.id if key[4] == original.id else key[4])
            done.wanted[key] = None
            done.wanted["relation", key[1], *moved] = image
            said = [copy["properties"].get("evidence") or "" for copy in image["copies"]]
            done.evidence.setdefault(key[1], []).extend(line for text in said for line in text.split("\n") if line)
        elif key[0] == "alias" and key[2] == new.id and image["properties"].get("target") == original.id:
            done.wanted[key] = None
    for key, image in records.items():
        if key[0] == "entity" and key[2] == original.id:
            _original(done, key, image, new, gone)
    return done


def _original(done: Divided, key: Key, image: Image, new: Party, gone: Collection[str]) -> None:
    properties, aliases = described(image)
    held = image["properties"]
    own = [name for name in aliases if entity_id(name) != new.id]
    said = [piece for piece in pieces(image) if piece not in gone]
    if own != aliases or said != pieces(image):
        draft = Draft(key[2], held["name"], held["type"], held["partition"], image, own, properties)
        draft.evidence = said
        done.drafts[key] = draft

"""What is searched of the ends of relations that a change takes away or gives back.

Those ends have no image in the change: many calls mention them, each of which would stand in the way of undoing it.
What is searched of them is made anew from the evidence that their relations have (partition rule 13), and where nobody
said anything of them since, undoing gives it back as it was: order, and what only they still knew, included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.contract import Json
from app.graph.entity import evidence_text, search_fields
from app.memory.compose import stored_entity
from app.memory.queries import EVIDENCE, SEARCHED
from app.store.session import Writing

__all__ = ["Searched", "evidence_notes", "searched_again"]

Searched = Mapping[tuple[str, str], tuple[str, str]]
"""By (layer, id) of an end, the evidence that was searched of it before a change, and after."""

_EVIDENCE: Final = 500
"""Newest relations of an entity whose evidence is searched; its size is bounded besides."""
_NOTES: Final = 1024 * 1024
"""Bytes of evidence that one change keeps for its undoing; of more ends it is made anew."""


def evidence_notes(changed: Searched) -> Json:
    """What a change keeps so that :func:`searched_again` gives it back."""
    notes: list[list[str]] = []
    room = _NOTES
    for (layer, id_), (before, after) in sorted(changed.items()):
        room -= len(before.encode())
        if room < 0:
            break
        notes.append([layer, id_, before, _mark(after)])
    return {"evidence": notes} if notes else {}


async def searched_again(writing: Writing, ids: Sequence[str], notes: Mapping[str, Any] | None = None) -> Searched:
    """Make what is searched of these entities follow the evidence that their relations have now.

    ``notes`` are those of a change that is being undone: what it found is given back where it stands as it left it.
    """
    kept = {(layer, id_): (before, mark) for layer, id_, before, mark in (notes or {}).get("evidence", ())}
    rows = await writing.run(EVIDENCE, ids=ids, most=_EVIDENCE) if ids else []
    changed: dict[tuple[str, str], tuple[str, str]] = {}
    searched = []
    for row in rows:
        stored = stored_entity(row["layer"], row["properties"])
        before, mark = kept.get((stored.layer, stored.id), ("", ""))
        evidence = before if mark == _mark(stored.evidence) else evidence_text(row["evidence"])
        if evidence == stored.evidence:
            continue
        changed[stored.layer, stored.id] = (stored.evidence, evidence)
        properties = {**stored.extra, **stored.native}
        found = search_fields(stored.name, stored.aliases, stored.type, properties, evidence)
        fields = {"evidence_text": evidence or None, "words": found.words}
        searched.append({"id": stored.id, "layer": stored.layer, "fields": fields})
    if searched:
        await writing.run(SEARCHED, searched=searched)
    return changed


def _mark(evidence: str) -> str:
    return hashlib.sha256(evidence.encode()).hexdigest()[:16]

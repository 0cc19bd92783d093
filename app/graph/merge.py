"""Siblings as one record: partition rules 4 and 5. Pure functions over what statements returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from app.context import TENANT_WIDE, layer_name

__all__ = ["merged_entity", "merged_relation", "with_extra"]

Record = Mapping[str, Any]

_COUNTED: Final = frozenset({"confidence", "times_mentioned", "first_seen", "last_seen", "aliases", "layers", "layer"})
_HIDDEN: Final = frozenset(
    {
        *("tenant", "tenant_id", "partition", "names", "words", "thread", "position", "evidence_text", "extra"),
        *("embedding", "embedding_of", "decay_state"),
    }
)


def merged_entity(copies: Iterable[Record]) -> dict[str, Any]:
    """Copies of one entity as one record (rule 4).

    Each copy is the node's properties as a map; search fields, vectors and the tenant never come out. Name and type:
    tenant-wide first, then by layer name. Each other property: the first layer by name that has it, the tenant-wide
    copy last. ``layers`` lists the copies' layers as people write them. Timestamps are ISO texts in UTC.
    """
    by_layer = sorted(copies, key=lambda copy: str(copy["layer"]))
    shown_first = by_layer
    layered_first = [copy for copy in by_layer if copy["layer"] != TENANT_WIDE]
    layered_first += [copy for copy in by_layer if copy["layer"] == TENANT_WIDE]
    merged: dict[str, Any] = {"id": by_layer[0]["id"]}
    for key in ("name", "type"):
        merged[key] = next((copy[key] for copy in shown_first if copy.get(key) is not None), None)
    for copy in map(with_extra, layered_first):
        for key, value in copy.items():
            if key not in _HIDDEN and key not in _COUNTED and value is not None:
                merged.setdefault(key, value)
    merged["confidence"] = max((copy.get("confidence", 0.5) or 0.0 for copy in by_layer), default=0.5)
    merged["times_mentioned"] = sum(copy.get("times_mentioned", 1) or 0 for copy in by_layer)
    merged["first_seen"] = min((copy["first_seen"] for copy in by_layer if copy.get("first_seen")), default=None)
    merged["last_seen"] = max((copy["last_seen"] for copy in by_layer if copy.get("last_seen")), default=None)
    merged["aliases"] = sorted({alias for copy in by_layer for alias in copy.get("aliases") or ()})
    merged["layers"] = [layer_name(copy["layer"]) for copy in by_layer]
    return merged


def merged_relation(copies: Iterable[Record]) -> dict[str, Any]:
    """Copies of one relation as one record (rule 5); each is its properties plus ``from``, ``type`` and ``to``.

    Current (no ``invalid_at``) if a copy is; among the copies of that state the heaviest gives validity and
    provenance (tie: tenant-wide, then by name); ``evidence`` holds that of all copies, one a line, the heaviest first.
    """
    every = sorted(copies, key=lambda copy: (-(copy.get("weight") or 0.0), str(copy["layer"])))
    current = [copy for copy in every if not copy.get("invalid_at")]
    heaviest = with_extra((current or every)[0])
    merged = {key: value for key, value in heaviest.items() if key not in _HIDDEN and key not in {"layer", "past"}}
    evidence = [copy["evidence"] for copy in [*current, *every] if copy.get("evidence")]
    merged["evidence"] = "\n".join(dict.fromkeys(evidence)) or None
    merged["weight"] = heaviest.get("weight", 0.5)
    merged["layers"] = [layer_name(layer) for layer in sorted(copy["layer"] for copy in every)]
    return merged


def with_extra(copy: Record) -> dict[str, Any]:
    """A copy with the properties of its ``extra`` JSON beside the native ones, which win."""
    text = copy.get("extra")
    return {**(orjson.loads(text) if text else {}), **{key: value for key, value in copy.items() if key != "extra"}}

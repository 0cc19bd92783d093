"""Merged records in the form that answers show: the documented fields, and the rest under ``properties``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from app.graph.merge import merged_entity, merged_relation
from app.memory.moments import read_properties

__all__ = ["ANSWER_CHARACTERS", "clipped", "edge_shape", "entity_of", "fitting", "node_shape", "relation_of"]

ANSWER_CHARACTERS: Final = 50_000
"""Room for the records of one page, so that a page with its cursor stays under the limit of an answer (design §8)."""

_CLIP: Final = 2_000
"""Characters of one text in a list; the point read of ``graph_entities`` shows it whole."""

_NODE: Final = ("subtype", "confidence", "times_mentioned", "first_seen", "last_seen", "source_file")
_TEXTS: Final = ("subtype", "source_file")
_EDGE: Final = ("valid_at", "invalid_at", "ingested_at", "last_confirmed")
_EDGE_IF_KNOWN: Final = ("ended_at", "evidence", "source_session", "source_transcript", "source_type")
_HIDDEN: Final = frozenset({"id", "name", "type", "aliases", "layers", "layer", "from", "to", "weight", "past"})


def entity_of(copies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One merged entity from copies as statements return them: ``{layer, properties: [[key, value], ...]}``."""
    return merged_entity([{**read_properties(copy["properties"]), "layer": copy["layer"]} for copy in copies])


def relation_of(triple: Sequence[str], copies: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """One merged relation from copies as statements return them."""
    source, verb, target = triple
    ends = {"from": source, "type": verb, "to": target}
    return merged_relation([{**read_properties(copy["properties"]), "layer": copy["layer"], **ends} for copy in copies])


def node_shape(entity: Mapping[str, Any], *, whole: bool = False) -> dict[str, Any]:
    """An entity as answers show it."""
    shown: dict[str, Any] = {"id": entity["id"], "name": entity["name"], "type": entity["type"]}
    shown |= {key: entity[key] for key in _NODE if entity.get(key) is not None}
    # Callers may have stored a number or a truth value under these two; answers promise text.
    shown |= {key: str(shown[key]) for key in _TEXTS if key in shown}
    shown["aliases"] = entity.get("aliases") or []
    shown["layers"] = entity.get("layers") or []
    rest = {key: value for key, value in entity.items() if key not in _HIDDEN and key not in _NODE}
    shown["properties"] = rest if whole else clipped(rest)
    return shown


def edge_shape(relation: Mapping[str, Any], effective: float) -> dict[str, Any]:
    """A relation as answers show it; ``effective`` is its weight with the affinity of the project."""
    shown: dict[str, Any] = {"from": relation["from"], "to": relation["to"], "type": relation["type"]}
    shown |= {"weight": relation["weight"], "effective_weight": effective}
    shown |= {key: relation.get(key) for key in _EDGE}
    shown |= {key: relation[key] for key in _EDGE_IF_KNOWN if relation.get(key) is not None}
    shown["layers"] = relation["layers"]
    known = {*_HIDDEN, *_EDGE, *_EDGE_IF_KNOWN}
    shown["properties"] = clipped({key: value for key, value in relation.items() if key not in known})
    return clipped(shown)


def clipped(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with long texts cut, each ending in an ellipsis."""
    return {
        key: f"{value[:_CLIP]}…" if isinstance(value, str) and len(value) > _CLIP else value
        for key, value in values.items()
    }


def fitting(records: Sequence[Mapping[str, Any]], room: int = ANSWER_CHARACTERS) -> int:
    """How many of the records, from the first on, fit into ``room`` characters; at least one."""
    for number, record in enumerate(records):
        room -= len(orjson.dumps(record).decode())
        if room < 0:
            return max(number, 1)
    return len(records)

"""From a record of a file to what is written: checked like a call of a tool, its search text made anew."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

import orjson

from app.context import layer_from_name
from app.contract import MAX_TEXT
from app.errors import InvalidInput
from app.graph.entity import search_fields
from app.graph.identity import entity_id
from app.graph.vocabulary import (
    ENTITY_PROPERTIES,
    PROTECTED,
    RELATION_PROPERTIES,
    relation_name,
    type_label,
    type_name,
)
from app.memory.compose import bounded
from app.memory.moments import moment, moment_text, stored_moment
from app.store.control.tenants import check_layer_name
from app.store.moving.load import Row, native_moment

__all__ = ["EDGE_MOMENTS", "NODE_MOMENTS", "Records"]

NODE_MOMENTS: Final = ("first_seen", "last_seen")
EDGE_MOMENTS: Final = ("ingested_at", "last_confirmed", "valid_at", "invalid_at", "ended_at")

_NODE_PLAIN: Final = ("subtype", "source_file", "evidence_text")
_EDGE_PLAIN: Final = ("source_session", "source_transcript", "source_type", "evidence")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_OWN_KEYS: Final = 100
"""Property names beyond the documented ones that one file may bring: names live in the engine for ever."""
_LONGEST_ID: Final = 2048
_FADING: Final = 4
_PAST: Final = 50
_INTERVAL: Final = ("valid_at", "invalid_at", "ingested_at", "ended_at")
"""Keys of one time in which a relation held before, in the order in which the store has them, then ``weight``."""


class Records:
    """Reads the records of one file. ``vectors``: what ``embedding_of`` must say for a vector to be kept, or None.

    With ``ids="new"`` every entity gets the id that its name has today; an id that goes becomes an alias.
    """

    def __init__(self, *, vectors: str | None = None, ids: Literal["keep", "new"] = "keep") -> None:
        self._vectors = vectors
        self._new_ids = ids == "new"
        self._ids: dict[str, str] = {}
        self._keys: set[str] = set()
        self._layers: dict[str, str] = {}
        self._now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        self.without_vector = 0
        """Entities whose vector was not taken over."""

    @property
    def layers(self) -> frozenset[str]:
        """Layers of the records so far, as the data spells them."""
        return frozenset(self._layers.values())

    def rows(self, number: int, record: Mapping[str, Any]) -> list[Row]:
        """What to write for the record of line ``number``.

        Raises:
            InvalidInput: naming the line and what is wrong with it.
        """
        try:
            layer = self._layer(_text(record, "layer"))
            if record["record"] == "node":
                return self._node(number, layer, record)
            if record["record"] == "alias":
                id_, target = _text(record, "id"), self._id(_text(record, "target"))
                values = {"id": id_, "target": target, "name": _text(record, "name")}
                return [Row("alias", layer, number, values)]
            return [Row("edge", layer, number, self._edge(record))]
        except InvalidInput as error:
            raise InvalidInput(f"line {number}: {error.message}", field="file") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"line {number}: a value is missing or has the wrong form.", field="file") from error

    def _node(self, number: int, layer: str, record: Mapping[str, Any]) -> list[Row]:
        name, type_ = _text(record, "name"), type_name(_text(record, "type"))
        aliases = [str(alias) for alias in record.get("aliases") or ()]
        bounded(name, {}, {"aliases": aliases}, field=None)
        fields: dict[str, Any] = self._properties(record, ENTITY_PROPERTIES)
        fields |= {key: _text(record, key) for key in _NODE_PLAIN if record.get(key) is not None}
        fields |= {"name": name, "type": type_, "aliases": aliases, "confidence": _number(record, "confidence")}
        fields["times_mentioned"] = int(record.get("times_mentioned") or 0)
        described = {**(record.get("extra") or {}), **{key: value for key, value in fields.items() if _describes(key)}}
        fields |= search_fields(name, aliases, type_, described, fields.get("evidence_text") or "").stored()
        fields |= self._vector(record) | _faded(record)
        id_ = _text(record, "id")
        values: dict[str, Any] = {"id": self._renamed(id_, name), "label": type_label(type_), "fields": fields}
        values |= self._moments(record, *NODE_MOMENTS)
        made = [Row("node", layer, number, values)]
        if values["id"] != id_:
            made.append(Row("alias", layer, number, {"id": id_, "target": values["id"], "name": name}))
        return made

    def _edge(self, record: Mapping[str, Any]) -> dict[str, Any]:
        fields = self._properties(record, RELATION_PROPERTIES) | _faded(record)
        fields |= {key: _text(record, key) for key in _EDGE_PLAIN if record.get(key) is not None}
        fields["weight"] = _number(record, "weight")
        if record.get("past"):
            fields["past"] = orjson.dumps(_past(record["past"])).decode()
        return {
            "source": self._id(_text(record, "from_id")),
            "relation": relation_name(_text(record, "relation")),
            "target": self._id(_text(record, "to_id")),
            "fields": fields,
            **{key: _moment(record, key) for key in EDGE_MOMENTS},
            **self._moments(record, "ingested_at", "last_confirmed"),
        }

    def _moments(self, record: Mapping[str, Any], first: str, last: str) -> dict[str, str]:
        """Two moments that every record has: one that is missing is the other, or now."""
        one, other = _moment(record, first), _moment(record, last)
        return {first: one or other or self._now, last: other or one or self._now}

    def _properties(self, record: Mapping[str, Any], documented: frozenset[str]) -> dict[str, Any]:
        given: Mapping[str, Any] = record.get("props") or {}
        moments = set(record.get("moments") or ())
        fields: dict[str, Any] = {}
        for key, value in given.items():
            if key in PROTECTED or not _KEY.match(key) or not _storable(value):
                raise InvalidInput(f"the property {key[:64]!r} may not be set.")
            if key not in documented:
                self._keys.add(key)
            fields[key] = native_moment(value) if key in moments else value
        if len(self._keys) > _OWN_KEYS:
            raise InvalidInput(f"the file brings more than {_OWN_KEYS} property names of its own.")
        extra = record.get("extra")
        bounded(str(record.get("name", record.get("relation"))), {}, {**(extra or {}), **given}, field=None)
        if extra:
            fields["extra"] = orjson.dumps(dict(extra)).decode()
        return fields

    def _vector(self, record: Mapping[str, Any]) -> dict[str, Any]:
        vector, made_by = record.get("embedding"), record.get("embedding_of")
        if vector is None or made_by is None or made_by != self._vectors:
            self.without_vector += 1
            return {}
        return {"embedding": [float(each) for each in vector], "embedding_of": made_by}

    def _layer(self, name: str) -> str:
        if name not in self._layers:
            layer = layer_from_name(name)
            self._layers[name] = check_layer_name(layer) if layer else layer
        return self._layers[name]

    def _renamed(self, id_: str, name: str) -> str:
        if self._new_ids and id_ not in self._ids:
            self._ids[id_] = entity_id(name)
        return self._id(id_)

    def _id(self, id_: str) -> str:
        if len(id_) > _LONGEST_ID:
            raise InvalidInput("an id is too long.")
        return self._ids.get(id_, id_)


def _describes(key: str) -> bool:
    return key not in {"name", "type", "aliases", "confidence", "times_mentioned", "evidence_text", "extra"}


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record[key]
    if not isinstance(value, str) or not value:
        raise InvalidInput(f"{key} is a text.")
    if len(value.encode(errors="surrogatepass")) > MAX_TEXT:
        raise InvalidInput(f"{key} has at most {MAX_TEXT // 1024} KiB.")
    return value


def _number(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(f"{key} is a number from 0 to 1.")
    return float(value)


def _faded(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a record that faded was computed from (see graph_decay's statements)."""
    given = record.get("decay_state")
    if given is None:
        return {}
    if not isinstance(given, list) or len(given) != _FADING or not all(map(_finite, given)):
        raise InvalidInput(f"decay_state is {_FADING} numbers.")
    return {"decay_state": [float(each) for each in given]}


def _past(given: Any) -> list[dict[str, Any]]:
    """Times in which a relation held before; statements that look back read them as text, so their form is strict."""
    if not isinstance(given, list) or len(given) > _PAST:
        raise InvalidInput(f"past is a list of at most {_PAST} times.")
    intervals = []
    for one in given:
        if not isinstance(one, dict) or one.keys() != {*_INTERVAL, "weight"}:
            raise InvalidInput(f"a time in past has exactly {', '.join(_INTERVAL)} and weight.")
        if (weight := _number(one, "weight")) is None:
            raise InvalidInput("weight is a number from 0 to 1.")
        intervals.append({**{key: moment_text(stored_moment(one[key])) for key in _INTERVAL}, "weight": weight})
    return intervals


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _moment(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    if value is None:
        return None
    moment(value)
    return str(value)


def _storable(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(each, str) for each in value)
    return isinstance(value, str | bool | int | float)

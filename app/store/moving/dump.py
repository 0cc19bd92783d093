"""A tenant's partitions as the lines of a file, read page by page: memory grows by eight bytes an entity.

Writers go on meanwhile. Every relation of the file has both its ends in it: one whose end was made after its page had
been read brings that end along.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import orjson

from app.context import Scope, layer_name
from app.store.moving.format import FORMAT, VERSION, Seal
from app.store.moving.queries import ALIASES, EDGE_KEYS, EDGES, EDGES_BY_KEY, NODES, NODES_BY_ID
from app.store.session import TenantSession
from app.store.statement import Statement
from app.store.values import spelt_moment

__all__ = ["EDGE_FIELDS", "NODE_FIELDS", "Dump"]

PAGE: Final = 1000
VECTOR_PAGE: Final = 250
_KEYS: Final = 50_000
"""Relations of one source that are put in order at once: a pass looks at all of that source."""

NODE_FIELDS: Final = (
    *("id", "type", "name", "subtype", "confidence", "times_mentioned", "first_seen", "last_seen", "source_file"),
)
EDGE_FIELDS: Final = (
    *("weight", "last_confirmed", "valid_at", "invalid_at", "ingested_at"),
    *("source_session", "source_transcript", "source_type", "evidence"),
)
"""What a record shows beside ``props``: the fields of the contract."""

_FADED: Final = "decay_state"
"""What a record that faded holds beside its weight: without it what was restored would fade a second time."""
_NODE_OWN: Final = frozenset({*NODE_FIELDS, "aliases", "extra", "evidence_text", "embedding", "embedding_of", _FADED})
_EDGE_OWN: Final = frozenset({*EDGE_FIELDS, "ended_at", "extra", "past", _FADED})

Opener = Callable[[Scope], TenantSession]
Door = Callable[[], TenantSession]
"""Opens a session for one page: each has its own time, since all of them may take longer than any call."""


class Dump:
    """One dump of the partitions ``layers`` of a data id. ``open_session`` opens the door for a page's reading.

    ``embedding`` describes the vectors that records have: {model, dimension, recipe}, or None.
    """

    def __init__(
        self,
        open_session: Opener,
        tenant: str,
        layers: Iterable[str],
        *,
        vectors: bool = False,
        embedding: Mapping[str, Any] | None = None,
    ) -> None:
        self._open = open_session
        self._tenant = tenant
        self._layers = sorted(layers)
        self._vectors = vectors
        self._embedding = embedding
        self._seal = Seal()
        self.types: Counter[str] = Counter()
        """Records of entities by type."""

    @property
    def seal(self) -> Seal:
        """Counts, size and checksum so far."""
        return self._seal

    async def lines(self, counted: Mapping[str, int]) -> AsyncIterator[bytes]:
        """The file, a page at a time; ``counted`` are the merged ``nodes`` and ``edges``, for the first line.

        Raises:
            CallError: the database does not answer; what came so far is no whole file.
        """
        yield self._seal.line(
            {
                "record": "meta",
                "format": FORMAT,
                "version": VERSION,
                "exported_at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
                "node_count": counted["nodes"],
                "edge_count": counted["edges"],
                "layers": [layer_name(layer) for layer in self._layers],
                "vectors": self._vectors,
                "embedding": dict(self._embedding) if self._embedding else None,
            }
        )
        for layer in self._layers:
            door = partial(self._open, Scope(self._tenant, (layer,), (), None, "dump"))
            known = array("Q")
            async for rows in self._nodes(door, layer):
                known.extend(_mark(row["id"]) for row in rows)
                yield await asyncio.to_thread(self._encoded, rows, _node, layer)
            async for rows in _paged(door, ALIASES, layer, PAGE):
                yield await asyncio.to_thread(self._encoded, rows, _alias, layer)
            ends = _Ends(known)
            async for rows in _edges(door, layer):
                late = ends.missing(rows)
                if late:
                    came = await _rows(door, NODES_BY_ID, ids=sorted(late), of=layer, vectors=self._vectors)
                    ends.add(row["id"] for row in came)
                    yield await asyncio.to_thread(self._encoded, came, _node, layer)
                whole = [
                    row for row in rows if not late or not ends.missing([row])
                ]  # an end that is gone took it along
                yield await asyncio.to_thread(self._encoded, whole, _edge, layer)
        yield self._seal.end()

    def _nodes(self, door: Door, layer: str) -> AsyncIterator[list[dict[str, Any]]]:
        return _paged(door, NODES, layer, VECTOR_PAGE if self._vectors else PAGE, vectors=self._vectors)

    def _encoded(
        self, rows: Sequence[Mapping[str, Any]], shape: Callable[[Mapping[str, Any]], dict[str, Any]], layer: str
    ) -> bytes:
        made = []
        for row in rows:
            record = shape(row)
            record["layer"] = layer_name(layer)
            if record["record"] == "node":
                self.types[record["type"]] += 1
            made.append(self._seal.line(record))
        return b"".join(made)


class _Ends:
    """Which entities of a layer are in the file, by 64 bits of a hash."""

    def __init__(self, known: array[int]) -> None:
        self._known = array("Q", sorted(known))
        self._late: set[int] = set()

    def missing(self, rows: Iterable[Mapping[str, Any]]) -> set[str]:
        return {row[end] for row in rows for end in ("source", "target") if not self._holds(_mark(row[end]))}

    def add(self, ids: Iterable[str]) -> None:
        self._late.update(map(_mark, ids))

    def _holds(self, mark: int) -> bool:
        place = bisect_left(self._known, mark)
        return (place < len(self._known) and self._known[place] == mark) or mark in self._late


def _mark(id_: str) -> int:
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest())


async def _rows(door: Door, page: Statement, **parameters: Any) -> list[Any]:
    found: list[Any] = (await door().read(page, **parameters))[0]["rows"]
    return found


async def _paged(
    door: Door, page: Statement, layer: str, limit: int, **more: Any
) -> AsyncIterator[list[dict[str, Any]]]:
    after = ""
    while rows := await _rows(door, page, of=layer, after=after, limit=limit, **more):
        yield rows
        after = rows[-1]["id"]


async def _edges(door: Door, layer: str) -> AsyncIterator[list[dict[str, Any]]]:
    after = ""
    while rows := await _rows(door, EDGES, of=layer, limit=PAGE, after=after):
        yield rows
        after = rows[-1]["source"]
        if len(rows) == PAGE:
            async for more in _rest(door, layer, rows[-1]):
                yield more


async def _rest(door: Door, layer: str, last: Mapping[str, Any]) -> AsyncIterator[list[dict[str, Any]]]:
    """The relations of one source behind ``last``."""
    source, behind = last["source"], [last["relation"], last["target"]]
    while behind:
        keys: list[list[str]] = await _rows(
            door, EDGE_KEYS, of=layer, source=source, relation=behind[0], target=behind[1], limit=_KEYS
        )
        for start in range(0, len(keys), PAGE):
            yield await _rows(door, EDGES_BY_KEY, of=layer, source=source, keys=keys[start : start + PAGE])
        behind = keys[-1] if len(keys) == _KEYS else []


def _node(row: Mapping[str, Any]) -> dict[str, Any]:
    values, moments = _values(row["properties"])
    record: dict[str, Any] = {"record": "node", **{key: values.get(key) for key in NODE_FIELDS}}
    record["aliases"] = values.get("aliases") or []
    if values.get("evidence_text"):
        record["evidence_text"] = values["evidence_text"]
    if values.get("embedding") is not None:
        record |= {"embedding": values["embedding"], "embedding_of": values.get("embedding_of")}
    return record | _others(values, moments, _NODE_OWN)


def _alias(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"record": "alias", "id": row["id"], "target": row["target"], "name": row["name"]}


def _edge(row: Mapping[str, Any]) -> dict[str, Any]:
    values, moments = _values(row["properties"])
    record: dict[str, Any] = {
        "record": "edge",
        "from_id": row["source"],
        "to_id": row["target"],
        "relation": row["relation"],
        **{key: values.get(key) for key in EDGE_FIELDS},
        "ended_at": values.get("ended_at"),
    }
    if values.get("past"):
        record["past"] = orjson.loads(values["past"])
    return record | _others(values, moments, _EDGE_OWN)


def _values(properties: Iterable[Sequence[Any]]) -> tuple[dict[str, Any], set[str]]:
    values: dict[str, Any] = {}
    moments: set[str] = set()
    for key, value, is_moment in properties:
        values[key] = spelt_moment(value) if is_moment else value
        if is_moment:
            moments.add(key)
    return values, moments


def _others(values: Mapping[str, Any], moments: set[str], own: frozenset[str]) -> dict[str, Any]:
    """The properties beyond ``own``: ``props`` are native ones, ``moments`` names those among them that are moments."""
    props = {key: value for key, value in sorted(values.items()) if key not in own}
    found: dict[str, Any] = {"props": props}
    if values.get(_FADED):
        found[_FADED] = values[_FADED]
    if marked := sorted(moments & props.keys()):
        found["moments"] = marked
    if values.get("extra"):
        found["extra"] = orjson.loads(values["extra"])
    return found

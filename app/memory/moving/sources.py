"""Memories of other systems, read line by line into what they say: things, and relations between them.

Each reader names a bad line by its number and goes on to the next.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from app.errors import InvalidInput
from app.graph.vocabulary import PROTECTED
from app.memory.moments import moment

__all__ = ["SOURCES", "Bad", "Said", "Thing", "is_graph_memory"]

_FACT_WORDS: Final = 8
_LONGEST_LINE: Final = 8 * 1024 * 1024
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9]+")


@dataclass(slots=True)
class Thing:
    """An entity that a source knows."""

    line: int
    name: str
    type: str
    properties: dict[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()
    confidence: float | None = None
    times_mentioned: int | None = None
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    faded_at: datetime | None = None
    """Up to when the source let it fade already."""


@dataclass(slots=True)
class Said:
    """A relation that a source knows; its ends are names."""

    line: int
    source: str
    relation: str
    target: str
    weight: float = 0.5
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    ingested_at: datetime | None = None
    last_confirmed: datetime | None = None
    faded_at: datetime | None = None
    evidence: str | None = None
    properties: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bad:
    """A line that cannot be taken over, and why."""

    line: int
    why: str


Found = Thing | Said | Bad


def reference_memory(path: Path) -> Iterator[Found]:
    """``memory.jsonl`` of the MCP reference memory server.

    An observation becomes a Fact with the text as its content that DESCRIBES its entity: found by search like what was
    learned here, and not lost among others in one property.
    """
    for number, record in _objects(path):
        if isinstance(record, Bad):
            yield record
            continue
        try:
            if record["type"] == "entity":
                yield from _observed(number, record)
            elif record["type"] == "relation":
                relation = _verb(_text(record, "relationType"))
                yield Said(number, _text(record, "from"), relation, _text(record, "to"))
            else:
                yield Bad(number, "neither an entity nor a relation")
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            yield Bad(number, _why(error))


def _observed(number: int, record: Mapping[str, Any]) -> Iterator[Found]:
    name = _text(record, "name")
    observations = record.get("observations") or []
    if not isinstance(observations, list) or not all(isinstance(each, str) for each in observations):
        raise InvalidInput("observations is a list of texts")
    yield Thing(number, name, _type(record.get("entityType")))
    for place, text in enumerate((each for each in observations if each.strip()), start=1):
        fact = f"{name}/{place}: {' '.join(text.split()[:_FACT_WORDS])}"[:500]
        yield Thing(number, fact, "Fact", {"content": text, "source_ref": f"{name}/{place}"})
        yield Said(number, fact, "DESCRIBES", name)


def is_graph_memory(path: Path) -> bool:
    """Whether a file begins as an export of the graph-memory server does; it blocks."""
    with path.open("rb") as file:
        try:
            first = orjson.loads(file.readline(_LONGEST_LINE))
        except ValueError:
            return False
    return isinstance(first, dict) and first.get("record") == "meta" and "tenant_id" in first and "format" not in first


def graph_memory(path: Path) -> Iterator[Found]:
    """An export of the graph-memory server: a line ``meta``, then lines ``node`` and ``edge``."""
    names: dict[str, str] = {}
    exported_at = datetime.now(UTC)
    for number, record in _objects(path):
        if isinstance(record, Bad):
            yield record
            continue
        try:
            if record["record"] == "node":
                names[_text(record, "id")] = _text(record, "name")
                yield replace(_node(number, record), faded_at=exported_at)
            elif record["record"] == "edge":
                found = _edge(number, record, names)
                yield found if isinstance(found, Bad) else replace(found, faded_at=exported_at)
            elif record["record"] == "meta":
                exported_at = _moment(record.get("exported_at")) or exported_at
            else:
                yield Bad(number, "neither a node nor an edge")
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            yield Bad(number, _why(error))


_NODE_OWN: Final = PROTECTED | {"confidence", "merged_into", "name_lower"}


def _node(number: int, record: Mapping[str, Any]) -> Thing:
    props = record.get("props") or {}
    held = {
        key: value for key, value in {**props, **_given(record, "subtype", "source_file")}.items() if value is not None
    }
    return Thing(
        number,
        _text(record, "name"),
        _type(record.get("type")),
        {key: value for key, value in held.items() if key not in _NODE_OWN and value is not None},
        tuple(str(alias) for alias in props.get("aliases") or ()),
        confidence=_unit(record.get("confidence")),
        times_mentioned=int(record["times_mentioned"]) if record.get("times_mentioned") else None,
        first_seen=_moment(record.get("first_seen")),
        last_seen=_moment(record.get("last_seen")),
    )


def _edge(number: int, record: Mapping[str, Any], names: Mapping[str, str]) -> Said | Bad:
    ends = [_text(record, "from_id"), _text(record, "to_id")]
    lost = [end for end in ends if end not in names]
    if lost:
        return Bad(number, "an end is not among the nodes before it")
    props = record.get("props") or {}
    weight = _unit(record.get("weight"))
    return Said(
        number,
        names[ends[0]],
        _verb(_text(record, "relation")),
        names[ends[1]],
        0.5 if weight is None else weight,
        valid_at=_moment(record.get("valid_at")),
        invalid_at=_moment(record.get("invalid_at")),
        ingested_at=_moment(record.get("ingested_at")),
        last_confirmed=_moment(record.get("last_confirmed")),
        evidence=record.get("evidence") or None,
        properties={
            key: value for key, value in props.items() if key not in PROTECTED | {"embedding"} and value is not None
        },
        provenance=_given(record, "source_session", "source_transcript", "source_type"),
    )


def triplets(path: Path) -> Iterator[Found]:
    """A CSV file with the columns subject, predicate, object and, if known, valid_at, invalid_at, fact."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, strict=True)
        missing = {"subject", "predicate", "object"} - {str(name).strip().lower() for name in rows.fieldnames or ()}
        if missing:
            yield Bad(1, f"the first line names no column {', '.join(sorted(missing))}")
            return
        rows.fieldnames = [str(name).strip().lower() for name in rows.fieldnames or ()]
        while True:
            try:
                row = next(rows)
            except StopIteration:
                return
            except (csv.Error, UnicodeDecodeError) as error:
                yield Bad(rows.line_num + 1, _why(error))
                return
            try:
                yield from _triplet(rows.line_num, row)
            except (InvalidInput, KeyError, TypeError, ValueError) as error:
                yield Bad(rows.line_num, _why(error))


def _triplet(number: int, row: Mapping[str, Any]) -> Iterator[Found]:
    ends = [_text(row, "subject").strip(), _text(row, "object").strip()]
    said = Said(
        number,
        ends[0],
        _verb(_text(row, "predicate")),
        ends[1],
        valid_at=_moment(row.get("valid_at") or None),
        invalid_at=_moment(row.get("invalid_at") or None),
        evidence=row.get("fact") or None,
    )
    types = (row.get("subject_type"), row.get("object_type"))
    for end, type_ in zip(ends, types, strict=True):
        yield Thing(number, end, _type(type_))
    yield said


SOURCES: Final = {"mcp-memory": reference_memory, "graph-memory": graph_memory, "triplets": triplets}
"""Readers by the name that the command takes."""


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | Any]]:
    with path.open("rb") as file:
        number = 0
        while line := file.readline(_LONGEST_LINE):
            number += 1
            if not line.strip():
                continue
            try:
                record = orjson.loads(line)
            except ValueError:
                record = None
            yield number, record if isinstance(record, dict) else Bad(number, "not a JSON object")


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{key} is missing")
    return value


def _given(record: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: record[key] for key in keys if isinstance(record.get(key), str)}


def _type(given: Any) -> str:
    """A type in the spelling that types have: `software project` is SoftwareProject."""
    words = [word for word in _FOREIGN.split(given) if word] if isinstance(given, str) else []
    text = "".join(word[0].upper() + word[1:] for word in words)[:64]
    return text if text and text[0].isalpha() and text.isascii() else "Concept"


def _verb(given: str) -> str:
    """A relation in the spelling that relations have: `works at` is WORKS_AT."""
    text = "_".join(word for word in _FOREIGN.split(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", given)) if word).upper()[:64]
    if not text or not text[0].isalpha():
        raise InvalidInput("the relation has no letters a-z to name it by")
    return text


def _unit(given: Any) -> float | None:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return min(1.0, max(0.0, float(given)))


def _moment(given: Any) -> datetime | None:
    return None if given is None else moment(given)


def _why(error: Exception) -> str:
    if isinstance(error, InvalidInput):
        return error.message
    return (
        str(error)
        if isinstance(error, ValueError) and str(error).startswith("a moment")
        else "a value has the wrong form"
    )

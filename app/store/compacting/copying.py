"""A whole store as pages of records, their fingerprint, and writing them into an empty store."""

from __future__ import annotations

import base64
import hashlib
from array import array
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import orjson

from app.context import Deadline
from app.errors import StartError
from app.store.compacting.queries import LAST, NODES, RELATIONS, WRITE_NODES, WRITE_RELATIONS
from app.store.database import ControlSession, Database
from app.store.statement import Statement

__all__ = ["Copy", "Fingerprint", "Page", "Totals", "pages"]

_PAGE: Final = 500
_LIGHT: Final = 32 * 1024
"""Characters, numbers and bytes of a record that is read and written together with others: what a transaction may hold
is bounded, and a change that can be undone may have megabytes."""
_ANY: Final = 2**62
_SECONDS: Final = 120.0
_DIGEST: Final = 16
_SOFTWARE_EXIT: Final = 70  # EX_SOFTWARE of sysexits.h

_Kind = Literal["nodes", "relations"]


class Page(NamedTuple):
    """Records of one kind: a node is [number, labels, properties], a relation [[source, target], type, properties],
    a property [key, value, kind], kind being plain, moment (the value is its text) or bytes (its base64)."""

    kind: _Kind
    rows: list[list[Any]]


@dataclass(frozen=True, slots=True)
class Totals:
    """How many records there are, and a checksum of all of them that no order and no number of a record changes."""

    nodes: int
    relations: int
    checksum: str


async def pages(database: Database) -> AsyncIterator[Page]:
    """Every record of a store in which nobody writes: all nodes, then all relations.

    Raises:
        CallError: the database does not answer.
        StartError: a record holds what cannot be copied.
    """
    last = (await _session(database).read(LAST))[0]
    ranges: tuple[tuple[_Kind, Statement, int], ...] = (
        ("nodes", NODES, last["node"]),
        ("relations", RELATIONS, last["relation"]),
    )
    for kind, statement, end in ranges:
        for first in range(0, end + 1, _PAGE):
            found = await _range(database, statement, first, min(end, first + _PAGE - 1), light=_LIGHT)
            if found["rows"]:
                yield _page(kind, found["rows"])
            for at in found["heavy"]:
                yield _page(kind, (await _range(database, statement, at, at, light=_ANY))["rows"])


async def _range(database: Database, statement: Statement, first: int, last: int, *, light: int) -> dict[str, Any]:
    return (await _session(database).read(statement, first=first, last=last, light=light))[0]


def _page(kind: _Kind, rows: list[list[Any]]) -> Page:
    _require_known(rows)
    for row in rows:
        row[2] = [_spelt(named) for named in row[2]]
    return Page(kind, rows)


def _spelt(named: list[Any]) -> list[Any]:
    key, value, _ = named
    return [key, base64.b64encode(value).decode(), "bytes"] if isinstance(value, bytes | bytearray) else named


class Fingerprint:
    """Adds up what pages hold."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._nodes = self._relations = self._sum = 0

    def add(self, page: Page) -> None:
        """Take a page."""
        if page.kind == "nodes":
            for at, labels, properties in page.rows:
                self._keep(at, self._count([sorted(labels), sorted(properties, key=_key)]))
                self._nodes += 1
        else:
            for (source, target), type_, properties in page.rows:
                self._count([self._kept(source), self._kept(target), type_, sorted(properties, key=_key)])
                self._relations += 1

    @property
    def records(self) -> int:
        """How many records were added."""
        return self._nodes + self._relations

    @property
    def totals(self) -> Totals:
        """What was added up so far."""
        return Totals(self._nodes, self._relations, f"{self._sum:032x}")

    def _count(self, record: Sequence[Any]) -> bytes:
        digest = hashlib.blake2b(orjson.dumps(record), digest_size=_DIGEST).digest()
        self._sum = (self._sum + int.from_bytes(digest)) % 2 ** (8 * _DIGEST)
        return digest

    def _keep(self, at: int, digest: bytes) -> None:
        missing = (at + 1) * _DIGEST - len(self._digests)
        self._digests.extend(bytes(max(0, missing)))
        self._digests[at * _DIGEST : (at + 1) * _DIGEST] = digest

    def _kept(self, at: int) -> str:
        return self._digests[at * _DIGEST : (at + 1) * _DIGEST].hex()


class Copy:
    """Writes pages into an empty store, in their order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._numbers = array("q")
        """The new number of each node by its old one; -1 where there was none."""

    async def write(self, page: Page) -> None:
        """Write a page, all or nothing.

        Raises:
            CallError: the database does not take it.
        """
        if page.kind == "nodes":
            rows = [{"at": at, "labels": labels, **_values(properties)} for at, labels, properties in page.rows]
        else:
            rows = [
                {"source": self._numbers[source], "target": self._numbers[target], "type": type_, **_values(properties)}
                for (source, target), type_, properties in page.rows
            ]
        statement = WRITE_NODES if page.kind == "nodes" else WRITE_RELATIONS
        answer = await _session(self._database).write(lambda writing: writing.run(statement, rows=rows))
        for old, new in answer[0]["made"] if page.kind == "nodes" else ():
            if old >= len(self._numbers):
                self._numbers.extend([-1] * (old + 1 - len(self._numbers)))
            self._numbers[old] = new


def _session(database: Database) -> ControlSession:
    return database.control.until(Deadline.after(_SECONDS), "compact")


def _require_known(rows: Sequence[Sequence[Any]]) -> None:
    for kind in {kind for row in rows for _, _, kind in row[2]} - {"plain", "moment"}:
        raise StartError(
            f"the store holds a value of the type {kind}, which graphkeep does not write and cannot copy. Nothing was "
            "changed.",
            exit_code=_SOFTWARE_EXIT,
        )


def _values(properties: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {
        "fields": {key: _native(value, kind) for key, value, kind in properties if kind != "moment"},
        "moments": [[key, value] for key, value, kind in properties if kind == "moment"],
    }


def _native(value: Any, kind: str) -> Any:
    return base64.b64decode(value) if kind == "bytes" else value


def _key(named: Sequence[Any]) -> str:
    return str(named[0])

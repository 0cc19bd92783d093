"""The file that a tenant's memory travels in: JSON lines, one record each, none of which names the tenant.

The first line says what the file is, the last what it should hold. Each line between carries a check value (CRC-32)
that goes on from the line before, so that a line that was changed, lost or moved is named by its number; the last line
carries the SHA-256 of all before it.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from app.errors import InvalidInput

__all__ = ["FORMAT", "LONGEST_LINE", "VERSION", "Counts", "Seal", "Summary", "numbered", "records", "verified"]

FORMAT: Final = "graphkeep"
VERSION: Final = 1
"""Of the format; a file of a newer one is refused."""

LONGEST_LINE: Final = 8 * 1024 * 1024
_TAIL: Final = len(b',"crc":"00000000"}')
_KINDS: Final = {"node": "nodes", "alias": "aliases", "edge": "edges"}


@dataclass(slots=True)
class Counts:
    """Records of a file: copies, since those are what is stored."""

    nodes: int = 0
    aliases: int = 0
    edges: int = 0

    def add(self, kind: str, many: int = 1) -> None:
        """Count records of a kind: node, alias or edge."""
        setattr(self, _KINDS[kind], getattr(self, _KINDS[kind]) + many)


@dataclass(frozen=True, slots=True)
class Summary:
    """A file that was read from its first line to its last and found whole."""

    meta: Mapping[str, Any]
    counts: Counts
    sha256: str


class Seal:
    """Makes the lines of a file, in order."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._check = 0
        self.counts = Counts()
        self.size = 0
        """Bytes so far."""
        self.file_sha256 = ""
        """Of the whole file, once it has its last line: what ``sha256sum`` says."""

    @property
    def sha256(self) -> str:
        """Of all lines so far."""
        return self._sum.hexdigest()

    def line(self, record: Mapping[str, Any]) -> bytes:
        """The next line."""
        body = orjson.dumps(record)
        self._check = zlib.crc32(body, self._check)
        made = b'%s,"crc":"%08x"}\n' % (body[:-1], self._check)
        self._sum.update(made)
        self.size += len(made)
        kind = record["record"]
        if kind in _KINDS:
            self.counts.add(kind)
        return made

    def end(self) -> bytes:
        """The last line; ``sha256`` stays that of what is before it."""
        made = orjson.dumps({"record": "end", **asdict(self.counts), "sha256": self.sha256}) + b"\n"
        self.size += len(made)
        whole = self._sum.copy()
        whole.update(made)
        self.file_sha256 = whole.hexdigest()
        return made


def numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers, from 1.

    Raises:
        InvalidInput: a line is longer than any record can be.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise InvalidInput(f"line {number}: longer than any record; this is no such file.", field="file")
            yield number, line


def verified(path: Path) -> Summary:
    """Read the whole file and hold every line, the counts and the checksum against what it says of itself.

    Raises:
        InvalidInput: naming the line: not such a file, of a newer format, changed, cut short or continued.
    """
    sums, check, counts = hashlib.sha256(), 0, Counts()
    meta: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None
    number = 0
    for number, line in numbered(path):
        if last is not None:
            raise InvalidInput(f"line {number}: something follows the last record; the file was changed.", field="file")
        record = _parsed(number, line)
        if number == 1:
            meta = _known(record)
        if record["record"] == "end":
            last = record
            continue
        check = zlib.crc32(line[: -_TAIL - 1] + b"}", check)
        if record.get("crc") != f"{check:08x}":
            raise InvalidInput(f"line {number}: it or the line before it was changed or lost.", field="file")
        sums.update(line)
        if number > 1:
            _count(counts, number, record)
    if meta is None or last is None:
        raise InvalidInput(f"line {number + 1}: the file ends before its last record; it is cut short.", field="file")
    if {**asdict(counts), "sha256": sums.hexdigest()} != {key: last.get(key) for key in (*asdict(counts), "sha256")}:
        raise InvalidInput(f"line {number}: counts or checksum do not fit what is before it.", field="file")
    return Summary(meta, counts, sums.hexdigest())


def records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a verified file with their line numbers: nodes, aliases, edges, in the order of the file.

    Raises:
        InvalidInput: a line is not readable after all.
    """
    for number, line in numbered(path):
        record = _parsed(number, line)
        if record["record"] in _KINDS:
            yield number, record


def _parsed(number: int, line: bytes) -> dict[str, Any]:
    try:
        record = orjson.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("record"), str):
        raise InvalidInput(f"line {number}: no record; the file was changed or cut short there.", field="file")
    return record


def _known(meta: dict[str, Any]) -> dict[str, Any]:
    if meta["record"] != "meta" or meta.get("format") != FORMAT:
        raise InvalidInput("line 1: this is no backup or export of graphkeep.", field="file")
    version = meta.get("version")
    if not isinstance(version, int) or version < 1:
        raise InvalidInput("line 1: the version of the format is missing.", field="file")
    if version > VERSION:
        raise InvalidInput(
            f"line 1: the file has format {version} and this release reads up to {VERSION}; use a newer graphkeep.",
            field="file",
        )
    return meta


def _count(counts: Counts, number: int, record: Mapping[str, Any]) -> None:
    if record["record"] not in _KINDS:
        raise InvalidInput(f"line {number}: an unknown kind of record.", field="file")
    counts.add(record["record"])

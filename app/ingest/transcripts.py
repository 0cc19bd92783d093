"""Transcripts of Claude Code: one JSON record a line, read as a stream; at no time is more than one line in memory.

A line that is no record is counted and passed over, one longer than ``LONGEST_LINE`` is not even held. Which form the
file has is decided by its first messages, however many records about other things stand before them. Nobody reads for
longer than a clock allows, whatever a file is made of.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from app.ingest.meta import instant

__all__ = ["Facts", "Message", "Page", "Place", "examine", "page"]

LONGEST_LINE: Final = 8 * 1024 * 1024
MOST_VALUES: Final = 100_000
"""Values in a line. Nothing else runs while one is parsed: 8 MiB of empty lists would be seconds for all tenants."""
WARNINGS: Final = 20
SESSIONS: Final = 20
AHEAD_SECONDS: Final = 24 * 3600.0
"""How far ahead of ours a sender's clock may be."""
DECIDING: Final = 5
"""Messages that decide which form a file has."""
MOST_BAD: Final = 10_000
"""Lines that are no records, after which a file is taken for something else."""
EXAMINE_SECONDS: Final = 10.0
"""Of computing: on a busy machine a long session takes longer and is still one."""
EXAMINE_BYTES: Final = 128 * 1024 * 1024
"""For each of so many bytes there are as many seconds again: a session of 512 MiB takes more than ten."""

_PUNCTUATION: Final = (b"[", b"{", b",")
_SPOKEN: Final = ("user", "assistant", "system")
_ROLES: Final = {"user": "human", "human": "human", "assistant": "assistant", "system": "system"}


@dataclass(frozen=True, slots=True)
class Message:
    """One thing that was said. ``text`` joins its text blocks; thinking and tools add nothing to it."""

    role: str
    text: str
    timestamp: str | None
    uuid: str | None
    parent: str | None
    session_id: str | None
    cwd: str | None
    sidechain: bool
    known: bool
    """Whether the record has the form that this reader knows."""


@dataclass(slots=True)
class Facts:
    """What a transcript holds, all of it."""

    format_version: str = "unknown"
    line_count: int = 0
    message_count: int = 0
    text_message_count: int = 0
    bad_lines: int = 0
    session_id: str | None = None
    cwd: str | None = None
    sessions: list[str] = field(default_factory=list)
    """Sessions in it, the first 20; several when one was resumed into this file."""
    first_at: str | None = None
    last_at: str | None = None
    warnings: list[str] = field(default_factory=list)

    def record(self) -> str:
        """As JSON text."""
        return orjson.dumps(asdict(self)).decode()


@dataclass(frozen=True, slots=True)
class Place:
    """Where reading goes on: the byte and line where a record begins, and characters of its text already read.

    ``seen_at`` is the moment (Unix seconds) of the last message before, for those that carry none.
    """

    offset: int = 0
    line: int = 0
    inside: int = 0
    seen_at: float = -1.0


@dataclass(slots=True)
class Page:
    """Messages of one page; ``rest`` is where the next one begins, None at the end."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    rest: Place | None = None


class _Bad(Exception):
    """A line that is no record."""


def examine(path: Path) -> Facts:
    """Read all of a transcript and count. Blocks: for a thread.

    What is for the most part no transcript, or takes longer than its size explains, is read no further: its form is
    unknown, the counts are of what was read, and a warning says so.
    """
    facts = Facts()
    deciding: list[bool] = []
    until = time.thread_time() + EXAMINE_SECONDS * (1 + path.stat().st_size / EXAMINE_BYTES)
    with path.open("rb") as file:
        for number, _, line in _lines(file, 0):
            if facts.bad_lines >= MOST_BAD or time.thread_time() > until:
                facts.warnings.insert(0, f"Unrecognized transcript format: read up to line {facts.line_count} only")
                return facts
            if line == b"":
                continue
            facts.line_count = number
            try:
                message = _message(line)
            except _Bad as bad:
                facts.bad_lines += 1
                _warn(facts, f"Line {number}: {bad}, skipped")
                continue
            if message is not None:
                deciding += [message.known] if len(deciding) < DECIDING else []
                _count(facts, message)
    if any(deciding):
        facts.format_version = "v1"
    else:
        facts.warnings.insert(0, "Unrecognized transcript format: no message with type, message and sessionId")
    return facts


def page(
    path: Path, place: Place, *, limit: int, budget: int, text_only: bool, since: float | None, until: float
) -> Page:
    """Up to ``limit`` messages said after ``since`` (Unix seconds), of ``budget`` characters as JSON in all.

    A message that does not fit is continued on the next page. ``until`` is a moment of the monotonic clock: what was
    found by then is the page, even if that is nothing. Blocks: for a thread.
    """
    found = Page()
    seen_at = place.seen_at
    with path.open("rb") as file:
        file.seek(place.offset)
        start, number = place.offset, place.line
        for number_, end, line in _lines(file, place.line):
            here = Place(start, number, place.inside if start == place.offset else 0, seen_at)
            if start > place.offset and time.monotonic() > until:  # one line at least, or nobody would get further
                found.rest = here
                break
            start, number = end, number_
            message = _quiet(line) if line != b"" else None
            if message is None:
                continue
            seen_at = _at(message.timestamp) or seen_at
            if (since is not None and seen_at <= since) or (text_only and not message.text):
                continue
            if len(found.messages) >= limit or budget <= 0:
                found.rest = here
                break
            cut, spent = _fitting(message.text, here.inside, budget)
            if cut < len(message.text) and found.messages:
                found.rest = here
                break
            found.messages.append(_shown(message, here.inside, cut))
            budget -= spent + 300
            if cut < len(message.text):
                found.rest = Place(here.offset, here.line, cut, here.seen_at)
                break
    return found


def _lines(file: BinaryIO, number: int) -> Iterator[tuple[int, int, bytes | None]]:
    """(number among the lines that are not blank, byte after it, the line: empty if blank, None if it is too long)."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            while (more := file.readline(1024 * 1024)) and not more.endswith(b"\n"):
                pass
            number += 1
            yield number, file.tell(), None
        elif line.strip():
            number += 1
            yield number, file.tell(), line
        else:
            yield number, file.tell(), b""


def _message(line: bytes | None) -> Message | None:
    """The message in a line; None for a record about something else.

    Raises:
        _Bad: it is no record.
    """
    if line is None:
        raise _Bad(f"longer than {LONGEST_LINE // 2**20} MiB")
    if _values(line) > MOST_VALUES:
        raise _Bad(f"more than {MOST_VALUES} values")
    record = _parsed(line)
    if not isinstance(record, dict):
        raise _Bad("not an object")
    if "type" not in record:
        raise _Bad('missing "type" field')
    said = record.get("message")
    if record["type"] not in _SPOKEN or not isinstance(said, dict):
        return None
    role = _ROLES.get(str(said.get("role") or record["type"]))
    if role is None:
        return None
    return Message(
        role=role,
        text=_text(said.get("content")),
        timestamp=_word(record.get("timestamp")),
        uuid=_word(record.get("uuid")),
        parent=_word(record.get("parentUuid")),
        session_id=_word(record.get("sessionId")),
        cwd=_word(record.get("cwd"), 1000),
        sidechain=record.get("isSidechain") is True,
        known="sessionId" in record,
    )


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        if b"\\ud" not in line.lower():
            raise _Bad("invalid JSON") from None
    try:  # half a character, as JavaScript writes one that was cut: only the slower parser takes it
        return json.loads(line, parse_int=float)  # an integer of 4,000 digits takes it a hundred times as long
    except (ValueError, RecursionError):
        raise _Bad("invalid JSON") from None


def _values(line: bytes) -> int:
    """About how many values a parser would make of a line; what looks like one inside a text is none."""
    seen = sum(map(line.count, _PUNCTUATION))
    if seen <= MOST_VALUES:
        return seen
    bare = line.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = bare.count(b'"') // 2
    if strings > 2 * MOST_VALUES:  # keys and values
        return strings
    outside = b"".join(bare.split(b'"')[::2])
    return sum(map(outside.count, _PUNCTUATION))


def _quiet(line: bytes | None) -> Message | None:
    try:
        return _message(line)
    except _Bad:
        return None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    if not isinstance(content, list):
        return ""
    blocks = (
        block if isinstance(block, str) else block.get("text") if block.get("type") == "text" else None
        for block in content
        if isinstance(block, str | dict)
    )
    return "\n".join(block for block in blocks if isinstance(block, str)).strip()


def _word(value: Any, most: int = 200) -> str | None:
    return value[:most] if isinstance(value, str) and value else None


def _at(timestamp: str | None) -> float | None:
    try:
        return None if timestamp is None else instant(timestamp)
    except ValueError:
        return None


def _count(facts: Facts, message: Message) -> None:
    facts.message_count += 1
    facts.text_message_count += bool(message.text)
    facts.session_id = facts.session_id or message.session_id
    facts.cwd = facts.cwd or message.cwd
    if message.session_id and message.session_id not in facts.sessions and len(facts.sessions) < SESSIONS:
        facts.sessions.append(message.session_id)
    said_at = _at(message.timestamp)
    # A clock that ran ahead would hide everything said until then from the run that goes on behind `last_at`.
    if said_at is not None and said_at <= time.time() + AHEAD_SECONDS:
        facts.first_at = facts.first_at or message.timestamp
        if facts.last_at is None or said_at > (_at(facts.last_at) or 0):
            facts.last_at = message.timestamp


def _warn(facts: Facts, text: str) -> None:
    if len(facts.warnings) < WARNINGS:
        facts.warnings.append(text)


def _fitting(text: str, start: int, budget: int) -> tuple[int, int]:
    """Up to where the text from ``start`` on fits into ``budget`` characters of JSON, and what that takes."""
    end = min(len(text), start + budget)
    while (spent := len(orjson.dumps(_whole(text[start:end])).decode())) > budget and end - start > 1:
        end = start + max(1, int((end - start) * budget / spent * 0.95))
    return end, spent


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _shown(message: Message, start: int, end: int) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "role": message.role,
        "text": _whole(message.text[start:end]),
        "timestamp": message.timestamp,
        "session_id": message.session_id,
        "cwd": message.cwd,
        "uuid": message.uuid,
        "parentUuid": message.parent,
    }
    if message.sidechain:
        shown["sidechain"] = True
    if start or end < len(message.text):
        shown |= {"starts_at": start, "continues": end < len(message.text)}
    return shown

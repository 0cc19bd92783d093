"""The export files of one principal: names, reading rights, retention. All of it blocks: run it off the event loop."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from app.context import layer_from_name
from app.store.moving.format import LONGEST_LINE

__all__ = ["Exports", "Unfinished", "remove_older"]

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9-]")
_NAME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:-[A-Za-z0-9-]{1,64})?(?:\.\d{1,3})?\.jsonl\Z")
_ABANDONED_SECONDS: Final = 3600.0


class Unfinished:
    """A file that is being written; it shows under its name once it is whole."""

    def __init__(self, part: Path, final: Path, file: BinaryIO) -> None:
        self._part = part
        self._final = final
        self._file = file

    @property
    def name(self) -> str:
        """The name that it will have."""
        return self._final.name

    def write(self, piece: bytes) -> None:
        """Append."""
        self._file.write(piece)

    def finish(self) -> None:
        """Give it its name, on disk for good."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._part.rename(self._final)

    def discard(self) -> None:
        """Leave nothing of it."""
        try:
            self._file.close()  # writes what is buffered: a full disk takes that no more than the rest
        finally:
            self._part.unlink(missing_ok=True)


class Exports:
    """What one subject exported from a tenant, as far as these layers reach: a file with a layer that is not among
    them does not exist (partition rule 18)."""

    def __init__(self, tenant_folder: Path, subject: str, layers: Collection[str]) -> None:
        self._folder = tenant_folder / "exports" / hashlib.sha256(subject.encode()).hexdigest()[:24]
        self._layers = frozenset(layers)

    def begin(self, label: str | None, now: datetime | None = None) -> Unfinished:
        """A new file, named after the moment and the label; a second one of the same second gets a number.

        Raises:
            OSError: there is no room, or no right to write.
        """
        for folder in reversed((self._folder, *list(self._folder.parents)[:3])):
            folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep()
        stem = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H-%M-%S")
        if label:
            stem += f"-{_FOREIGN.sub('-', label)}"
        number = 1
        while True:
            final = self._folder / (f"{stem}.jsonl" if number == 1 else f"{stem}.{number}.jsonl")
            if not final.exists() and (unfinished := _claimed(final)) is not None:
                return unfinished
            number += 1

    def beyond(self, keep: int, newest: str) -> tuple[int, int]:
        """How many :meth:`prune` would remove and leave."""
        held = self._by_age(newest)
        return len(held[keep:]), len(held[:keep])

    def prune(self, keep: int, newest: str) -> tuple[int, int]:
        """Remove all but the ``keep`` newest, ``newest`` being one of them; (removed, left).

        One that cannot be removed is left, and counted so: the next export tries again.
        """
        held, removed = self._by_age(newest), 0
        for path in held[keep:]:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                removed += 1
        return removed, len(held) - removed

    def lasting(self, keep: int, newest: str | None = None) -> tuple[int, int]:
        """(files, bytes) of the tenant's exports, whoever made them, but for one's own beyond the ``keep`` newest;
        ``newest`` is one of them, where it is named."""
        going = {path.name for path in self._by_age(newest)[keep:]}
        sizes = [
            _figures(path)[0]
            for path in self._folder.parent.glob("*/*.jsonl")
            if path.parent != self._folder or path.name not in going
        ]
        return len(sizes), sum(sizes)

    def discard(self, name: str) -> None:
        """Remove a file that was made in vain."""
        (self._folder / name).unlink(missing_ok=True)

    def find(self, name: str) -> Path | None:
        """The file of that name, if this subject made it and may read all of it."""
        path = self._folder / name
        return path if _NAME.match(name) and path.is_file() and self._reads(path) else None

    def listed(self) -> list[dict[str, str | int]]:
        """Names and sizes of the files that may be read, the newest first."""
        return [{"name": path.name, "size_bytes": _figures(path)[0]} for path in self._by_age()]

    def _by_age(self, newest: str | None = None) -> list[Path]:
        """The newest first, and ``newest`` before all others."""
        return sorted(self._held(), key=lambda path: (path.name != newest, -_figures(path)[1], path.name))

    def _held(self) -> Iterator[Path]:
        return (path for path in self._folder.glob("*.jsonl") if _NAME.match(path.name) and self._reads(path))

    def _reads(self, path: Path) -> bool:
        try:
            with path.open("rb") as file:
                layers = orjson.loads(file.readline(LONGEST_LINE))["layers"]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return {layer_from_name(layer) for layer in layers} <= self._layers

    def _sweep(self) -> None:
        """Remove what a process that died left unfinished."""
        for part in self._folder.glob(".*.part"):
            with contextlib.suppress(OSError):
                if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    part.unlink()


def remove_older(tenant_folder: Path, seconds: float, now: float | None = None) -> int:
    """Remove a tenant's exports, whoever made them, that were made more than ``seconds`` ago; how many went.

    One that cannot be removed is left: the next time tries again.
    """
    before, removed = (now or time.time()) - seconds, 0
    for path in tenant_folder.glob("exports/*/*.jsonl"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed


def _claimed(final: Path) -> Unfinished | None:
    """A file that will have this name, unless another call has it by now."""
    part = final.with_name(f".{final.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return None
    unfinished = Unfinished(part, final, os.fdopen(descriptor, "wb"))
    if final.exists():
        unfinished.discard()
        return None
    return unfinished


def _figures(path: Path) -> tuple[int, int]:
    """Bytes and nanoseconds of its last change; zeros of one that another call has just removed."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_mtime_ns

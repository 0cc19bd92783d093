"""What ``graphkeep push`` has dealt with on this device, so that a session's hook knows at once what it has not."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from app.cli.client.place import client_folder
from app.cli.client.push.found import Local, find

__all__ = ["Sent", "unsent"]

_UNDER_WAY: Final = 900.0
"""Seconds since its last change in which a session counts as one that goes on."""


class Sent:
    """A small file of this person: by path, how a file was when it was dealt with, and the hash of what was sent of it.

    It saves reading what was not changed. What is to be sent is decided by what the gateway has.
    """

    def __init__(self) -> None:
        self._path = client_folder() / "sent.json"
        try:
            kept = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError):
            kept = None
        self._kept: dict[str, list[Any]] = kept if isinstance(kept, dict) else {}

    def holds(self, path: Path, seen: os.stat_result) -> bool:
        """Whether the file was dealt with as it is."""
        return self._kept.get(str(path), [])[:2] == [seen.st_mtime_ns, seen.st_size]

    def sha256(self, path: Path, seen: os.stat_result) -> str | None:
        """What was sent of the file as it is, by this version: another one may know more secrets."""
        match self._kept.get(str(path)):
            case [seen.st_mtime_ns, seen.st_size, str(sha256), by] if by == _version():
                return sha256
        return None

    def add(self, path: Path, seen: os.stat_result, sha256: str) -> None:
        """Remember a file as it was before it was read."""
        self._kept[str(path)] = [seen.st_mtime_ns, seen.st_size, sha256, _version()]

    def write(self) -> None:
        """Keep it; forget files that are no longer there."""
        self._kept = {path: seen for path, seen in self._kept.items() if Path(path).exists()}
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._kept, file)
            new.replace(self._path)


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("graphkeep")


def unsent(root: Path) -> int:
    """How many conversations below ``root`` have come to rest and were not dealt with as they are now."""
    sent, now = Sent(), time.time()
    return sum(_waits(local, sent, now) for local in find(root) if local.kind == "transcript")


def _waits(local: Local, sent: Sent, now: float) -> bool:
    try:
        seen = local.path.stat()
    except OSError:
        return False
    return seen.st_size > 0 and now - seen.st_mtime > _UNDER_WAY and not sent.holds(local.path, seen)

"""Uploads that were begun and not finished, so that a command that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["Begun"]


class Begun:
    """A small file of this person: by gateway, layer and name an upload's address and the hash of what it sends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            kept = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            kept = None
        self._kept: dict[str, list[str]] = kept if isinstance(kept, dict) else {}

    def get(self, key: str) -> tuple[str, str] | None:
        """The upload's address, and the hash of what it sends."""
        match self._kept.get(key):
            case [str(url), str(sha256)]:
                return url, sha256
        return None

    def put(self, key: str, url: str, sha256: str) -> None:
        """Remember an upload."""
        self._kept[key] = [url, sha256]
        self._write()

    def drop(self, key: str) -> None:
        """Forget an upload that is finished, or gone."""
        if self._kept.pop(key, None) is not None:
            self._write()

    def _write(self) -> None:
        # What cannot be remembered is sent from its beginning the next time.
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(self._kept, file)
            fresh.replace(self._path)

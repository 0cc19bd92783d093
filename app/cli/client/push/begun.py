"""Uploads that were begun and not finished, so that a command that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

__all__ = ["Begun"]


class Begun:
    """A small file of this person: the address of an upload by gateway, layer, name and hash of what is sent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            kept = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            kept = None
        self._kept: dict[str, str] = kept if isinstance(kept, dict) else {}

    def get(self, key: str) -> str | None:
        """The upload's address."""
        return self._kept.get(key)

    def put(self, key: str, url: str) -> None:
        """Remember an upload."""
        self._kept[key] = url
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

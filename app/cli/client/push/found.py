"""What there is to send on this device: Claude Code's transcripts and memory files.

``<folder>/projects/<project>/<session>.jsonl`` are conversations (``agent-*`` those of its helpers), and
``<folder>/projects/<project>/memory/*.md`` what it noted (``MEMORY.md`` only lists the others). ``<folder>`` is
``CLAUDE_CONFIG_DIR`` or ``.claude`` in the home folder, on Windows too.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

__all__ = ["LeftOut", "Local", "find", "folder", "left_out"]

_LONGEST: Final = 150
"""Bytes of a name; the gateway takes 200."""
_UNSAFE: Final = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True)
class Local:
    """A file on this device; ``name`` is what the gateway calls it."""

    path: Path
    name: str
    kind: Literal["transcript", "memory-file"]
    session: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is not sent, and the reason in words."""

    path: Path
    why: str


def folder() -> Path:
    """Where Claude Code keeps its files."""
    named = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path.home() / ".claude"


def find(root: Path, *, agents: bool = False) -> list[Local]:
    """The files below ``root`` (the folder with ``projects`` in it), oldest change first.

    What cannot be read is passed over: other programs may tidy up meanwhile.
    """
    found = [*_transcripts(root / "projects", agents=agents), *_memory_files(root / "projects")]
    return [local for _, local in sorted(found, key=lambda pair: (pair[0], str(pair[1].path)))]


def left_out(root: Path, *, agents: bool = False) -> list[LeftOut]:
    """Transcripts and notes below ``root`` that ``find`` does not take, by their paths."""
    taken = {local.path for local in find(root, agents=agents)}
    seen = {*root.glob("CLAUDE.md"), *root.glob("projects/*/*.jsonl"), *root.glob("projects/*/memory/**/*.md")}
    return [LeftOut(path, _why(path)) for path in sorted(seen - taken)]


def _why(path: Path) -> str:
    if path.is_symlink():
        return "a link, which may lead anywhere"
    if path.suffix == ".jsonl" and path.name.startswith("agent-"):
        return "the transcript of a helper; --agents sends it"
    if path.name == "MEMORY.md":
        return "it only lists the other memory files"
    if path.name == "CLAUDE.md":
        return "instructions, which every session reads itself"
    if path.suffix == ".md" and path.parent.name != "memory":
        return "it lies in a folder below `memory`"
    return "it is no file that can be read"


def _transcripts(projects: Path, *, agents: bool) -> Iterator[tuple[float, Local]]:
    for path, changed in _files(projects, "*/*.jsonl"):
        if path.name.startswith("agent-") and not agents:
            continue
        yield changed, Local(path, _bounded(path.stem, ".jsonl"), "transcript", path.stem)


def _memory_files(projects: Path) -> Iterator[tuple[float, Local]]:
    for path, changed in _files(projects, "*/memory/*.md"):
        if path.name == "MEMORY.md":
            continue
        project = path.parent.parent.name.lstrip("-")
        yield changed, Local(path, _bounded(f"{project}--{path.stem}", ".md"), "memory-file")


def _files(projects: Path, pattern: str) -> Iterator[tuple[Path, float]]:
    for path in projects.glob(pattern):
        try:
            if path.is_file() and not path.is_symlink():
                yield path, path.stat().st_mtime
        except OSError:
            continue


def _bounded(stem: str, ending: str) -> str:
    """A name that every system can store; one that had to be changed ends in a hash, so that no two are the same."""
    safe = _UNSAFE.sub("-", stem).strip(".- ") or "file"
    cut = safe.encode()[:_LONGEST].decode(errors="ignore")
    if cut != stem:
        cut = f"{cut}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}"
    return cut + ending

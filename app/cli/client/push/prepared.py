"""A file as it will be sent: without secrets, in a temporary file, with the hashes that the gateway compares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from app.cli.client.push.found import Local
from app.cli.client.push.redaction import Redactor

__all__ = ["Prepared", "prepare"]

_BLOCK: Final = 1024 * 1024
_LONGEST_LINE: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is sent of ``local``; sizes in bytes."""

    local: Local
    path: Path
    size: int
    sha256: str
    redacted: int
    """Secrets that were taken out."""

    def begins_with(self, size: int, sha256: str) -> bool:
        """Whether its first ``size`` bytes are those with this hash."""
        if size > self.size:
            return False
        digest, left = hashlib.sha256(), size
        with self.path.open("rb") as file:
            while left and (block := file.read(min(left, _BLOCK))):
                digest.update(block)
                left -= len(block)
        return digest.hexdigest() == sha256


def prepare(local: Local, folder: Path) -> Prepared:
    """Write what is sent of a file into ``folder``, line by line; a last line that is still being written waits.

    Raises:
        OSError: the file cannot be read.
    """
    redactor, path = Redactor(), folder / hashlib.sha256(str(local.path).encode()).hexdigest()[:24]
    digest, size = hashlib.sha256(), 0
    with local.path.open("rb") as source, path.open("wb") as target:
        transcript = local.kind == "transcript"
        for block in redactor.lines(_whole_lines(source)) if transcript else _text(source, redactor):
            digest.update(block)
            size += len(block)
            target.write(block)
    return Prepared(local, path, size, digest.hexdigest(), redactor.count)


def _whole_lines(source: IO[bytes]) -> Iterator[bytes]:
    """The lines that are finished; one that is too long to be a message is left out."""
    while line := source.readline(_LONGEST_LINE):
        if line.endswith(b"\n"):
            yield line
        elif len(line) < _LONGEST_LINE:
            return
        else:
            while (rest := source.readline(_LONGEST_LINE)) and not rest.endswith(b"\n"):
                continue


def _text(source: IO[bytes], redactor: Redactor) -> Iterator[bytes]:
    yield redactor.text(source.read().decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

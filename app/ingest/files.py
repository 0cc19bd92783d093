"""The bytes of what was sent, under the tenant's own folder: ``<home>/tenants/<data id>/ingest``.

``parts/`` holds what is still arriving, ``items/<item id>/`` the ``original`` of a queued item and its ``text``.
Folders are the process's own (0700), names are minted here. Bytes are on the disk before a record names them.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.errors import CallError, InvalidInput, NotFound

__all__ = [
    "PUT_AWAY",
    "Arrived",
    "Files",
    "Staged",
    "TooLargeFile",
    "TooLargeTranscript",
    "allowed_file",
    "held",
    "prefix_hashes",
]

BUFFER: Final = 512 * 1024
EMPTY_SECONDS: Final = 3600.0
PUT_AWAY: Final = "what was arriving was put away meanwhile; send it again from its beginning. Nothing was stored."
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}\Z")


class TooLargeFile(CallError):
    """More bytes than a file may have."""

    reason = "file_too_large"
    status = 413

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a file may have {limit} bytes at most (GRAPHKEEP_INGEST_FILE_BYTES); divide it. A transcript (.jsonl) "
            "may be larger where it comes in parts: graphkeep push, or tus at /ingest/uploads. Nothing was stored."
        )


class TooLargeTranscript(CallError):
    """More bytes than a transcript may have that comes in parts."""

    reason = TooLargeFile.reason
    status = TooLargeFile.status

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"a transcript may have {limit} bytes at most (GRAPHKEEP_INGEST_TRANSCRIPT_BYTES). Nothing was stored."
        )


class Staged:
    """A file on its way in: written in order, hashed as it passes, and removed unless it is kept."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self.size = 0
        self._limit = limit
        self._digest = hashlib.sha256()
        self._buffer = bytearray()
        self._file = open(path, "xb", opener=_private)  # noqa: SIM115 - closed by finish or discard

    @property
    def sha256(self) -> str:
        """Of what has been written, hexadecimal."""
        return self._digest.hexdigest()

    async def write(self, chunk: bytes) -> None:
        """Add bytes.

        Raises:
            TooLargeFile: the file has too many.
        """
        self.size += len(chunk)
        if self.size > self._limit:
            raise TooLargeFile(self._limit)
        self._buffer += chunk
        if len(self._buffer) >= BUFFER:
            await asyncio.to_thread(self._drain)

    async def finish(self) -> None:
        """Bring everything to the disk."""
        await asyncio.to_thread(self._finish)

    def discard(self) -> None:
        """Remove what was not kept."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _drain(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        self._file.write(data)
        self._digest.update(data)

    def _finish(self) -> None:
        self._drain()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


@dataclass(frozen=True, slots=True)
class Arrived:
    """A file that came in parts and is whole now; who put it together removes it."""

    path: Path
    size: int
    sha256: str

    async def finish(self) -> None:
        """It is on the disk."""

    def discard(self) -> None:
        """It stays, in case that it could not be queued yet."""


class Files:
    """Folders and files of all tenants. Blocking, except for :class:`Staged`: what may be long is for a thread."""

    def __init__(self, home: Path, *, limit: int) -> None:
        self._root = home / "tenants"
        self.limit = limit

    def prepare(self, tenant: str) -> None:
        """Make the folder of what is arriving, for a sender who has just been let in; nothing else ever makes it."""
        self._made(self.parts(tenant))

    def stage(self, tenant: str) -> Staged:
        """A new file on its way in.

        Raises:
            NotFound: all that was the tenant's was erased since its sender was let in.
        """
        try:
            return Staged(self.parts(tenant) / f"{secrets.token_hex(12)}.new", self.limit)
        except FileNotFoundError:
            raise NotFound(PUT_AWAY) from None

    def parts(self, tenant: str) -> Path:
        """The folder of what is arriving."""
        return self._tenant(tenant) / "parts"

    def keep(self, staged: Path, tenant: str, item: str) -> None:
        """Make a file that has arrived the original of an item; its first name stays too, till it is removed.

        Raises:
            FileNotFoundError: it was put away meanwhile, or all that is the tenant's was.
        """
        folder = self._below(self._item(tenant, item))
        os.link(staged, folder / "original")
        for changed in (folder, folder.parent):
            _settle(changed)

    def original(self, tenant: str, item: str) -> Path:
        """The bytes as they were sent."""
        return self._item(tenant, item) / "original"

    def text(self, tenant: str, item: str) -> Path:
        """The text that was made of them."""
        return self._item(tenant, item) / "text"

    def put_text(self, tenant: str, item: str, made: Path) -> None:
        """Keep the text that was made."""
        with made.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(made, self.text(tenant, item))
        _settle(self._item(tenant, item))

    def drop(self, tenant: str, item: str) -> None:
        """Remove the files of an item."""
        shutil.rmtree(self._item(tenant, item), ignore_errors=True)

    def scratch(self, tenant: str) -> Path:
        """A folder of its own for one piece of work, on the same disk.

        Raises:
            FileNotFoundError: nothing of the tenant is here.
        """
        return self._below(self.parts(tenant) / f"{secrets.token_hex(12)}.work")

    def forgotten(self, *, seconds: float) -> Iterator[tuple[str, str]]:
        """(tenant, item id) of folders untouched for that long: of those without a record, nothing was accepted."""
        for folder in self._root.glob("*/ingest/items/*"):
            if _age(folder) > seconds:
                yield folder.parents[2].name, folder.name

    def sweep_parts(self, *, seconds: float) -> None:
        """Remove what never arrived whole, once it has not grown for that long; what never began after an hour."""
        for part in self._root.glob("*/ingest/parts/*"):
            if _age(part) > seconds:
                shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
            elif part.suffix == ".bin" and _age(part) > EMPTY_SECONDS and _is_empty(part):
                part.unlink(missing_ok=True)
                part.with_suffix(".json").unlink(missing_ok=True)

    def _item(self, tenant: str, item: str) -> Path:
        return self._tenant(tenant) / "items" / _checked(item)

    def _tenant(self, tenant: str) -> Path:
        return self._root / _checked(tenant) / "ingest"

    def _below(self, folder: Path) -> Path:
        """Make ``folder`` and the one above, inside the tenant's own: that one, once erased, does not come back."""
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        return folder

    def _made(self, folder: Path) -> Path:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
        return folder


@contextmanager
def held(path: Path) -> Iterator[int | None]:
    """A descriptor of the file, which only one process at a time gets; None: another one has it.

    Raises:
        FileNotFoundError: there is no such file.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield descriptor
    finally:
        os.close(descriptor)


def prefix_hashes(path: Path, sizes: list[int]) -> dict[int, str]:
    """SHA-256 of the first bytes of a file, for each of ``sizes``. Blocks: for a thread."""
    digest, at, found = hashlib.sha256(), 0, {}
    with path.open("rb") as file:
        for size in sorted(set(sizes)):
            while at < size and (chunk := file.read(min(BUFFER, size - at))):
                digest.update(chunk)
                at += len(chunk)
            if at == size:
                found[size] = digest.hexdigest()
    return found


def allowed_file(path: str, directories: tuple[str, ...]) -> Path:
    """The real file at ``path``, which must lie under one of ``directories``; links are followed before that is asked.

    Raises:
        InvalidInput: it does not, or is no file.
    """
    real = Path(os.path.realpath(path.replace("\0", "?")))
    roots = [Path(os.path.realpath(root)) for root in directories]
    if not any(real.is_relative_to(root) for root in roots) or not real.is_file():
        raise InvalidInput(
            "file_path is no file under a directory that GRAPHKEEP_INGEST_DIRECTORIES names; use content with "
            "file_name, or PUT /ingest/{name}. Nothing was stored.",
            field="file_path",
        )
    return real


def _checked(word: str) -> str:
    if not _ID.match(word):
        raise ValueError("not an id that was minted here")
    return word


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _settle(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:
        return False

"""Rebuilding the managed database, so that its files hold nothing of what was erased.

The records go from the store in use to a file and from there into a new store beside it. Once the new one was stopped,
started again and found to hold the same, its name is written down and the old one goes. Until then the old one is the
store in use, from then on the new one; whatever was left by a process that died goes with the next start.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from app.errors import StartError
from app.store.compacting.copying import Copy, Fingerprint, Page, Totals, pages
from app.store.compacting.queries import COUNT
from app.store.database import Database
from app.store.embedded import EmbeddedServer, Progress
from app.store.schema import ensure_vector_index, migrate, vector_dimension

__all__ = ["Compacted", "compact"]

_STOP_SECONDS: Final = 120.0
_ROOM: Final = 3
"""Times the size of the store that must be free: the file of records and the new store."""
_BUSY_EXIT: Final = 69  # EX_UNAVAILABLE of sysexits.h
_NO_SPACE_EXIT: Final = 73  # EX_CANTCREAT
_SOFTWARE_EXIT: Final = 70  # EX_SOFTWARE

Shown = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was copied, and the sizes of the two stores in bytes."""

    totals: Totals
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class _Dumped:
    totals: Totals
    dimension: int | None
    """Of the index over vectors, if there is one."""


async def compact(server: EmbeddedServer, progress: Progress, shown: Shown) -> Compacted:
    """Exchange the store of a server that does not run for one that holds its records alone.

    ``shown`` is told what is done ("read", "written", "compared"), how many records are and how many there will be.

    Raises:
        StartError: a gateway or command uses the database, there is none, no room, or the new store differs from the
            old one. The old one is the store in use then, unchanged.
        CallError: the database does not answer; likewise.
    """
    try:
        server.hold()
    except StartError as error:
        if error.exit_code != _BUSY_EXIT:
            raise
        raise StartError(
            "the database is in use: stop the gateway of this home (and commands that run), then repeat the command. "
            "Nothing was changed.",
            exit_code=_BUSY_EXIT,
        ) from error
    files = server.files
    try:
        if not files.initialised:
            raise StartError("this home has no database yet; there is nothing to compact.", exit_code=_BUSY_EXIT)
        await asyncio.to_thread(files.sweep)
        before = await asyncio.to_thread(_size, files.folder / files.store)
        _require_room(files.folder, before)
        store = files.next_store()
        records = files.folder / store / "records.jsonl"
        dumped = await _dumped(server, records, progress, shown)
        await _filled(server, store, dumped, records, progress, shown)
        await asyncio.to_thread(records.unlink)
        await _require_same(server, store, dumped, progress, shown)
        files.use(store)
        await asyncio.to_thread(_drop_logs, files.logs)
        progress("The new store is in use; removing the old one")
        after = await asyncio.to_thread(_size, files.folder / store)
        return Compacted(dumped.totals, before, after)
    finally:
        await server.halt()
        await asyncio.to_thread(files.sweep)
        await server.stop()


async def _dumped(server: EmbeddedServer, records: Path, progress: Progress, shown: Shown) -> _Dumped:
    fingerprint = Fingerprint()
    async with _opened(server, None, progress) as database:
        await migrate(database)
        total = await _many(database)
        await asyncio.to_thread(records.parent.mkdir, 0o700)
        with await asyncio.to_thread(_created, records) as file:
            async for page in pages(database):
                await asyncio.to_thread(_written_down, page, file, fingerprint)
                shown("read", fingerprint.records, total)
        return _Dumped(fingerprint.totals, await vector_dimension(database))


async def _filled(
    server: EmbeddedServer, store: str, dumped: _Dumped, records: Path, progress: Progress, shown: Shown
) -> None:
    done, total = 0, dumped.totals.nodes + dumped.totals.relations
    async with _opened(server, store, progress) as database:
        await migrate(database)
        if dumped.dimension is not None:
            await ensure_vector_index(database, dumped.dimension)
        copy, lines = Copy(database), _read(records)
        while page := await asyncio.to_thread(next, lines, None):
            await copy.write(page)
            done += len(page.rows)
            shown("written", done, total)


async def _require_same(server: EmbeddedServer, store: str, dumped: _Dumped, progress: Progress, shown: Shown) -> None:
    """Read the new store, as it comes up after a stop, and hold it against what was read of the old one."""
    fingerprint, total = Fingerprint(), dumped.totals.nodes + dumped.totals.relations
    async with _opened(server, store, progress) as database:
        async for page in pages(database):
            await asyncio.to_thread(fingerprint.add, page)
            shown("compared", fingerprint.records, total)
    if fingerprint.totals != dumped.totals:
        raise StartError(
            "the new store does not hold what the old one holds; the old one stays in use and nothing was changed.",
            exit_code=_SOFTWARE_EXIT,
        )


@asynccontextmanager
async def _opened(server: EmbeddedServer, store: str | None, progress: Progress) -> AsyncIterator[Database]:
    """The server on one of the stores, stopped in order at the end; the home is kept."""
    address = await server.start(progress, store=store)
    database = await Database.connect(address.uri, address.user, address.password, "neo4j", pool_size=2)
    try:
        yield database
    finally:
        await database.close()
        await server.halt(_STOP_SECONDS)


async def _many(database: Database) -> int:
    counted: dict[str, Any] = (await database.control.read(COUNT))[0]
    return int(counted["nodes"]) + int(counted["relations"])


def _created(path: Path) -> Any:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _written_down(page: Page, file: Any, fingerprint: Fingerprint) -> None:
    file.write(orjson.dumps([page.kind, page.rows]) + b"\n")
    fingerprint.add(page)


def _read(path: Path) -> Iterator[Page]:
    with path.open("rb") as file:
        for line in file:
            yield Page(*orjson.loads(line))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _require_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < _ROOM * size:
        raise StartError(
            f"the disk of {folder} has {free // 2**20} MB free; a new store beside the old one needs "
            f"{_ROOM * size // 2**20} MB. Nothing was changed.",
            exit_code=_NO_SPACE_EXIT,
        )


def _drop_logs(folder: Path) -> None:
    """The engine's logs begin anew: one of them may quote a statement of the time before."""
    for path in folder.iterdir():
        if path.is_file():
            path.unlink()

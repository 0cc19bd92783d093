"""One tenant's memory as a file, for the operator's own shelf: every layer, vectors if asked for."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from app.context import Deadline, Scope
from app.errors import InternalError, InvalidInput, Overloaded
from app.memory.moving.export import MOVED_MEANWHILE, moves_of, vectors_made_by
from app.memory.moving.records import Records
from app.memory.moving.shelf import backup_name
from app.store.control.tenants import Tenant
from app.store.database import Database, TenantSession
from app.store.moving.dump import Dump
from app.store.moving.format import Counts, Summary, records, verified
from app.store.moving.queries import COUNT_MERGED

__all__ = ["BackedUp", "back_up"]

_SECONDS: Final = 120.0
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class BackedUp:
    """A backup that was read back and found whole."""

    path: Path
    counts: Counts
    size: int
    sha256: str


async def back_up(
    database: Database,
    tenant: Tenant,
    folder: Path,
    *,
    vectors: bool = False,
    shown: Callable[[int, int], None] = lambda done, total: None,
) -> BackedUp:
    """Write a file of ``backup_name`` into ``folder``, readable by its owner alone, and read it back.

    Raises:
        OSError: the folder takes no file, or has this one already. InternalError: it does not read as it should.
            Overloaded: entities were merged or taken apart meanwhile, three times. CallError: the database does not
            answer. No file is left then.
    """
    for _ in range(_ATTEMPTS):
        made = await _attempt(database, tenant, folder, vectors, shown)
        if made is not None:
            return made
    raise Overloaded(MOVED_MEANWHILE)


async def _attempt(
    database: Database, tenant: Tenant, folder: Path, vectors: bool, shown: Callable[[int, int], None]
) -> BackedUp | None:
    """The backup, or None if a relation may be missing in it."""

    def opened(scope: Scope) -> TenantSession:
        return database.session(scope, deadline=Deadline.after(_SECONDS), request_id="backup")

    layers = tuple(sorted(tenant.all_layers()))
    embedding = await vectors_made_by(database.control) if vectors else None
    dump = Dump(opened, tenant.data, layers, vectors=vectors, embedding=embedding)
    counted = (await opened(Scope(tenant.data, layers, (), None, "backup")).read(COUNT_MERGED))[0]
    path = folder / backup_name(tenant, datetime.now(UTC))
    part = path.with_name(f".{path.name}.part")
    total = counted["nodes"] + counted["edges"]
    moved = await moves_of(database.control, tenant.data, layers)
    file = await asyncio.to_thread(_created, part)
    try:
        with file:
            async for piece in dump.lines(counted):
                await asyncio.to_thread(file.write, piece)
                shown(dump.seal.counts.nodes + dump.seal.counts.edges, total)
            file.flush()
            os.fsync(file.fileno())
        summary = await asyncio.to_thread(_read_back, part)
        if summary.counts != dump.seal.counts:
            raise InternalError("the backup does not read as it was written; the disk may be failing")
        if await moved():
            return None
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    return BackedUp(path, summary.counts, dump.seal.size, dump.seal.file_sha256)


def _read_back(part: Path) -> Summary:
    """The file as a restore would read it, record for record."""
    summary, reading = verified(part), Records()
    for number, record in records(part):
        try:
            reading.rows(number, record)
        except InvalidInput as error:
            raise InternalError(f"no restore would take this backup, so it was not kept: {error.message}") from error
    return summary


def _created(part: Path) -> BinaryIO:
    return os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

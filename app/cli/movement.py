"""What the commands that move memory do, with answers that a script can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, cast

from app.access.service import accounts_of
from app.cli.client.console import EX_CONFIG, require
from app.cli.database import connected, own_server, reachable, running
from app.context import layer_from_name
from app.errors import CallError, Conflict, DatabaseUnavailable, InvalidInput, StartError
from app.memory.moving.backup import back_up
from app.memory.moving.exchange import erase_leftovers
from app.memory.moving.importing import import_memory
from app.memory.moving.restore import restore
from app.memory.moving.shelf import Shelved, shelved
from app.memory.moving.sources import is_graph_memory
from app.settings import Settings
from app.store.compacting.compact import compact
from app.store.control.tenants import Tenant, TenantState, check_layer_name
from app.store.database import Database
from app.store.moving.format import Counts, verified

__all__ = ["Movement", "compacted", "movement"]

_CANNOT_CREATE = 73
Shown = Callable[[int, int], None]
Stages = Callable[[str, int, int], None]


@asynccontextmanager
async def movement(settings: Settings) -> AsyncIterator[Movement]:
    """The commands, on the database that the settings lead to.

    Raises:
        StartError: there is no way to it.
    """
    # No gateway of this home runs on the database that this command is about to start: nobody has to be waited for.
    alone = settings.store.neo4j_uri is None and running(settings) is None
    async with reachable(settings) as used, connected(used) as database:
        yield Movement(database, used, alone=alone)


async def compacted(settings: Settings, progress: Callable[[str], None], shown: Stages) -> dict[str, Any]:
    """Rebuild the files of the managed database: {nodes, relations, checksum, before_bytes, after_bytes}.

    Raises:
        StartError: the database is an external one, is in use, or cannot be rebuilt; nothing was changed then.
    """
    if settings.store.neo4j_uri is not None:
        raise StartError(
            "NEO4J_URI names a database that graphkeep does not manage, so its files are its operator's to rebuild: "
            "`neo4j-admin database copy` makes a new store of it (Enterprise edition); without that tool, what was "
            "erased goes as the files are written over. Nothing was changed.",
            exit_code=EX_CONFIG,
        )
    require("embedded")
    done = await compact(own_server(settings), progress, shown)
    return {**asdict(done.totals), "before_bytes": done.before, "after_bytes": done.after}


class Movement:
    """Backups, restores and imports. ``alone``: no gateway serves from this database now."""

    def __init__(self, database: Database, settings: Settings, *, alone: bool) -> None:
        self._database = database
        self._settings = settings
        self._alone = alone
        self._accounts = accounts_of(settings, database)

    async def back_up(
        self, names: Sequence[str] | None, folder: Path, *, vectors: bool, shown: Shown
    ) -> dict[str, Any]:
        """Back up these tenants, or all: {"backups", "failed"}.

        Of all, one that cannot be backed up keeps no other from it, and is in ``failed`` with the reason.

        Raises:
            NotFound: no such tenant. StartError: the folder cannot be written to. CallError: one of these tenants
                cannot be backed up.
        """
        made: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        every = [tenant for tenant in await self._accounts.tenants.all() if tenant.state is not TenantState.DELETED]
        chosen = every if names is None else [await self._accounts.tenant(name) for name in names]
        await _made(folder)
        for tenant in chosen:
            try:
                made.append(await self._one(tenant, folder, vectors=vectors, shown=shown))
            except (CallError, StartError) as error:
                if names is not None:
                    raise
                failed.append({"tenant": tenant.name, "error": str(error)})
        return {"backups": made, "failed": failed}

    async def restore(
        self, file: Path, name: str, *, into_new: bool, replace: bool, ids: str, shown: Shown
    ) -> dict[str, Any]:
        """Make a file the memory of a tenant: a backup or export of graphkeep, or an export of the graph-memory server.

        Raises:
            CallError: as :func:`app.memory.moving.restore.restore` does; a tenant made for it is gone then.
        """
        await _readable(file)
        await self._swept()
        tenant = await (self._accounts.create_tenant(name) if into_new else self._accounts.tenant(name))
        alone = self._alone or into_new
        try:
            if await asyncio.to_thread(is_graph_memory, file):
                done = await self._converted(tenant, file, replace=replace, alone=alone, shown=shown)
            else:
                kept = cast("Literal['keep', 'new']", ids)
                restored = await restore(
                    *(self._database, self._settings, tenant, file),
                    ids=kept,
                    replace=replace,
                    alone=alone,
                    shown=shown,
                )
                done = restored.counts, restored.without_vector
        except BaseException:
            if into_new:
                await self._accounts.set_tenant_state(tenant, TenantState.DELETED)
            raise
        counts, without_vector = done
        return {"tenant": tenant.name, **asdict(counts), "without_vector": without_vector}

    async def restore_all(self, folder: Path, *, ids: str, shown: Shown) -> dict[str, Any]:
        """Restore each tenant's newest whole backup in a folder: {"restored", "failed", "passed_over"}.

        The tenant is the one of the name in the file's name: it is made, or is empty. One that cannot be restored keeps
        no other from it, and is in ``failed``; newer files that are not whole are in ``passed_over``. Both say why.

        Raises:
            InvalidInput: the folder holds no backup. DatabaseUnavailable: the database does not answer; what was
                restored before stays.
        """
        found: dict[str, Any] = {"restored": [], "failed": [], "passed_over": []}
        named: set[str] = set()
        for backups in await asyncio.to_thread(shelved, folder):
            name = backups[0].tenant
            try:
                if name.casefold() in named:
                    raise Conflict("a tenant of this name was backed up later, by another id. It was left out.")
                named.add(name.casefold())
                file = await _newest_whole(backups, found["passed_over"])
                into_new = await self._accounts.tenants.by_name(name) is None
                done = await self.restore(file, name, into_new=into_new, replace=False, ids=ids, shown=shown)
                found["restored"].append({**done, "file": str(file)})
            except DatabaseUnavailable:
                raise
            except OSError as error:
                why = f"the disk failed: {error.strerror}. Look what the tenant holds before you try it again."
                found["failed"].append({"tenant": name, "error": why})
            except (CallError, StartError) as error:
                found["failed"].append({"tenant": name, "error": str(error)})
        return found

    async def take_over(
        self, file: Path, source: str, name: str, *, layer: str, skip_bad: bool, shown: Shown
    ) -> dict[str, Any]:
        """Import another system's file.

        Raises:
            CallError: as :func:`app.memory.moving.importing.import_memory` does.
        """
        await _readable(file)
        await self._swept()
        tenant = await self._accounts.tenant(name)
        done = await import_memory(
            self._database,
            self._settings,
            tenant,
            file,
            source,
            layer=_existing(tenant, layer),
            skip_bad=skip_bad,
            alone=self._alone,
            shown=lambda done: shown(done, 0),
        )
        return {"tenant": tenant.name, **asdict(done)}

    async def _converted(
        self, tenant: Tenant, file: Path, *, replace: bool, alone: bool, shown: Shown
    ) -> tuple[Counts, int]:
        """The other server's export: its ids are no names, and two entities may share one, so ids follow from names."""
        done = await import_memory(
            self._database,
            self._settings,
            tenant,
            file,
            "graph-memory",
            alone=alone,
            instead="any" if replace else "empty",
            shown=lambda done: shown(done, 0),
        )
        return done.holds, done.without_vector

    async def _one(self, tenant: Tenant, folder: Path, *, vectors: bool, shown: Shown) -> dict[str, Any]:
        try:
            made = await back_up(self._database, tenant, folder, vectors=vectors, shown=shown)
        except OSError as error:
            raise _unwritable(error) from error
        figures = {**asdict(made.counts), "size_bytes": made.size, "sha256": made.sha256}
        return {"tenant": tenant.name, "file": str(made.path), **figures}

    async def _swept(self) -> None:
        """What an interrupted restore left is no obstacle to the next one."""
        await erase_leftovers(self._database, self._settings)


async def _newest_whole(backups: Sequence[Shelved], passed_over: list[dict[str, Any]]) -> Path:
    """The first of a tenant's backups that is whole; those before it are passed over.

    Raises:
        InvalidInput: none is.
    """
    for backup in backups:
        try:
            await _readable(backup.path)
            await asyncio.to_thread(verified, backup.path)
        except InvalidInput as error:
            why = str(error)
        except OSError as error:
            why = str(_unreadable(error))
        else:
            return backup.path
        passed_over.append({"tenant": backup.tenant, "file": str(backup.path), "error": why})
    raise InvalidInput("none of its backups is whole. Nothing was changed.", field="file")


async def _made(folder: Path) -> None:
    try:
        await asyncio.to_thread(folder.mkdir, mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(error) from error


def _unwritable(error: OSError) -> StartError:
    return StartError(
        f"cannot write to the folder: {error.strerror}. No incomplete backup was left.", exit_code=_CANNOT_CREATE
    )


async def _readable(file: Path) -> None:
    def read() -> None:
        with file.open("rb") as opened:
            opened.read(1)

    try:
        await asyncio.to_thread(read)
    except OSError as error:
        raise _unreadable(error) from error


def _unreadable(error: OSError) -> InvalidInput:
    return InvalidInput(f"the file cannot be read: {error.strerror}. Nothing was changed.", field="file")


def _existing(tenant: Tenant, name: str) -> str:
    layer = layer_from_name(name)
    if layer and check_layer_name(layer) not in tenant.layers:
        raise InvalidInput(f"the tenant has no layer {name!r}; `graphkeep tenant layer add` makes it.", field="layer")
    return layer

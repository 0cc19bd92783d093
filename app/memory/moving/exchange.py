"""Giving a tenant a new data id: filled out of sight, exchanged at once, the old one erased (partition rule 22)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from app.context import OVERRUN_SECONDS, Deadline, Scope
from app.errors import CallError, Conflict
from app.memory.moving.exports import remove_older
from app.settings import Settings
from app.store.control.moves import Move, Moves
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database, TenantSession
from app.store.moving.erase import erase_data
from app.store.moving.load import Load

__all__ = [
    "Exchange",
    "carry_files",
    "erase_leftovers",
    "exchange",
    "keep_leftovers_erased",
    "remove_old_exports",
]

_BATCH_SECONDS: Final = 120.0
_BEAT_SECONDS: Final = 10.0
_FOLLOW_SECONDS: Final = 5.0
"""Time in which every replica has read that a tenant moves."""
_SWEEP_SECONDS: Final = 60.0
_SWEEPS_AN_HOUR: Final = 60
_DAY: Final = 24 * 3600.0


@dataclass(slots=True)
class Exchange:
    """A new data id that is being filled."""

    move: Move
    load: Load
    database: Database
    settings: Settings
    alone: bool
    """Whether no gateway runs on this database: then nobody has to be waited for."""
    flipped: bool = False

    async def freeze(self) -> Tenant:
        """Refuse the tenant's writes, and wait until none is under way; the tenant as it stands then.

        What may take longer than an ordinary write asks ``require_in_place`` before it commits, and is refused.

        Raises:
            Conflict: the move was given up by another process.
        """
        moves = Moves(self.database.control)
        await moves.freeze(self.move)
        if not self.alone:
            await asyncio.sleep(_FOLLOW_SECONDS + self.settings.limits.write_seconds)
            await moves.beat(self.move)
        tenant = await Tenants(self.database.control).by_id(self.move.tenant)
        if tenant is None:
            raise Conflict("this tenant was erased meanwhile. Nothing was applied.")
        return tenant

    async def finish(self, layers: Collection[str], *, action: str) -> None:
        """Give the tenant what was filled.

        Raises:
            Conflict: the move was given up by another process.
        """
        await Moves(self.database.control).flip(self.move, layers, actor="command", action=action)
        self.flipped = True

    def reading(self, scope: Scope) -> TenantSession:
        """A door to either data id, for a batch."""
        return self.database.session(scope, deadline=Deadline.after(_BATCH_SECONDS), request_id="moving")


@contextlib.asynccontextmanager
async def exchange(database: Database, settings: Settings, tenant: str, *, alone: bool) -> AsyncIterator[Exchange]:
    """Begin a new data id for the tenant (a control id). Leaving the block without ``finish`` leaves nothing of it.

    Raises:
        Conflict: the tenant moves already, or was deleted.
    """
    moves = Moves(database.control)
    move = await moves.begin(tenant)

    def opened(scope: Scope) -> TenantSession:
        return database.session(scope, deadline=Deadline.after(_BATCH_SECONDS), request_id="moving")

    made = Exchange(move, Load(opened, move.id), database, settings, alone)
    beating = asyncio.create_task(_keep_beating(moves, move))
    try:
        yield made
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await _leave(made, moves)


async def _leave(made: Exchange, moves: Moves) -> None:
    """Erase the data id that is no longer wanted.

    A commit that nobody acknowledged may have given the tenant the new one: that a move which could not be given up
    is not finished must be seen, not guessed.
    """
    move, gone = made.move, made.move.id
    if made.flipped or (not await moves.give_up(move.id) and await moves.arrived(move)):
        await asyncio.to_thread(carry_files, made.settings, move.before, move.id)
        if not made.alone:
            return  # who reads at the old one goes on for a while; the gateway erases it
        gone = move.before
    await erase_data(made.database.control, gone)
    await moves.forget(gone)


async def erase_leftovers(database: Database, settings: Settings, *, abandoned_after: float | None = None) -> int:
    """Erase what moves left behind, once nobody can be reading it; how many data ids went.

    Raises:
        CallError: the database does not answer; what is left goes with the next call.
    """
    moves, erased = Moves(database.control), 0
    patience = {} if abandoned_after is None else {"older_than": abandoned_after}
    for move in await moves.abandoned(**patience):
        await moves.give_up(move)
    longest = _FOLLOW_SECONDS + settings.limits.whole_graph_seconds + OVERRUN_SECONDS
    waits = longest if abandoned_after is None else abandoned_after
    for left in await moves.left(older_than=waits):
        if left.to is not None:
            await asyncio.to_thread(carry_files, settings, left.data, left.to)
        await erase_data(database.control, left.data)
        await moves.forget(left.data)
        erased += 1
    return erased


async def keep_leftovers_erased(database: Database, settings: Settings) -> None:
    """Do so every minute, and remove old exports every hour, for ever; a database that is away is asked next time."""
    for minute in count():
        await asyncio.sleep(_SWEEP_SECONDS)
        with contextlib.suppress(CallError, OSError):
            await erase_leftovers(database, settings)
        if minute % _SWEEPS_AN_HOUR == 0:
            with contextlib.suppress(CallError, OSError):
                await remove_old_exports(database, settings)


async def remove_old_exports(database: Database, settings: Settings) -> int:
    """Remove what tenants exported longer ago than their rule, or the configuration, lets it stay; how many went.

    Raises:
        CallError: the database does not answer.
    """
    removed = 0
    for tenant in await Tenants(database.control).all():
        days = tenant.rules.export_days or settings.limits.export_days
        if days and tenant.state is not TenantState.DELETED:
            folder = settings.run.tenant_folder(tenant.data)
            removed += await asyncio.to_thread(remove_older, folder, days * _DAY)
    return removed


def carry_files(settings: Settings, before: str, after: str) -> None:
    """Bring a tenant's files to the folder of its new data id; what is there already stays. It blocks."""
    _merge(settings.run.tenant_folder(before), settings.run.tenant_folder(after))


def _merge(source: Path, target: Path) -> None:
    if not source.is_dir():
        return
    if not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        source.rename(target)
        return
    for each in source.iterdir():
        if each.is_dir():
            _merge(each, target / each.name)
        elif not (target / each.name).exists():
            each.rename(target / each.name)
    with contextlib.suppress(OSError):
        source.rmdir()


async def _keep_beating(moves: Moves, move: Move) -> None:
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        with contextlib.suppress(CallError):
            await moves.beat(move)

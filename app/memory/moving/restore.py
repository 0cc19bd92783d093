"""Reading a backup into a tenant: verified first, filled under a new data id, checked, exchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from app.context import Deadline, Scope
from app.embedding.model import EmbeddingIdentity
from app.errors import Conflict, QuotaExceeded
from app.memory.moving.batches import Batches
from app.memory.moving.exchange import Exchange, exchange
from app.memory.moving.records import Records
from app.settings import Settings
from app.store.control.embedding import decision
from app.store.control.tenants import Tenant
from app.store.database import Database
from app.store.moving.format import Counts, Summary, records, verified
from app.store.moving.queries import COUNT_STORED

__all__ = ["Restored", "embedding_key", "held", "require_empty", "restore"]

_COUNT_SECONDS: Final = 120.0
Shown = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did."""

    counts: Counts
    without_vector: int
    """Entities found by their words alone until they are embedded."""
    layers: tuple[str, ...]


async def restore(
    database: Database,
    settings: Settings,
    tenant: Tenant,
    path: Path,
    *,
    ids: Literal["keep", "new"] = "keep",
    replace: bool = False,
    alone: bool = False,
    shown: Shown = lambda done, total: None,
) -> Restored:
    """Make what the file holds the memory of the tenant. Until the last moment nobody sees any of it.

    ``alone``: no gateway runs on this database. ``shown`` is told how many records of how many are written.

    Raises:
        InvalidInput: the file is not whole or not ours; the line is named.
        Conflict: the tenant holds records and ``replace`` was not said, or it is being moved already.
        QuotaExceeded: the file holds more than the tenant may.
    """
    summary = await asyncio.to_thread(verified, path)
    _within_quota(summary, tenant, settings)
    if not replace:
        await require_empty(database, tenant)
    reading = Records(vectors=await embedding_key(database), ids=ids)
    async with exchange(database, settings, tenant.id, alone=alone) as under_way:
        total = summary.counts.nodes + summary.counts.aliases + summary.counts.edges
        rows = (row for number, record in records(path) for row in reading.rows(number, record))
        async with Batches(under_way.load, lambda done: shown(done, total)) as batches:
            await batches.pour(rows)
            await batches.flush()
        if ids == "keep":
            await under_way.load.check(summary.counts)
        else:
            await under_way.load.check(under_way.load.counts)
        await _finish(under_way, database, reading, replace=replace)
        return Restored(under_way.load.counts, reading.without_vector, tuple(sorted(reading.layers)))


async def _finish(under_way: Exchange, database: Database, reading: Records, *, replace: bool) -> None:
    tenant = await under_way.freeze()
    if not replace:
        await require_empty(database, tenant)  # nobody wrote meanwhile, nor into a layer that is new
    await under_way.finish(reading.layers, action="tenant.restore")


async def embedding_key(database: Database) -> str | None:
    """What ``embedding_of`` says of vectors of the model in use; None before one was decided on."""
    made_by = await decision(database.control)
    return None if made_by is None else EmbeddingIdentity(made_by.model, made_by.dimension, made_by.recipe).key


async def held(database: Database, tenant: Tenant) -> dict[str, Any]:
    """How many records a tenant has: {nodes, aliases, edges}.

    Raises:
        CallError: the database does not answer.
    """
    scope = Scope(tenant.data, tuple(sorted(tenant.all_layers())), (), None, "restore")
    session = database.session(scope, deadline=Deadline.after(_COUNT_SECONDS), request_id="restore")
    return (await session.read(COUNT_STORED))[0]


async def require_empty(database: Database, tenant: Tenant) -> None:
    """Refuse a tenant that holds a memory.

    Raises:
        Conflict: it does. CallError: the database does not answer.
    """
    if any((await held(database, tenant)).values()):
        raise Conflict(
            f"the tenant {tenant.name!r} holds a memory already. Restore into a new tenant (--into-new), or say "
            "--replace to exchange what it holds. Nothing was changed."
        )


def _within_quota(summary: Summary, tenant: Tenant, settings: Settings) -> None:
    limits, rules = settings.limits, tenant.rules
    for what, many, most in (
        ("entities", summary.counts.nodes, rules.quota_entities or limits.quota_entities),
        ("relations", summary.counts.edges, rules.quota_relations or limits.quota_relations),
    ):
        if many > most:
            raise QuotaExceeded(
                f"the file holds {many} {what} and the tenant may hold {most}. Raise it with `graphkeep tenant limits "
                f"NAME --{what} NUMBER`. Nothing was changed."
            )

"""The memory toolset's service: one object for all its tools, made once when the process starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from app.context import Deadline, Principal, Scope
from app.contract import Call
from app.embedding.provider import Embedder
from app.memory.catalogue import entities
from app.memory.census import Census
from app.memory.find import find
from app.memory.kept import Kept
from app.memory.moving.underway import Exporting
from app.memory.relate import relate
from app.memory.schemas import EntitiesInput, QueryInput, RelateInput, SearchInput
from app.memory.stats import stats
from app.memory.traverse import query
from app.settings import MemorySettings, Settings
from app.store.database import Database, TenantSession
from app.store.undo import Retention

__all__ = ["MemoryService"]


class MemoryService:
    """Entities and relations of a tenant, and the parts that every tool of the memory stands on.

    The tools of a sub-room (``changing``, ``merging``, ``analysis``) are functions over these parts; each answers one
    call and raises only ``CallError``.
    """

    def __init__(self, database: Database, embedder: Embedder, settings: Settings) -> None:
        self.database = database
        self.embedder = embedder
        self.settings = settings
        self.census = Census(self._count, settings.limits)
        self.retention = Retention(settings.store.undo_days, settings.store.undo_bytes)
        self.kept = Kept()
        self.exporting = Exporting(database.control)

    def behaviour(self, principal: Principal) -> MemorySettings:
        """How the memory of this caller's tenant behaves."""
        return self.settings.memory.overlaid(principal.rules.behaviour or ())

    async def relate(self, call: Call, arguments: RelateInput) -> Mapping[str, Any]:
        """``graph_relate``."""
        memory, kept = self.behaviour(call.principal), self.retention
        return await relate(self.database, self.embedder, self.census, call, arguments, memory, retention=kept)

    async def query(self, call: Call, arguments: QueryInput) -> Mapping[str, Any]:
        """``graph_query``."""
        own = self.behaviour(call.principal)
        asked = arguments.completed(max_hops=own.query_hops, min_weight=own.query_min_weight, limit=own.query_limit)
        return await query(self.database, call, asked, own)

    async def entities(self, call: Call, arguments: EntitiesInput) -> Mapping[str, Any]:
        """``graph_entities``."""
        asked = arguments.completed(limit=self.behaviour(call.principal).query_limit)
        return await entities(self.database, call, asked)

    async def search(self, call: Call, arguments: SearchInput) -> Mapping[str, Any]:
        """``graph_search``."""
        return await find(self.database, self.embedder, call, arguments)

    async def stats(self, call: Call) -> Mapping[str, Any]:
        """``graph_stats``."""
        return await stats(self.database, self.kept, call)

    async def held(self, tenant: str, layers: Iterable[str]) -> tuple[int, int]:
        """How many entities and relations the tenant with this data id holds in all of its ``layers``, within a minute.

        Raises:
            CallError: it was never counted, and the database does not answer.
        """
        tally = await self.census.of(tenant, layers)
        return tally.entities, tally.relations

    async def close(self) -> None:
        """End what goes on beside the calls."""
        await self.exporting.close()
        self.kept.close()
        await self.census.close()

    def _count(self, scope: Scope, deadline: Deadline) -> TenantSession:
        return self.database.session(scope, deadline=deadline, request_id="census")

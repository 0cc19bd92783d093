"""How much a tenant holds: quotas, and how many names of its own a partition may add (design §5, §8)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from app.context import Deadline, Scope, TenantRules, layer_name
from app.errors import CallError, InvalidInput, QuotaExceeded
from app.graph.vocabulary import ENTITY_TYPES, RELATIONS
from app.memory.figures.queries import COUNT_ENTITIES, COUNT_RELATIONS
from app.settings import LimitSettings
from app.store.database import TenantSession

__all__ = ["Census", "Tally"]

REFRESH_SECONDS: Final = 60.0
OWN_NAMES: Final = 200
"""Types, and as many relations, that a partition may have beyond the documented ones."""

_COUNT_SECONDS: Final = 10.0
_TENANTS: Final = 2_000
"""Tallies kept in memory; the oldest goes first."""

Opener = Callable[[Scope, Deadline], TenantSession]


@dataclass(slots=True)
class Tally:
    """Counts of one tenant over all its layers: copies, since copies are what is stored."""

    entities: int = 0
    relations: int = 0
    types: dict[str, set[str]] = field(default_factory=dict)
    """Types beyond the documented ones, by layer."""
    verbs: dict[str, set[str]] = field(default_factory=dict)
    """Relations beyond the documented ones, by layer."""
    taken: float = 0.0


class Census:
    """Tallies by tenant, counted when first needed and again, beside the calls, once they are a minute old."""

    def __init__(self, open_session: Opener, limits: LimitSettings) -> None:
        self._open = open_session
        self._limits = limits
        self._tallies: dict[str, Tally] = {}
        self._counting: dict[str, asyncio.Task[Tally]] = {}

    async def of(self, tenant: str, layers: Iterable[str]) -> Tally:
        """The tally of a tenant whose layers are ``layers`` (all there are, not those that a caller may read).

        Raises:
            CallError: it was never counted, and the database does not answer.
        """
        known = self._tallies.get(tenant)
        if known is not None and time.monotonic() - known.taken < REFRESH_SECONDS:
            return known
        task = self._counting.get(tenant)
        if task is None:
            task = asyncio.create_task(self._count(tenant, tuple(sorted(layers))))
            self._counting[tenant] = task
            task.add_done_callback(lambda _: self._counting.pop(tenant, None))
            task.add_done_callback(_seen)
        return known if known is not None else await asyncio.shield(task)

    async def close(self) -> None:
        """Stop counting."""
        for task in list(self._counting.values()):
            task.cancel()
        await asyncio.gather(*self._counting.values(), return_exceptions=True)

    def check(self, tally: Tally, rules: TenantRules, *, entities: int, relations: int) -> None:
        """Refuse what would pass the quota.

        Raises:
            QuotaExceeded: naming the quota, its size and the remedy.
        """
        for what, held, more, most in (
            ("entities", tally.entities, entities, rules.quota_entities or self._limits.quota_entities),
            ("relations", tally.relations, relations, rules.quota_relations or self._limits.quota_relations),
        ):
            if more and held + more > most:
                raise QuotaExceeded(
                    f"this tenant may hold {most} {what} and that quota is used up. Delete or prune what is no longer "
                    f"needed, or ask an operator to raise it: `graphkeep tenant limits NAME --{what} NUMBER` for this "
                    f"tenant, GRAPHKEEP_QUOTA_{what.upper()} for all. Nothing was applied."
                )

    def check_names(self, tally: Tally, layer: str, types: Iterable[str], verbs: Iterable[str]) -> None:
        """Refuse new types or relations beyond ``OWN_NAMES`` of a layer.

        Raises:
            InvalidInput: naming the rule and what to use instead.
        """
        for what, given, documented, held, instead in (
            ("entity types", types, ENTITY_TYPES, tally.types, "Concept, or a `category` property"),
            ("relations", verbs, RELATIONS, tally.verbs, "RELATED_TO with a `relationship_type` property"),
        ):
            known = held.get(layer, set())
            new = set(given) - set(documented) - known
            if new and len(known) + len(new) > OWN_NAMES:
                raise InvalidInput(
                    f"{', '.join(sorted(new)[:5])}: the layer {layer_name(layer)} has {OWN_NAMES} {what} beyond the "
                    f"documented ones already. Use a documented one, for example {instead}. Nothing was applied."
                )

    def add(self, tally: Tally, layer: str, *, entities: int, relations: int, types: set[str], verbs: set[str]) -> None:
        """Count what a call has written."""
        tally.entities += entities
        tally.relations += relations
        tally.types.setdefault(layer, set()).update(types - set(ENTITY_TYPES))
        tally.verbs.setdefault(layer, set()).update(verbs - set(RELATIONS))

    def less(self, tenant: str, *, entities: int, relations: int) -> None:
        """Count what a call has taken away, so that there is room for as much at once."""
        tally = self._tallies.get(tenant)
        if tally is not None:
            tally.entities -= entities
            tally.relations -= relations

    async def _count(self, tenant: str, layers: tuple[str, ...]) -> Tally:
        session = self._open(Scope(tenant, layers, (), None, "census"), Deadline.after(_COUNT_SECONDS))
        tally = Tally()
        for row in await session.read(COUNT_ENTITIES):
            tally.entities += row["number"]
            if row["name"] not in ENTITY_TYPES:
                tally.types.setdefault(row["layer"], set()).add(row["name"])
        for row in await session.read(COUNT_RELATIONS):
            tally.relations += row["number"]
            if row["name"] not in RELATIONS:
                tally.verbs.setdefault(row["layer"], set()).add(row["name"])
        tally.taken = time.monotonic()
        self._tallies.pop(tenant, None)
        self._tallies[tenant] = tally
        while len(self._tallies) > _TENANTS:
            del self._tallies[next(iter(self._tallies))]
        return tally


def _seen(task: asyncio.Task[Tally]) -> None:
    # A count that failed in the background is tried again by the next write; nobody waits for its error.
    if not task.cancelled() and isinstance(task.exception(), CallError):
        return

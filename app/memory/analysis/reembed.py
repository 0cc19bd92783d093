"""``graph_reembed``: vectors for entities that have none, or whose vector another model or recipe made.

Works in batches, each read, embedded and written by itself, so that it can end anywhere and go on later. What somebody
writes to meanwhile keeps the newer vector.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from app.access.layers import require_operator
from app.context import Deadline, Scope
from app.contract import Call, Cursor, Json, Progress
from app.embedding.provider import Embedder
from app.errors import DeadlineExceeded, EmbeddingUnavailable, Overloaded
from app.graph.entity import search_fields
from app.memory.analysis.queries import COUNT_STALE, REWRITE_VECTORS, STALE
from app.memory.analysis.schemas import ReembedInput
from app.memory.compose import Stored, stored_entity
from app.store.control.audit import Audit
from app.store.control.standing import require_in_place
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database, Idempotency, TenantSession, Writing

__all__ = ["ACTION", "MARGIN", "Batches", "Tally", "reembed"]

ACTION: Final = "graph.reembed"

_BATCH: Final = 32
MARGIN: Final = 8.0
"""Seconds of the call that the last batch's write and the answer are kept."""
_NO_TIME: Final = "The time for this call ended; the same call goes on with the rest."
_FAILED: Final = "The embedding model stopped answering; the same call goes on with the rest later."


@dataclass(frozen=True, slots=True)
class _Place:
    """One tenant's records: ``key`` is its control id."""

    key: str
    scope: Scope


@dataclass(slots=True)
class Tally:
    """What came of it so far. Keys are (control id, entity id)."""

    total: int = 0
    due: int = 0
    done: set[tuple[str, str]] = field(default_factory=set)
    errors: set[tuple[str, str]] = field(default_factory=set)
    passed: set[tuple[str, str]] = field(default_factory=set)
    """Entities that were due when the call came to them."""
    note: str | None = None
    last: tuple[str, str, str] | None = None


class _Fresh(Exception):
    """The idempotency key has no answer yet."""


async def reembed(database: Database, embedder: Embedder, call: Call, arguments: ReembedInput) -> Mapping[str, Any]:
    """Answer ``graph_reembed``.

    Raises:
        Forbidden: ``all_tenants`` of somebody who is no operator, or of a connection without the scope ``admin``.
        EmbeddingUnavailable: there is no model; nothing was applied.
        InvalidInput: a cursor of another call.
        CallError: what the store raises; what was embedded before that stays.
    """
    if arguments.all_tenants:
        require_operator(call.principal, "all_tenants", "Without it your own tenant is embedded.")
    if embedder.identity is None:
        raise EmbeddingUnavailable(f"Embedding is not available: {embedder.state}. Nothing was applied.")
    own = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    key = arguments.idempotency_key
    idempotency = None if key is None else Idempotency(key, call.tool, call.arguments_digest)
    before = await _before(own, idempotency)
    if before is not None:
        return before
    answer = await _embedded(database, embedder, call, arguments, recipe=embedder.identity.key)
    if idempotency is None:
        return answer

    async def work(_: Writing) -> Json:
        return answer

    return await own.write(work, idempotency=idempotency)


async def _before(session: TenantSession, idempotency: Idempotency | None) -> Json | None:
    """What the same call answered before."""
    if idempotency is None:
        return None

    async def work(_: Writing) -> Json:
        raise _Fresh

    try:
        return await session.write(work, idempotency=idempotency)
    except _Fresh:
        return None


async def _embedded(
    database: Database, embedder: Embedder, call: Call, arguments: ReembedInput, *, recipe: str
) -> Json:
    question = arguments.model_dump(include={"force", "all_tenants"})
    after = ("", "", "")
    if arguments.cursor:
        after = Cursor.decode(arguments.cursor, call.scope, question, (str, str, str)).position
    places = [place for place in await _places(database, call, all_=arguments.all_tenants) if place.key >= after[0]]
    tally = Tally()
    sessions = {
        place.key: database.session(place.scope, deadline=call.deadline, request_id=call.request_id) for place in places
    }
    starts = {place.key: tuple(after[1:]) if place.key == after[0] else ("", "") for place in places}
    for key, session in sessions.items():
        counted = (await session.read(COUNT_STALE, recipe=recipe, after=list(starts[key])))[0]
        tally.total += counted["total"]
        tally.due += counted["ahead"] if arguments.force else counted["stale"]
    for place in places:
        session = sessions[place.key]
        batches = Batches(session, embedder, call.deadline, call.progress, place.key, tally, recipe, arguments.force)
        if not await batches.run(starts[place.key]):
            break
    remaining = max(0, tally.due - len(tally.passed))
    answer: Json = {
        "embedded": len(tally.done),
        "skipped": tally.total - tally.due + len(tally.passed - tally.done),
        "errors": len(tally.errors),
        "remaining": remaining,
        "force": arguments.force,
        "scope": "all-tenants" if arguments.all_tenants else call.principal.tenant_name,
    }
    if tally.note is not None:
        answer["note"] = tally.note
        if tally.last is not None:
            answer["next_cursor"] = Cursor(tally.last).encode(call.scope, question)
    return answer


async def _places(database: Database, call: Call, *, all_: bool) -> list[_Place]:
    if not all_:
        return [_Place(call.principal.tenant, call.scope)]
    control = database.control.until(call.deadline, call.request_id)
    tenants = [tenant for tenant in await Tenants(control).all() if tenant.state is TenantState.ACTIVE]
    await Audit(control).append_each(
        [*(tenant.id for tenant in tenants), call.principal.tenant],
        actor=call.principal.subject,
        action=ACTION,
        detail={"all_tenants": True},
    )
    places = []
    for tenant in sorted(tenants, key=lambda tenant: tenant.id):
        layers = tuple(sorted(tenant.all_layers()))
        places.append(_Place(tenant.id, Scope(tenant.data, layers, layers, None, call.scope.subject)))
    return places


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one tenant, whose control id is ``key``. ``standing`` asks whether it may still be written to."""

    session: TenantSession
    embedder: Embedder
    deadline: Deadline
    progress: Progress
    key: str
    tally: Tally
    recipe: str
    force: bool = False
    standing: Callable[[Writing, str], Awaitable[None]] = require_in_place

    async def run(self, after: tuple[str, ...]) -> bool:
        """Embed from ``after`` (id, layer) on; whether the end was reached."""
        while True:
            if self.deadline.remaining() < MARGIN:
                self.tally.note = _NO_TIME
                return False
            rows = await self.session.read(STALE, after=list(after), recipe=self.recipe, force=self.force, limit=_BATCH)
            if not rows:
                return True
            copies = [stored_entity(row["layer"], row["properties"]) for row in rows]
            if not await self._batch(copies, [row["seen"] for row in rows]):
                return False
            after = (copies[-1].id, copies[-1].layer)
            self.tally.last = (self.key, *after)
            await self.progress(len(self.tally.passed), max(self.tally.due, len(self.tally.passed)), "embedded")
            if len(rows) < _BATCH:
                return True

    async def _batch(self, copies: Sequence[Stored], seen: Sequence[str | None]) -> bool:
        passages = [_passage(copy) for copy in copies]
        keys = [(self.key, copy.id) for copy in copies]
        try:
            made = await self.embedder.passages(passages, self.deadline.sooner(self.deadline.remaining() - MARGIN / 2))
        except (EmbeddingUnavailable, Overloaded, DeadlineExceeded):
            self.tally.note = _FAILED
            self.tally.errors.update(keys)
            return False
        vectors = [
            {"place": place, "id": copy.id, "layer": copy.layer, "seen": seen[place], "embedding": vector}
            for place, (copy, vector) in enumerate(zip(copies, made, strict=True))
        ]

        async def work(writing: Writing) -> Json:
            done = (await writing.run(REWRITE_VECTORS, vectors=vectors, recipe=self.recipe))[0]["done"]
            await self.standing(writing.control(), self.session.scope.tenant)
            return {"done": done}

        done = (await self.session.write(work))["done"]
        self.tally.passed.update(keys)
        self.tally.done.update(keys[place] for place in done)
        return True


def _passage(copy: Stored) -> str:
    """What the entity's vector stands for, as every write puts it together."""
    properties = {**copy.extra, **copy.native}
    return search_fields(copy.name, copy.aliases, copy.type, properties, copy.evidence).passage

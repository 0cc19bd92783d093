"""Another model for the whole database: ``graphkeep reembed``.

The decision is made anew first. From then on no vector of the old model is compared with: gateways notice, and find by
words. Then the index is made for the new vectors, and every entity of every tenant gets one, batch by batch. Cut short
anywhere, the next run goes on with what is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.context import Deadline, Scope
from app.embedding.choosing import open_chosen, stand_in, wanted
from app.embedding.model import Model, ModelMissing
from app.embedding.provider import FOLLOW_SECONDS, Embedder
from app.errors import EmbeddingUnavailable, InvalidInput, Overloaded
from app.memory.analysis.queries import COUNT_STALE
from app.memory.analysis.reembed import ACTION, Batches, Tally
from app.settings import Settings
from app.store.control.audit import Audit
from app.store.control.embedding import EmbeddingDecision, decide_anew, decision
from app.store.control.standing import require_kept
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database, TenantSession
from app.store.schema import ensure_vector_index, vector_dimension

__all__ = ["Anew", "Outlook", "Result", "without_vector"]

Shown = Callable[[int, int], None]
"""Told how many of how many are embedded."""
Said = Callable[[str], None]
"""Told in a sentence what goes on."""

_SLICE_SECONDS: Final = 120.0
_ROUNDS: Final = 3
"""Times that is embedded what gateways wrote meanwhile that had not noticed yet."""
_NOTICED_SECONDS: Final = 2 * FOLLOW_SECONDS
_NOBODY: Final = "command"


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a run would do. ``before`` is None where no model was decided on; ``due`` of the ``entities`` lack one."""

    before: EmbeddingDecision | None
    after: EmbeddingDecision
    entities: int
    due: int

    @property
    def changes(self) -> bool:
        """Whether another model takes the place of one."""
        return self.before is not None and self.before.key != self.after.key


@dataclass(frozen=True, slots=True)
class Result:
    """What a run did. ``left``: entities that have no vector of the model still; ``failed``: it stopped answering."""

    embedded: int
    left: int
    failed: bool


class Anew:
    """Embeds everything by the model of the setting. ``alone``: no gateway serves from this database."""

    def __init__(self, database: Database, settings: Settings, *, alone: bool) -> None:
        self._database = database
        self._settings = settings.embedding
        self._folder: Path = settings.run.folder
        self._alone = alone

    async def outlook(self) -> Outlook:
        """What a run would do.

        Raises:
            InvalidInput: the setting names no model. EmbeddingUnavailable: its model cannot be had, and none was
                decided on in its place.
        """
        if self._settings.embedding == "none":
            raise InvalidInput("GRAPHKEEP_EMBEDDING is none, so there is no model to embed by. Nothing was changed.")
        before = await decision(self._database.control)
        model = await self._model(before)
        after = wanted(self._settings, model)
        await model.close()
        return Outlook(before, after, *await without_vector(self._database, after.key))

    async def run(self, outlook: Outlook, *, shown: Shown, said: Said) -> Result:
        """Decide on the model of the outlook, and embed what has no vector of it.

        Raises:
            EmbeddingUnavailable: the model is not there any more. Conflict: another was decided on meanwhile.
                CallError: the database does not answer. In each case the next run goes on with what is left.
        """
        control, after = self._database.control, outlook.after
        if outlook.before != after:
            await decide_anew(control, after)
        if outlook.changes and not self._alone:
            said(f"Decided. Waiting {_NOTICED_SECONDS:.0f} s, until every gateway has noticed")
            await asyncio.sleep(_NOTICED_SECONDS)
        if await vector_dimension(self._database) != after.dimension:
            said(f"Making the index of vectors for {after.dimension} dimensions")
        await ensure_vector_index(self._database, after.dimension)
        if outlook.due:
            detail: dict[str, str | int | bool] = {"model": after.model, "all_tenants": True}
            tenants = [tenant.id for tenant in await _kept(self._database)]
            await Audit(control).append_each(tenants, actor=_NOBODY, action=ACTION, detail=detail)
        embedder = Embedder(self._settings, self._folder)
        try:
            await embedder.start(self._database)
            if embedder.identity is None or embedder.identity.key != after.key:
                raise EmbeddingUnavailable(f"The model is not there any more: {embedder.state}. The next run goes on.")
            result = await self._rounds(embedder, after.key, outlook.due, shown)
            # A gateway of an older release may have made the index of its own model meanwhile.
            await ensure_vector_index(self._database, after.dimension)
            return result
        finally:
            await embedder.close()

    async def _model(self, before: EmbeddingDecision | None) -> Model:
        """The model of the setting, or while that cannot be had the one that stands in for it."""
        cache, packaged = self._folder / "models", stand_in(self._settings, before)
        try:
            return await open_chosen(self._settings, cache)
        except ModelMissing as error:
            if packaged is None:
                raise EmbeddingUnavailable(
                    f"The setting's model cannot be had: {error}. Nothing was changed."
                ) from error
            return await open_chosen(self._settings, cache, recorded=packaged)

    async def _rounds(self, embedder: Embedder, recipe: str, due: int, shown: Shown) -> Result:
        run = _Run(self._database, embedder, recipe, due, shown)
        left = due
        for _ in range(_ROUNDS):
            for tenant in await _kept(self._database):
                if not run.failed:
                    await run.tenant(tenant)
            _, left = await without_vector(self._database, recipe)
            if run.failed or not left:
                break
        return Result(run.embedded, left, run.failed)


@dataclass(slots=True)
class _Run:
    database: Database
    embedder: Embedder
    recipe: str
    due: int
    shown: Shown
    embedded: int = 0
    failed: bool = False

    async def tenant(self, tenant: Tenant) -> None:
        """Embed what is due of one tenant; what is being moved is left for another round."""
        after: tuple[str, ...] = ("", "")
        while True:
            deadline = Deadline.after(_SLICE_SECONDS)
            session, tally = _session(self.database, tenant, deadline), Tally()

            async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
                self.shown(self.embedded + int(done), max(self.due, self.embedded + int(done)))

            batches = Batches(
                session, self.embedder, deadline, progress, tenant.id, tally, self.recipe, standing=require_kept
            )
            try:
                ended = await batches.run(after)
            except Overloaded:
                ended = True
            self.embedded += len(tally.done)
            self.failed = bool(tally.errors)
            if ended or self.failed:
                return
            after = after if tally.last is None else tally.last[1:]


async def without_vector(database: Database, recipe: str) -> tuple[int, int]:
    """Entities of all tenants, and those of them that lack a vector of ``recipe`` in one of their layers.

    Raises:
        CallError: the database does not answer.
    """
    entities = due = 0
    for tenant in await _kept(database):
        session = _session(database, tenant, Deadline.after(_SLICE_SECONDS))
        counted = (await session.read(COUNT_STALE, recipe=recipe, after=["", ""]))[0]
        entities, due = entities + counted["total"], due + counted["stale"]
    return entities, due


async def _kept(database: Database) -> list[Tenant]:
    return [tenant for tenant in await Tenants(database.control).all() if tenant.state is not TenantState.DELETED]


def _session(database: Database, tenant: Tenant, deadline: Deadline) -> TenantSession:
    layers = tuple(sorted(tenant.all_layers()))
    return database.session(Scope(tenant.data, layers, layers, None, _NOBODY), deadline=deadline, request_id=_NOBODY)

"""The embedder that the gateway uses: chosen once per database, recorded there, held to until it is decided anew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from app.context import Deadline
from app.embedding.batcher import Batcher
from app.embedding.choosing import open_chosen, stand_in, wanted
from app.embedding.model import PASSAGE_RECIPE, EmbeddingIdentity, Model, ModelMissing
from app.errors import CallError, EmbeddingUnavailable
from app.settings import EmbeddingSettings
from app.store.control.embedding import EmbeddingDecision, decide, decision
from app.store.database import Database
from app.store.schema import ensure_vector_index, vector_dimension

__all__ = ["FOLLOW_SECONDS", "Embedder", "EmbeddingIdentity"]

_LONGEST_TEXT: Final = 8_000
_RETRY_SECONDS: Final = 30.0
FOLLOW_SECONDS: Final = 5.0
"""How soon a gateway notices that another model was decided on."""
_PASSAGES_AT_ONCE: Final = 64

_log = structlog.get_logger("graphkeep.embedding")


class Embedder:
    """Texts as vectors. Without a model every request raises ``EmbeddingUnavailable`` and all else goes on.

    Answers are not kept: a cache of queries across tenants would tell one tenant by its timing what another asked.
    """

    def __init__(self, settings: EmbeddingSettings, folder: Path) -> None:
        self.identity: EmbeddingIdentity | None = None
        """What vectors are made by; None while there is no model, or another than the recorded one."""
        self.state = "starting"
        """One sentence for /readyz; never an address, a path or a key."""
        self._settings = settings
        self._cache = folder / "models"
        self._model: Model | None = None
        self._batcher: Batcher | None = None
        self._ruled_out: EmbeddingDecision | None = None
        """The decision that is for another model than the setting's."""
        self._following: asyncio.Task[None] | None = None

    async def start(self, database: Database) -> None:
        """Choose the model and record it, or open the recorded one. Never fails: ``state`` says what is missing.

        A database or endpoint that is away is tried again every 30 s. Where the setting's model is not the recorded one
        it begins to work once that is decided on; where another is decided on later, it stops for good: one process
        never has vectors of two models. ``none`` is final.
        """
        if self._settings.embedding == "none":
            self._settle("no model: switched off by the setting")
            return
        await self._try(database)
        self._following = asyncio.create_task(self._follow(database), name="embedding decision")

    async def query(self, text: str, deadline: Deadline) -> list[float]:
        """The normalised vector of a query; queries go before passages.

        Raises:
            EmbeddingUnavailable: there is no model, or it failed.
            Overloaded: too many texts wait.
            DeadlineExceeded: not by the deadline, or not within the setting ``embedding_seconds``.

        """
        soon = deadline.sooner(self._settings.embedding_seconds)
        return (await self._ready().vectors([_bounded(text)], soon, urgent=True))[0]

    async def passages(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        """The normalised vectors of texts to be stored, in order. Raises as ``query`` does."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _PASSAGES_AT_ONCE):
            chunk = [_bounded(text) for text in texts[start : start + _PASSAGES_AT_ONCE]]
            vectors += await self._ready().vectors(chunk, deadline, urgent=False)
        return vectors

    async def close(self) -> None:
        """Stop trying, refuse what waits, let the model go."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        await self._let_go()
        self.state = "closed"

    def _ready(self) -> Batcher:
        if self._batcher is None or self.identity is None:
            raise EmbeddingUnavailable(f"Embedding is not available: {self.state}. Text search goes on working.")
        return self._batcher

    async def _let_go(self) -> None:
        self.identity = None
        if self._batcher is not None:
            await self._batcher.close()
        if self._model is not None:
            await self._model.close()
            self._model = None

    async def _follow(self, database: Database) -> None:
        """Try until there is a model, then until another one is decided on."""
        seen, tried = self._ruled_out, time.monotonic()
        while True:
            await asyncio.sleep(FOLLOW_SECONDS)
            try:
                stands = await decision(database.control)
            except CallError:
                continue
            if self.identity is not None:
                if stands is not None and stands.key != self.identity.key:
                    await self._let_go()
                    self._settle(
                        f"no model: the database's vectors are made by {stands.model} now (`graphkeep reembed`); "
                        "restart this gateway with the setting of that model"
                    )
                    return
            elif stands != seen or (self._ruled_out is None and time.monotonic() - tried >= _RETRY_SECONDS):
                seen, tried = stands, time.monotonic()
                await self._try(database)

    async def _try(self, database: Database) -> None:
        """One attempt."""
        try:
            await self._open(database)
        except ModelMissing as error:
            self._settle(f"no model: {error}")
        except CallError as error:
            self._settle(f"no model yet: {error.reason}")

    def _settle(self, state: str) -> None:
        if state != self.state:
            _log.warning("embedding_unavailable", state=state)
        self.state = state

    async def _open(self, database: Database) -> None:
        self._ruled_out = None
        recorded = await decision(database.control)
        if recorded is not None and await vector_dimension(database) not in {None, recorded.dimension}:
            self._settle("no model yet: the index of vectors is being replaced; `graphkeep reembed` goes on with it")
            return
        kept = recorded is not None and recorded.asked == self._settings.embedding
        packaged = stand_in(self._settings, recorded)
        model = await open_chosen(self._settings, self._cache, recorded=packaged, kept=kept)
        ours = wanted(self._settings, model)
        try:
            stands = recorded or await decide(database.control, ours)
            if stands.key != ours.key:
                await model.close()
                self._ruled_out = stands
                self._settle(
                    f"no model: the database's vectors were made by {stands.model} ({stands.dimension} dimensions, "
                    f"recipe {stands.recipe}), the setting gives {model.name} ({model.dimension}, recipe "
                    f"{PASSAGE_RECIPE}); restore the setting, or embed anew with `graphkeep reembed`"
                )
                return
            await ensure_vector_index(database, model.dimension)
            if await decision(database.control) != stands:
                await model.close()
                self._settle("no model yet: another was decided on meanwhile")
                return
        except BaseException:
            await model.close()
            raise
        self._model = model
        self._batcher = Batcher(model.encode, self._settings.embedding_queue)
        self.identity = EmbeddingIdentity(model.name, model.dimension, PASSAGE_RECIPE)
        self.state = f"ready: {model.name}, {model.dimension} dimensions"
        _log.info("embedding_ready", model=model.name, dimension=model.dimension)


def _bounded(text: str) -> str:
    # Models read 512 tokens at most; what is beyond this many characters could never be among them.
    return text[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8") or " "

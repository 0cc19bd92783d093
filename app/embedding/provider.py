"""The embedder that the gateway uses: chosen once per database, recorded there, held to that ever after."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import structlog

from app.context import Deadline
from app.embedding.batcher import Batcher
from app.embedding.endpoint import open_endpoint
from app.embedding.local import PACKAGED, open_folder, open_named, open_packaged
from app.embedding.model import PASSAGE_RECIPE, EmbeddingIdentity, Model, ModelMissing
from app.errors import CallError, EmbeddingUnavailable
from app.settings import EmbeddingSettings
from app.store.control.embedding import EmbeddingDecision, decide, decision
from app.store.database import Database
from app.store.schema import ensure_vector_index

__all__ = ["Embedder", "EmbeddingIdentity"]

_LONGEST_TEXT: Final = 8_000
_RETRY_SECONDS: Final = 30.0
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
        self._again: asyncio.Task[None] | None = None

    async def start(self, database: Database) -> None:
        """Choose the model and record it, or open the recorded one. Never fails: ``state`` says what is missing.

        A database or endpoint that is away is tried again every 30 s; a settled refusal (``none``, another model than
        the recorded one) is final until the next start.
        """
        if not await self._try(database):
            self._again = asyncio.create_task(self._keep_trying(database), name="embedding start")

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
        if self._again is not None:
            self._again.cancel()
            await asyncio.gather(self._again, return_exceptions=True)
        self.identity = None
        if self._batcher is not None:
            await self._batcher.close()
        if self._model is not None:
            await self._model.close()
            self._model = None
        self.state = "closed"

    def _ready(self) -> Batcher:
        if self._batcher is None or self.identity is None:
            raise EmbeddingUnavailable(f"Embedding is not available: {self.state}. Text search goes on working.")
        return self._batcher

    async def _keep_trying(self, database: Database) -> None:
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            if await self._try(database):
                return

    async def _try(self, database: Database) -> bool:
        """One attempt; whether it is settled, for good or ill."""
        if self._settings.embedding == "none":
            return self._settle("no model: switched off by the setting")
        try:
            return await self._open(database)
        except ModelMissing as error:
            return self._settle(f"no model: {error}", final=False)
        except CallError as error:
            return self._settle(f"no model yet: {error.reason}", final=False)

    def _settle(self, state: str, *, final: bool = True) -> bool:
        if state != self.state:
            _log.warning("embedding_unavailable", state=state)
        self.state = state
        return final

    async def _open(self, database: Database) -> bool:
        recorded = await decision(database.control)
        kept = recorded is not None and recorded.asked == self._settings.embedding
        model = await self._chosen(PACKAGED if kept and recorded and recorded.model == PACKAGED else None, kept=kept)
        wanted = EmbeddingDecision(self._settings.embedding, model.name, model.dimension, PASSAGE_RECIPE)
        try:
            stands = recorded or await decide(database.control, wanted)
            if (stands.model, stands.dimension, stands.recipe) != (model.name, model.dimension, PASSAGE_RECIPE):
                await model.close()
                return self._settle(
                    f"no model: the database's vectors were made by {stands.model} ({stands.dimension} dimensions, "
                    f"recipe {stands.recipe}), the setting gives {model.name} ({model.dimension}, recipe "
                    f"{PASSAGE_RECIPE}); restore the setting or embed anew"
                )
            await ensure_vector_index(database, model.dimension)
        except BaseException:
            await model.close()
            raise
        self._model = model
        self._batcher = Batcher(model.encode, self._settings.embedding_queue)
        self.identity = EmbeddingIdentity(model.name, model.dimension, PASSAGE_RECIPE)
        self.state = f"ready: {model.name}, {model.dimension} dimensions"
        _log.info("embedding_ready", model=model.name, dimension=model.dimension)
        return True

    async def _chosen(self, recorded: str | None, *, kept: bool) -> Model:
        """The model of the setting; a hub model that cannot be had gives way to the packaged one, unless decided."""
        asked = self._settings.embedding
        if asked == "offline" or recorded == PACKAGED:
            return await open_packaged()
        if asked.startswith(("http://", "https://")):
            key = self._settings.embedding_key
            return await open_endpoint(asked, self._settings.embedding_model, key.get_secret_value() if key else None)
        folder = await asyncio.to_thread(_folder, asked)
        if folder is not None:
            return await open_folder(folder)
        try:
            return await open_named(asked, self._cache)
        except ModelMissing as error:
            if kept:
                raise
            _log.warning("embedding_fallback", reason=str(error), instead=PACKAGED)
            with contextlib.suppress(ModelMissing):
                return await open_packaged()
            raise


def _folder(asked: str) -> Path | None:
    folder = Path(asked).expanduser()
    return folder if folder.is_dir() else None


def _bounded(text: str) -> str:
    # Models read 512 tokens at most; what is beyond this many characters could never be among them.
    return text[:_LONGEST_TEXT].encode("utf-8", "replace").decode("utf-8") or " "

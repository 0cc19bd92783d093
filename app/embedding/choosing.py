"""Which model a setting stands for."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import structlog

from app.embedding.endpoint import open_endpoint
from app.embedding.local import PACKAGED, open_folder, open_named, open_packaged
from app.embedding.model import PASSAGE_RECIPE, Model, ModelMissing
from app.settings import EmbeddingSettings
from app.store.control.embedding import EmbeddingDecision

__all__ = ["open_chosen", "stand_in", "wanted"]

_log = structlog.get_logger("graphkeep.embedding")


async def open_chosen(
    settings: EmbeddingSettings, cache: Path, *, recorded: str | None = None, kept: bool = True
) -> Model:
    """The model of the setting. ``recorded``: the packaged one, where that was decided on in its place.

    A hub model that cannot be had gives way to the packaged one unless ``kept``, which says that it was decided on.

    Raises:
        ModelMissing: it cannot be had.
    """
    asked = settings.embedding
    if asked == "offline" or recorded == PACKAGED:
        return await open_packaged()
    if asked.startswith(("http://", "https://")):
        key = settings.embedding_key
        return await open_endpoint(asked, settings.embedding_model, key.get_secret_value() if key else None)
    folder = await asyncio.to_thread(_folder, asked)
    if folder is not None:
        return await open_folder(folder)
    try:
        return await open_named(asked, cache)
    except ModelMissing as error:
        if kept:
            raise
        _log.warning("embedding_fallback", reason=str(error), instead=PACKAGED)
        with contextlib.suppress(ModelMissing):
            return await open_packaged()
        raise


def stand_in(settings: EmbeddingSettings, recorded: EmbeddingDecision | None) -> str | None:
    """The packaged model's name, where that was decided on under this setting."""
    kept = recorded is not None and recorded.asked == settings.embedding and recorded.model == PACKAGED
    return PACKAGED if kept else None


def wanted(settings: EmbeddingSettings, model: Model) -> EmbeddingDecision:
    """The decision that an opened model stands for."""
    return EmbeddingDecision(settings.embedding, model.name, model.dimension, PASSAGE_RECIPE)


def _folder(asked: str) -> Path | None:
    folder = Path(asked).expanduser()
    return folder if folder.is_dir() else None

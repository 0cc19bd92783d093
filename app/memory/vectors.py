"""Vectors of a call's texts, made before any lock is taken; without a model there are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from app.context import Deadline
from app.embedding.provider import Embedder
from app.errors import DeadlineExceeded, EmbeddingUnavailable, Overloaded
from app.memory.compose import EntityWrite

__all__ = ["NO_VECTOR", "Vectors"]

NO_VECTOR: Final = (
    "The embedding model did not answer: what this call wrote is found by its words, not yet by its meaning, "
    "until it is mentioned again."
)

_SECONDS: Final = 5.0
"""Longest time of a write that embedding may take; the write itself matters more than its vectors."""
_CHUNK: Final = 8
"""Texts asked for at once: what is finished when the time runs out is kept."""


class Vectors:
    """What is known of this call's texts."""

    def __init__(self, embedder: Embedder, deadline: Deadline) -> None:
        self._embedder = embedder
        self._deadline = deadline.sooner(_SECONDS)
        self._known: dict[str, list[float]] = {}
        self.failed = embedder.identity is None

    @property
    def key(self) -> str | None:
        """What vectors are made by at present."""
        return self._embedder.identity.key if self._embedder.identity else None

    async def add(self, passages: Iterable[str]) -> None:
        """Embed the texts that are not known yet; once the model has failed, this call goes on without it."""
        wanted = sorted(set(passages) - set(self._known))
        try:
            for start in range(0, len(wanted), _CHUNK):
                if self.failed:
                    return
                chunk = wanted[start : start + _CHUNK]
                made = await self._embedder.passages(chunk, self._deadline)
                self._known.update(zip(chunk, made, strict=True))
        except (EmbeddingUnavailable, Overloaded, DeadlineExceeded):
            self.failed = True

    def lacks(self, entity: EntityWrite) -> bool:
        """Whether a vector is due that could be had."""
        return not self.failed and not entity.embedded and entity.passage not in self._known

    def fields(self, entity: EntityWrite) -> dict[str, Any]:
        """What to set for an entity's vector: nothing where the stored one stands, else the new one or none."""
        if entity.embedded:
            return {}
        vector = self._known.get(entity.passage)
        return {"embedding": vector, "embedding_of": self.key if vector is not None else None}

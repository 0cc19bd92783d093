"""What an embedding model is to the rest of this room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

__all__ = ["PASSAGE_RECIPE", "EmbeddingIdentity", "Model", "ModelMissing"]


PASSAGE_RECIPE: Final = "1"
"""Version of how ``app.graph.entity`` puts a passage together; a change makes every stored vector stale."""


class ModelMissing(Exception):
    """The model cannot be had. The message is for operators: no address, key or path in it."""


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """What a vector was made by; vectors of different identities are never compared."""

    model: str
    dimension: int
    recipe: str
    """Version of how the embedded text is put together (``app.graph.entity.PASSAGE_RECIPE``)."""

    @property
    def key(self) -> str:
        """One text of all three, as records carry it in ``embedding_of``."""
        return f"{self.model}|{self.dimension}|{self.recipe}"


class Model(Protocol):
    """A loaded model: ``encode`` gives one normalised vector of ``dimension`` floats for each text, in order."""

    name: str
    dimension: int

    async def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of ``texts``. Raises ``ModelMissing`` when the model does not answer."""
        ...

    async def close(self) -> None:
        """Let go of threads and connections."""
        ...

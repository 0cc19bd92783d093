"""A model behind an OpenAI-compatible endpoint: ``POST <base>/embeddings {model, input}``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import httpx2

from app.embedding.model import ModelMissing

__all__ = ["EndpointModel", "open_endpoint"]

_TIMEOUT: Final = httpx2.Timeout(20.0, connect=5.0)
_LARGEST_DIMENSION: Final = 4096
_ASKED_MODEL: Final = "text-embedding-3-small"


class EndpointModel:
    """A model elsewhere. Its vectors are normalised here, since not every server does."""

    def __init__(self, base: str, model: str, key: str | None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Proxies and keys of the environment are not ours to send memory text through.
        self._client = httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT, trust_env=False)
        self._url = f"{base.rstrip('/')}/embeddings"
        self._model = model
        self.name = f"endpoint-{model}"
        self.dimension = 0

    async def encode(self, texts: Sequence[str]) -> list[list[float]]:
        """Vectors of ``texts``; one request."""
        try:
            answer = await self._client.post(self._url, json={"model": self._model, "input": list(texts)})
        except httpx2.HTTPError as error:
            raise ModelMissing(f"the embedding endpoint cannot be reached ({type(error).__name__})") from error
        if answer.status_code != httpx2.codes.OK:
            raise ModelMissing(f"the embedding endpoint answered with status {answer.status_code}")
        try:
            rows = sorted(answer.json()["data"], key=lambda row: row.get("index", 0))
            vectors = [_normalised(row["embedding"]) for row in rows]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelMissing("the embedding endpoint's answer is not in the OpenAI form") from error
        self._check(vectors, len(texts))
        return vectors

    def _check(self, vectors: list[list[float]], count: int) -> None:
        sizes = {len(vector) for vector in vectors}
        if len(vectors) != count or len(sizes) != 1:
            raise ModelMissing("the embedding endpoint answered with too few vectors, or of several sizes")
        size = sizes.pop()
        if not 0 < size <= _LARGEST_DIMENSION or (self.dimension and size != self.dimension):
            raise ModelMissing(f"the embedding endpoint answered with vectors of {size} dimensions")
        self.dimension = size

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def open_endpoint(base: str, model: str | None, key: str | None) -> EndpointModel:
    """The model at ``base``, once it has answered.

    Raises:
        ModelMissing: it does not answer in the OpenAI form.

    """
    opened = EndpointModel(base, model or _ASKED_MODEL, key)
    try:
        await opened.encode(["graphkeep"])
    except ModelMissing:
        await opened.close()
        raise
    return opened


def _normalised(vector: Any) -> list[float]:
    values = [float(value) for value in vector]
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length) or length == 0.0:
        raise ValueError("not a direction")
    return [value / length for value in values]

"""Gates, worlds and snapshots of the isolation harness."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.cli.toolsets import every_tool
from app.context import Deadline
from app.embedding.local import open_packaged
from app.embedding.model import PASSAGE_RECIPE, EmbeddingIdentity
from app.ingest.service import IngestService
from app.memory.service import MemoryService
from app.protocol.dispatch import Dispatcher
from app.protocol.registry import Registry
from app.settings import EmbeddingSettings, IngestSettings, RunSettings, Settings
from app.store.database import Database
from app.store.schema import ensure_vector_index
from tests.isolation.callers import PUBLISHED, Gate
from tests.isolation.recipes import CELLS, GUESSED, HIDDEN_CELLS
from tests.isolation.sent import PAGE
from tests.isolation.world import Worlds, build
from tests.oauth.publisher import Publisher, publishing

HOME = tempfile.TemporaryDirectory(prefix="graphkeep-isolation-")
"""Where the tenants of the harness have their files."""


class Remembering:
    """The packaged model, each text encoded once: a vector depends on its text alone (there is a test of that)."""

    state = "ready"

    def __init__(self, model: Any) -> None:
        self.identity = EmbeddingIdentity(model.name, model.dimension, PASSAGE_RECIPE)
        self.known: dict[str, list[float]] = {}
        self._model = model

    async def query(self, text: str, deadline: Deadline) -> list[float]:
        """Names of hidden things mean to the model what a made-up name means: only then can answers be compared."""
        for aim in (CELLS[cell][0] for cell in HIDDEN_CELLS):
            text = text.replace(aim.subject, GUESSED.subject).replace(aim.words, GUESSED.words)
        return (await self.passages([text], deadline))[0]

    async def passages(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        new = sorted(set(texts) - set(self.known))
        if new:
            self.known.update(zip(new, await self._model.encode(new), strict=True))
        return [self.known[text] for text in texts]


@pytest.fixture(scope="session")
def registry() -> Registry:
    """What the gateway lists; the gateway's own test holds the two against each other."""
    return Registry(every_tool())


@pytest_asyncio.fixture(scope="session")
async def packaged_model() -> AsyncIterator[Any]:
    model = await open_packaged()
    yield model
    await model.close()


@pytest.fixture(scope="session")
def remembering(packaged_model: Any) -> Remembering:
    return Remembering(packaged_model)


@pytest_asyncio.fixture(scope="session")
async def published(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Publisher]:
    """The host whose documents are fetched."""
    async with publishing(tmp_path_factory.mktemp("published")) as opened:
        path = PAGE.removeprefix(PUBLISHED)
        opened.documents[path], opened.types[path] = "# A page that is there for everyone", "text/markdown"
        yield opened


async def open_gate(
    registry: Registry, database: Database, embedder: Any, published: Publisher
) -> tuple[Gate, MemoryService]:
    """A gate whose toolsets search with ``embedder``; the service is the caller's to close."""
    await ensure_vector_index(database, 384)
    chosen = Settings(
        run=RunSettings(home=Path(HOME.name)),
        embedding=EmbeddingSettings(embedding="none"),
        ingest=IngestSettings(ingest_urls=True, ingest_url_hosts=(published.host,)),
    )
    memory = MemoryService(database, embedder, chosen)
    ingest = IngestService(database, chosen)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(published.authority))
        await ingest._fetching._asking._authorities()  # read once: other tests trust their own
    services = {"memory": memory, "ingest": ingest}
    assert {tool.toolset for tool in registry} <= set(services), "the harness has no service for a toolset"
    dispatcher = Dispatcher(registry, services, check_results=True)  # type: ignore[arg-type]
    return Gate(registry, dispatcher, ingest, published.url("")), memory


@pytest_asyncio.fixture(scope="session")
async def gate(
    registry: Registry, database: Database, remembering: Remembering, published: Publisher
) -> AsyncIterator[Gate]:
    made, memory = await open_gate(registry, database, remembering, published)
    yield made
    await memory.close()


@pytest_asyncio.fixture(scope="module")
async def worlds(gate: Gate) -> Worlds:
    """A crowded tenant, its lonely twin and a foreign tenant."""
    return await build(gate, secrets.token_hex(6))

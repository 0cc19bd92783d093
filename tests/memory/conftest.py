"""The memory service on a real database, with the packaged model."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.context import NO_RULES, Deadline, Grant, Principal, Role, Scope, TenantRules
from app.contract import Call
from app.embedding.local import open_packaged
from app.embedding.model import PASSAGE_RECIPE, EmbeddingIdentity
from app.errors import EmbeddingUnavailable
from app.memory.schemas import EntitiesInput, QueryInput, RelateInput, SearchInput
from app.memory.service import MemoryService
from app.settings import EmbeddingSettings, LimitSettings, RunSettings, Settings
from app.store.database import Database
from app.store.schema import ensure_vector_index

HOME = tempfile.TemporaryDirectory(prefix="graphkeep-memory-")
"""Where the tenants of these tests have their files."""


class Packaged:
    """The packaged model without the database's record of a decision, which other rooms' tests make."""

    state = "ready"

    def __init__(self, model: Any) -> None:
        self._model = model
        self.identity: EmbeddingIdentity | None = EmbeddingIdentity(model.name, model.dimension, PASSAGE_RECIPE)
        self.embedded: list[str] = []

    async def query(self, text: str, deadline: Deadline) -> list[float]:
        return (await self.passages([text], deadline))[0]

    async def passages(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        self.embedded += texts
        vectors: list[list[float]] = await self._model.encode(list(texts))
        return vectors


class Failing(Packaged):
    """A model that was there and does not answer."""

    def __init__(self, identity: EmbeddingIdentity) -> None:
        self.identity = identity

    async def passages(self, texts: Sequence[str], deadline: Deadline) -> list[list[float]]:
        raise EmbeddingUnavailable("the model does not answer")


class Agent:
    """One client of a tenant, with what it was granted."""

    def __init__(
        self,
        service: MemoryService,
        tenant: str,
        layers: Sequence[str],
        write: str | None,
        rules: TenantRules = NO_RULES,
    ) -> None:
        self.service = service
        self.tenant = tenant
        self.layers = tuple(layers)
        self.write = write
        self.rules = rules

    def call(self, tool: str, digest: str = "") -> Call:
        writable = () if self.write is None else (self.write,)
        grant = Grant("g", frozenset(), frozenset(self.layers), frozenset(writable), self.write)
        principal = Principal(
            *("user", "client", self.tenant, "home", self.tenant, Role.OWNER, False, grant),
            tenant_layers=frozenset({"", *self.layers}),
            rules=self.rules,
        )
        scope = Scope(self.tenant, self.layers, writable, self.write, "user")
        return Call(tool, "test", principal, scope, Deadline.after(60), _no_progress, digest)

    async def relate(self, source: str, relation: str, target: str, **more: Any) -> dict[str, Any]:
        ends = {"from_name": source, "to_name": target, "relation": relation}
        return await self.send({"from_type": "Person", "to_type": "Concept", **ends, **more})

    async def batch(self, entities: Sequence[Any], relations: Sequence[Any] = (), **more: Any) -> dict[str, Any]:
        return await self.send({"batch": {"entities": list(entities), "relations": list(relations), **more}})

    async def send(self, arguments: dict[str, Any], digest: str = "d") -> dict[str, Any]:
        answer = await self.service.relate(self.call("graph_relate", digest), RelateInput.model_validate(arguments))
        return dict(answer)

    async def query(self, *names: str, **more: Any) -> dict[str, Any]:
        arguments = QueryInput.model_validate({"entities": list(names), **more})
        return dict(await self.service.query(self.call("graph_query"), arguments))

    async def entities(self, **arguments: Any) -> dict[str, Any]:
        return dict(await self.service.entities(self.call("graph_entities"), EntitiesInput.model_validate(arguments)))

    async def entity(self, name: str) -> dict[str, Any]:
        answer = await self.entities(id=name)
        assert answer["found"], f"{name} is not there"
        found: dict[str, Any] = answer["entities"][0]
        return found

    async def edges(self, name: str, **more: Any) -> dict[tuple[str, str, str], dict[str, Any]]:
        answer = await self.query(name, max_hops=1, min_weight=0, **more)
        return {(edge["from"], edge["type"], edge["to"]): edge for edge in answer["edges"]}

    async def search(self, query: str, **more: Any) -> dict[str, Any]:
        arguments = SearchInput.model_validate({"query": query, **more})
        return dict(await self.service.search(self.call("graph_search"), arguments))

    async def stats(self) -> dict[str, Any]:
        return dict(await self.service.stats(self.call("graph_stats")))


async def _no_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    return None


def settings(**limits: Any) -> Settings:
    return Settings(
        run=RunSettings(home=Path(HOME.name)),
        limits=LimitSettings(**limits),
        embedding=EmbeddingSettings(embedding="none"),
    )


@pytest_asyncio.fixture(scope="session")
async def packaged_model() -> AsyncIterator[Any]:
    model = await open_packaged()
    yield model
    await model.close()


@pytest.fixture
def embedder(packaged_model: Any) -> Packaged:
    return Packaged(packaged_model)


@pytest_asyncio.fixture
async def service(database: Database, embedder: Packaged) -> AsyncIterator[MemoryService]:
    await ensure_vector_index(database, 384)
    made = MemoryService(database, embedder, settings())  # type: ignore[arg-type]
    yield made
    await made.close()


@pytest.fixture
def agent(service: MemoryService, tenant: str) -> Agent:
    """Reads and writes tenant-wide."""
    return Agent(service, tenant, ("",), "")


@pytest_asyncio.fixture
async def plain_agent(database: Database, embedder: Packaged, tenant: str) -> AsyncIterator[Agent]:
    """The same on a gateway without a model, for tests that write much."""
    embedder.identity = None
    made = MemoryService(database, embedder, settings())  # type: ignore[arg-type]
    yield Agent(made, tenant, ("",), "")
    await made.close()

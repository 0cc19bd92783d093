"""Another model for the whole database: decided anew, every entity embedded, whatever comes in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.embedding.local import PACKAGED
from app.embedding.provider import Embedder
from app.errors import EmbeddingUnavailable, InvalidInput
from app.memory.analysis import anew as module
from app.memory.analysis.anew import Anew, Outlook, Result, without_vector
from app.memory.service import MemoryService
from app.settings import EmbeddingSettings, RunSettings, Settings
from app.store.control.audit import Audit
from app.store.control.embedding import EmbeddingDecision, decide_anew, decision
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.schema import ensure_vector_index, vector_dimension
from app.store.statement import statement
from tests.embedding.answering import Served, answering
from tests.identity import fresh_name
from tests.memory.analysis.conftest import entity
from tests.memory.analysis.test_reembed import _vectors
from tests.memory.conftest import Agent

UNDECIDE = statement("test.anew_undecide", "MATCH (e:_Embedding) DELETE e", writes=True, control=True)
UNEMBEDDED = statement(
    "test.anew_unembedded",
    "CREATE (n:Entity {tenant: $of, layer: '', id: 'ann', name: 'Ann', type: 'Person', embedding_of: 'old|384|1'})",
    writes=True,
    control=True,
)
OLD = EmbeddingDecision("offline", PACKAGED, 384, "1")
NEW = "endpoint-m|4|1"


@pytest.fixture
def served() -> Iterator[Served]:
    with answering() as opened:
        yield opened


@pytest_asyncio.fixture
async def decided(database: Database) -> AsyncIterator[Database]:
    """A database whose vectors are the packaged model's; afterwards it has the index of that one again."""
    await decide_anew(database.control, OLD)
    yield database
    await database.control.write(lambda writing: writing.run(UNDECIDE))
    await ensure_vector_index(database, 384)


@pytest_asyncio.fixture
async def tenants(decided: Database, monkeypatch: pytest.MonkeyPatch) -> list[Tenant]:
    """Two tenants, the only ones that the command finds."""
    store = Tenants(decided.control)
    made = [await store.create(fresh_name("anew")) for _ in range(2)]
    everyone, ours = Tenants.all, {tenant.id for tenant in made}

    async def made_here(self: Tenants) -> list[Tenant]:
        return [tenant for tenant in await everyone(self) if tenant.id in ours]

    monkeypatch.setattr(Tenants, "all", made_here)
    return made


def settings_of(home: Path, embedding: str) -> Settings:
    return Settings(run=RunSettings(home=home), embedding=EmbeddingSettings(embedding=embedding, embedding_model="m"))


async def run(anew: Anew) -> tuple[Outlook, Result]:
    outlook = await anew.outlook()
    return outlook, await anew.run(outlook, shown=lambda done, total: None, said=lambda words: None)


async def test_every_tenants_entities_are_embedded_by_the_new_model_and_found_by_it(
    service: MemoryService, tenants: list[Tenant], database: Database, served: Served, tmp_path: Path
) -> None:
    first, second = (Agent(service, tenant.data, ("",), "") for tenant in tenants)
    await first.batch([entity("Ann", "Person"), entity("Vim")])
    await second.batch([entity("Ann", "Person")])
    await Tenants(database.control).set_state(tenants[1].id, TenantState.SUSPENDED)
    anew = Anew(database, settings_of(tmp_path, served.address), alone=True)
    outlook, done = await run(anew)
    assert (outlook.before, outlook.after.key, outlook.changes) == (OLD, NEW, True)
    assert (outlook.entities, outlook.due) == (3, 3)
    assert done == Result(3, 0, failed=False)
    for tenant in tenants:
        assert set((await _vectors(database, tenant.data)).values()) == {(NEW, 4)}
        entries = await Audit(database.control).entries(tenant.id, ("",))
        assert "graph.reembed" in [entry.action for entry in entries]
    assert await vector_dimension(database) == 4
    assert (await decision(database.control)) == outlook.after
    old = await first.search("who uses an editor")
    assert {hit["similarity"] for hit in old["seeds"]} <= {None}, "a gateway of the old model compares nothing"
    embedder = Embedder(settings_of(tmp_path, served.address).embedding, tmp_path)
    await embedder.start(database)
    service.embedder = embedder
    assert (await first.search("Ann"))["seeds"][0]["name"] == "Ann"
    assert (await first.search("Ann"))["seeds"][0]["similarity"] is not None
    await embedder.close()
    assert await run(anew) == (Outlook(outlook.after, outlook.after, 3, 0), Result(0, 0, failed=False))


async def test_what_was_cut_short_goes_on_and_meanwhile_the_rest_is_found_by_words(
    service: MemoryService,
    tenants: list[Tenant],
    database: Database,
    served: Served,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("app.memory.analysis.reembed._BATCH", 2)
    agent = Agent(service, tenants[0].data, ("",), "")
    await agent.batch([entity(name) for name in ("alpha", "beta", "gamma", "delta", "omega")])
    anew = Anew(database, settings_of(tmp_path, served.address), alone=True)
    served.patience = 5  # two that open the model, one that opens it again, and a batch
    _, cut = await run(anew)
    assert (cut.embedded, cut.left, cut.failed) == (2, 3, True)
    embedder = Embedder(settings_of(tmp_path, served.address).embedding, tmp_path)
    served.patience = None
    await embedder.start(database)
    service.embedder = embedder
    for name in ("alpha", "omega"):
        hits = (await agent.search(name))["seeds"]
        assert hits[0]["name"] == name
    assert {hit["name"]: hit["similarity"] is None for hit in (await agent.search("alpha omega"))["seeds"]} == {
        **dict.fromkeys(["alpha", "beta"], False),
        "omega": True,
    }
    await embedder.close()
    served.texts.clear()
    outlook, done = await run(anew)
    assert (outlook.changes, outlook.due) == (False, 3)
    assert done == Result(3, 0, failed=False)
    assert len([text for text in served.texts if text != "graphkeep"]) == 3, "what was done is not done again"


async def test_gateways_have_time_to_notice_before_the_index_is_replaced(
    tenants: list[Tenant], database: Database, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NOTICED_SECONDS", 0.05)
    told: list[Any] = []

    async def replaced(database: Database, dimension: int) -> None:
        told.append((dimension, (await decision(database.control) or OLD).model))

    monkeypatch.setattr(module, "ensure_vector_index", replaced)
    monkeypatch.setattr("app.embedding.provider.ensure_vector_index", replaced)
    monkeypatch.setattr("app.embedding.provider.vector_dimension", replaced_dimension)
    anew = Anew(database, settings_of(tmp_path, served.address), alone=False)
    await anew.run(await anew.outlook(), shown=lambda done, total: None, said=told.append)
    assert "gateway" in told[0]
    assert "4 dimensions" in told[1]
    assert told[2:] == [(4, "endpoint-m")] * 3, "before the first vector, as a gateway, and after the last"


async def replaced_dimension(database: Database) -> int:
    return 4


async def test_the_model_that_stands_in_for_a_hubs_embeds_while_that_cannot_be_had(
    database: Database, tenants: list[Tenant], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("app.embedding.local._QUIET_SECONDS", 1.0)
    anew = Anew(database, settings_of(tmp_path, "some/model"), alone=True)
    with pytest.raises(EmbeddingUnavailable, match="Nothing was changed"):
        await anew.outlook()
    await decide_anew(database.control, replace(OLD, asked="some/model"))
    await database.control.write(lambda writing: writing.run(UNEMBEDDED, of=tenants[0].data))
    outlook, done = await run(anew)
    assert (outlook.changes, outlook.after.model, outlook.due) == (False, PACKAGED, 1)
    assert done == Result(1, 0, failed=False)


async def test_without_a_model_nothing_is_decided(database: Database, tenants: list[Tenant], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="none"):
        await Anew(database, settings_of(tmp_path, "none"), alone=True).outlook()
    with pytest.raises(EmbeddingUnavailable, match="Nothing was changed"):
        await Anew(database, settings_of(tmp_path, "http://127.0.0.1:9/v1"), alone=True).outlook()
    assert await decision(database.control) == OLD
    assert await without_vector(database, OLD.key) == (0, 0)

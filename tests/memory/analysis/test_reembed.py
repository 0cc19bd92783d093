"""``graph_reembed`` gives every entity a vector of the model in use, in parts if it must."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.context import Deadline
from app.errors import EmbeddingUnavailable, Forbidden, InsufficientScope, Overloaded
from app.memory.analysis import reembed as module
from app.memory.analysis.schemas import ReembedInput
from app.memory.service import MemoryService
from app.store.control.audit import Audit
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from tests.identity import fresh_name
from tests.memory.analysis.conftest import do, entity
from tests.memory.conftest import Agent, Failing, Packaged


async def _vectors(database: Database, tenant: str) -> dict[tuple[str, str], Any]:
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            "MATCH (n:Entity {tenant: $tenant}) RETURN n.id AS id, n.layer AS layer, n.embedding_of AS of, "
            "size(n.embedding) AS size",
            tenant=tenant,
        )
        return {(row["id"], row["layer"]): (row["of"], row["size"]) async for row in result}


async def _forget(database: Database, tenant: str, of: str | None) -> None:
    async with database.driver.session(database=database.name) as session:
        await session.run(
            "MATCH (n:Entity {tenant: $tenant}) SET n.embedding_of = $of "
            "FOREACH (_ IN CASE WHEN $of IS NULL THEN [1] ELSE [] END | REMOVE n.embedding)",
            tenant=tenant,
            of=of,
        )


@pytest.mark.shows("graph_reembed", 1, 2, 3)
async def test_missing_and_outdated_vectors_are_made_and_good_ones_stay(
    agent: Agent, embedder: Packaged, database: Database
) -> None:
    await agent.batch([entity("Ann", "Person"), entity("Vim")])
    await _forget(database, agent.tenant, "another model|384|1")
    await agent.batch([entity("New one")])
    embedder.embedded.clear()
    answer = await do(agent, "graph_reembed")
    assert answer == {"embedded": 2, "skipped": 1, "errors": 0, "remaining": 0, "force": False, "scope": "home"}
    assert sorted(embedder.embedded) == ["Ann — Person", "Vim — Concept"]
    key = embedder.identity.key if embedder.identity else ""
    assert set((await _vectors(database, agent.tenant)).values()) == {(key, 384)}
    assert (await do(agent, "graph_reembed"))["embedded"] == 0
    assert (await do(agent, "graph_reembed", force=True))["embedded"] == 3


@pytest.mark.shows("graph_reembed", 4)
async def test_only_what_may_be_written_gets_one(service: MemoryService, database: Database, tenant: str) -> None:
    wide, layered = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "b"), "b")
    await wide.batch([entity("Ann")])
    await layered.batch([entity("Ann"), entity("Bob")])
    await _forget(database, tenant, None)
    assert (await do(layered, "graph_reembed"))["embedded"] == 2
    assert {place for place, (of, _) in (await _vectors(database, tenant)).items() if of} == {
        ("ann", "b"),
        ("bob", "b"),
    }


@pytest.mark.shows("graph_reembed", 5)
async def test_when_time_ends_the_rest_is_counted_and_the_next_call_goes_on(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M27: a list of what was done grew with every batch, and an interrupted run began anew."""
    await agent.batch([entity(f"part {number}") for number in range(5)])
    monkeypatch.setattr(module, "_BATCH", 2)
    counts = []
    cursor = None
    for _ in range(6):
        answer = await _once(agent, force=True, cursor=cursor, batches=1)
        counts.append((answer["embedded"], answer["remaining"]))
        cursor = answer.get("next_cursor")
        if cursor is None:
            break
    assert counts == [(2, 3), (2, 1), (1, 0)]


async def _once(agent: Agent, *, force: bool, cursor: str | None, batches: int) -> dict[str, Any]:
    """A call whose time ends after so many batches."""
    call = agent.call("graph_reembed")
    left = batches

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        nonlocal left
        left -= 1
        if not left:
            object.__setattr__(call.deadline, "at", Deadline.after(5).at)

    object.__setattr__(call, "progress", progress)
    arguments = ReembedInput(force=force, cursor=cursor)
    return dict(await module.reembed(agent.service.database, agent.service.embedder, call, arguments))


@pytest.mark.shows("graph_reembed", 6)
async def test_without_a_model_it_says_so_and_one_that_stops_leaves_the_rest(
    agent: Agent, embedder: Packaged, database: Database
) -> None:
    """W-M27: a model that failed once was never asked again."""
    await agent.batch([entity("Ann")])
    await _forget(database, agent.tenant, None)
    assert embedder.identity is not None
    agent.service.embedder = Failing(embedder.identity)  # type: ignore[assignment]
    answer = await do(agent, "graph_reembed")
    assert (answer["embedded"], answer["errors"], answer["remaining"]) == (0, 1, 1)
    assert "stopped answering" in answer["note"]
    agent.service.embedder = embedder  # type: ignore[assignment]
    assert (await do(agent, "graph_reembed"))["embedded"] == 1
    embedder.identity = None
    with pytest.raises(EmbeddingUnavailable):
        await do(agent, "graph_reembed")


@pytest.mark.shows("graph_reembed", 6)
async def test_a_data_id_that_was_left_meanwhile_gets_no_vector(agent: Agent, database: Database) -> None:
    """Partition rule 22."""
    await agent.batch([entity("Ann")])
    await _forget(database, agent.tenant, None)
    async with database.driver.session() as session:
        left = "CREATE (m:_Move {id: $of, state: 'leaving', beat: 0, to: 'd', tenant: $of})"
        await (await session.run(left, of=agent.tenant)).consume()
        with pytest.raises(Overloaded, match="try again"):
            await do(agent, "graph_reembed")
        await (await session.run("MATCH (m:_Move {id: $of}) DELETE m", of=agent.tenant)).consume()
    assert not any(of for of, _ in (await _vectors(database, agent.tenant)).values())
    assert (await do(agent, "graph_reembed"))["embedded"] == 1


@pytest.mark.shows("graph_reembed", 7)
async def test_all_tenants_are_for_operators_and_stand_in_their_audits(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M27: an id that two tenants have was embedded for one of them only."""
    with pytest.raises(Forbidden):
        await do(agent, "graph_reembed", all_tenants=True)
    call = agent.call("graph_reembed")
    unasked = replace(call, principal=replace(call.principal, operator=True))  # whose connection was not granted admin
    with pytest.raises(InsufficientScope, match="the scope admin"):
        await module.reembed(database, agent.service.embedder, unasked, ReembedInput(all_tenants=True))
    tenants = Tenants(database.control)
    made = [await tenants.create(fresh_name("embedded")) for _ in range(2)]
    for tenant in made:
        await Agent(agent.service, tenant.data, ("",), "").batch([entity("Ann")])
        await _forget(database, tenant.data, None)
    everyone, ours = Tenants.all, {tenant.id for tenant in made}

    async def made_here(self: Tenants) -> list[Tenant]:
        """Those of other tests, of which there may be hundreds, apart."""
        return [tenant for tenant in await everyone(self) if tenant.id in ours]

    monkeypatch.setattr(Tenants, "all", made_here)
    answer = await do(agent, "graph_reembed", operator=True, all_tenants=True)
    assert answer["scope"] == "all-tenants"
    for tenant in made:
        assert all(of for of, _ in (await _vectors(database, tenant.data)).values())
        entries = await Audit(database.control).entries(tenant.id, ("",))
        assert [entry.action for entry in entries] == [module.ACTION]


@pytest.mark.shows("graph_reembed", 8)
async def test_the_same_key_gets_the_first_answer(agent: Agent, database: Database) -> None:
    await agent.batch([entity("Ann")])
    first = await do(agent, "graph_reembed", force=True, idempotency_key="k")
    await agent.batch([entity("Bob")])
    assert await do(agent, "graph_reembed", force=True, idempotency_key="k") == first
    assert first["embedded"] == 1


@pytest.mark.shows("graph_reembed", 9)
async def test_a_newer_vector_is_never_overwritten(agent: Agent, database: Database) -> None:
    """Somebody writes between the reading of a text and the writing of its vector."""
    await agent.batch([entity("Ann", "Person")])
    await _forget(database, agent.tenant, None)
    embedder = agent.service.embedder
    passages = embedder.passages

    async def meanwhile(texts: Any, deadline: Deadline) -> list[list[float]]:
        made = await passages(texts, deadline)
        if len(texts) == 1 and texts[0] == "Ann — Person":
            await agent.batch([entity("Ann", "Person", role="lead")])
        return made

    embedder.passages = meanwhile  # type: ignore[method-assign]
    answer = await do(agent, "graph_reembed")
    assert (answer["embedded"], answer["skipped"]) == (0, 1)

"""``graph_delete`` takes away the memory's part of one entity, and can be undone."""

from __future__ import annotations

import pytest

from app.errors import Forbidden, InvalidInput, NotFound, QuotaExceeded
from app.memory.service import MemoryService
from app.store.database import Database
from tests.memory.conftest import Agent, settings
from tests.memory.doing import do, entries
from tests.memory.merging.conftest import merge, undo


async def _told(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim", evidence="Ann types in modal style", to_type="Object")
    await agent.relate("Bob", "KNOWS", "Ann", to_type="Person", evidence="Bob met Ann")
    await agent.relate("Bob", "USES", "Emacs", evidence="Bob hums while typing")


@pytest.mark.shows("graph_delete", 1, 2, 3)
async def test_an_entity_goes_with_all_its_relations_and_what_was_searched_of_them(agent: Agent) -> None:
    await _told(agent)
    answer = await do(agent, "graph_delete", entity_id="ann")
    assert (answer["deleted"], answer["action"], answer["id"]) == (True, "deleted", "ann")
    assert answer["entity"] == {"id": "ann", "name": "Ann", "type": "Person"}
    assert (answer["edges_removed"], answer["kept"]) == (2, [])
    assert not (await agent.entities(id="Ann"))["found"]
    assert set(await agent.edges("Bob")) == {("bob", "USES", "emacs")}
    assert (await agent.entities(search="modal style"))["entities"] == []
    assert [found["id"] for found in (await agent.entities(search="hums typing"))["entities"]] == ["bob", "emacs"]


@pytest.mark.shows("graph_delete", 1, 4)
async def test_the_code_spells_the_argument_id_and_names_are_exact_or_aliases(agent: Agent) -> None:
    await agent.relate("Katherine", "USES", "Vim")
    await agent.batch(
        [{"name": "KJ", "type": "Alias"}, {"name": "Katherine", "type": "Person"}],
        [{"from": "KJ", "to": "Katherine", "relation": "ALIAS_OF"}],
    )
    with pytest.raises(NotFound, match=r"No entity found with id: Kathrine. Near it: 'Katherine' \(id katherine\)"):
        await do(agent, "graph_delete", entity_id="Kathrine")
    for wrong in ({}, {"entity_id": "katherine", "id": "vim"}):
        with pytest.raises(InvalidInput, match="entity_id"):
            await do(agent, "graph_delete", **wrong)
    answer = await do(agent, "graph_delete", id="Katherine")
    assert (answer["deleted"], answer["aliases_removed"]) == (True, 2)
    assert not (await agent.query("KJ"))["found"]
    assert (await agent.entity("Vim"))["edge_count"] == 0


@pytest.mark.shows("graph_delete", 5)
async def test_what_was_deleted_comes_back_whole(agent: Agent) -> None:
    await _told(agent)
    before = (await agent.entity("Ann"), await agent.entity("Bob"), await agent.edges("Ann"))
    answer = await do(agent, "graph_delete", entity_id="Ann")
    await undo(agent, answer["undo_id"])
    assert (await agent.entity("Ann"), await agent.entity("Bob"), await agent.edges("Ann")) == before
    assert len((await agent.entities(search="modal style"))["entities"]) == 2
    assert "Ann" in [seed["name"] for seed in (await agent.search("Ann"))["seeds"]]


@pytest.mark.shows("graph_delete", 5)
@pytest.mark.shows("graph_undo", 5)
async def test_mentions_of_a_neighbour_do_not_stand_in_the_way_of_undoing(agent: Agent) -> None:
    """What was said since stays, and what is searched of the neighbour follows each time."""

    async def met() -> list[str]:
        return [found["id"] for found in (await agent.entities(search="met Ann"))["entities"]]

    await _told(agent)
    answer = await do(agent, "graph_delete", entity_id="Ann")
    await agent.relate("Bob", "USES", "Vim", evidence="Bob tries modes")
    assert "bob" not in await met()
    back = await undo(agent, answer["undo_id"])
    assert {"ann", "bob"} <= set(await met())
    assert set(await agent.edges("Bob")) == {
        ("bob", "USES", "emacs"),
        ("bob", "USES", "vim"),
        ("bob", "KNOWS", "ann"),
    }
    await agent.relate("Bob", "USES", "Make", evidence="Bob builds")
    await undo(agent, back["undo_id"])
    assert not (await agent.entities(id="Ann"))["found"]
    assert "bob" not in await met()
    for said in ("tries modes", "Bob builds", "hums"):
        assert "bob" in [found["id"] for found in (await agent.entities(search=said))["entities"]]


@pytest.mark.shows("graph_delete", 6)
async def test_what_anything_else_needs_stays_without_the_memorys_relations(agent: Agent, database: Database) -> None:
    """Partition rule 11: graph_delete removes its own part and keeps an entity that anything else backs."""
    await _told(agent)
    async with database.driver.session(database=database.name) as session:
        await session.run(
            "MATCH (n:Entity {tenant: $tenant, id: 'ann'}) CREATE (d:Document {tenant: $tenant, layer: $layer, "
            "id: 'note'})-[:MENTIONS {tenant: $tenant, layer: $layer}]->(n)",
            tenant=agent.tenant,
            layer="",
        )
    answer = await do(agent, "graph_delete", entity_id="Ann")
    assert (answer["deleted"], answer["action"], answer["edges_removed"]) == (False, "kept", 2)
    assert [(kept["id"], kept["why"]) for kept in answer["kept"]] == [("ann", "in use elsewhere")]
    assert (await agent.entity("Ann"))["edge_count"] == 0


@pytest.mark.shows("graph_delete", 7, 8)
async def test_copies_that_may_not_be_written_stay_and_are_named_and_hidden_ones_are_no_reason(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    hidden = Agent(service, tenant, ("", "b"), "b")
    await wide.relate("Ann", "USES", "Vim")
    with pytest.raises(Forbidden, match="tenant"):
        await do(in_a, "graph_delete", entity_id="Ann")
    await in_a.relate("Ann", "USES", "Tea")
    await hidden.relate("Ann", "USES", "Coffee")
    answer = await do(in_a, "graph_delete", entity_id="Ann")
    assert (answer["deleted"], answer["layers"], answer["edges_removed"]) == (True, ["a"], 1)
    assert [(kept["layer"], kept["why"]) for kept in answer["kept"]] == [("tenant", "not writable here")]
    assert (await in_a.entity("Ann"))["layers"] == ["tenant"]
    assert (await do(wide, "graph_delete", entity_id="Ann"))["kept"] == []
    assert not (await in_a.entities(id="Ann"))["found"]
    assert (await hidden.entity("Ann"))["layers"] == ["b"]


@pytest.mark.shows("graph_delete", 9, 10)
async def test_a_reason_is_in_the_audit_trail_and_a_key_deletes_once(agent: Agent, database: Database) -> None:
    await _told(agent)
    first = await do(agent, "graph_delete", entity_id="Ann", reason="a test", idempotency_key="k")
    assert await do(agent, "graph_delete", entity_id="Ann", reason="a test", idempotency_key="k") == first
    told = await entries(database, agent)
    assert [(entry.action, entry.target, entry.detail["reason"]) for entry in told] == [
        ("memory.delete", "ann", "a test")
    ]
    with pytest.raises(NotFound, match="No entity found with id: Ann"):
        await do(agent, "graph_delete", entity_id="Ann")


async def test_what_was_deleted_makes_room_in_the_quota_at_once(tenant: str, database: Database, agent: Agent) -> None:
    service = MemoryService(database, agent.service.embedder, settings(quota_entities=3, quota_relations=5))
    small = Agent(service, tenant, ("",), "")
    await small.relate("Ann", "USES", "Vim")
    await small.relate("Ann", "USES", "Make")
    with pytest.raises(QuotaExceeded):
        await small.relate("Ann", "USES", "Git")
    await do(small, "graph_delete", entity_id="Vim")
    await small.relate("Ann", "USES", "Git")
    await service.close()


@pytest.mark.shows("graph_delete", 4)
async def test_a_name_that_leads_to_several_is_refused_with_them_by_every_tool_that_takes_it(
    service: MemoryService, tenant: str
) -> None:
    wide, alone, in_a = (Agent(service, tenant, layers, layers[-1]) for layers in (("",), ("a",), ("", "a")))
    for agent, name in ((wide, "Katherine"), (alone, "Karl")):
        await agent.batch(
            [{"name": "KJ", "type": "Alias"}, {"name": name, "type": "Person"}, {"name": "Vim", "type": "Object"}],
            [{"from": "KJ", "to": name, "relation": "ALIAS_OF"}, {"from": name, "to": "Vim", "relation": "USES"}],
        )
        await merge(agent, "kj", name)
    both = r"(?s)fits several.*'?Karl'? \(id karl\).*'?Katherine'? \(id katherine\)"
    ends = {"to_name": "Vim", "relation": "USES"}
    calls = [
        do(in_a, "graph_delete", entity_id="KJ"),
        do(in_a, "graph_boost", from_name="KJ", **ends),
        do(in_a, "graph_weaken", from_name="KJ", **ends),
        do(in_a, "graph_resolve", from_name="KJ", to_name="Vim", resolution="x"),
        merge(in_a, "KJ", "Vim"),
        merge(in_a, "Vim", "KJ"),
        in_a.entities(id="KJ"),
        in_a.relate("KJ", "USES", "Vim"),
    ]
    for call in calls:
        with pytest.raises(InvalidInput, match=both):
            await call
    assert {fit["id"] for fit in (await in_a.query("KJ"))["ambiguous"][0]["candidates"]} == {"karl", "katherine"}

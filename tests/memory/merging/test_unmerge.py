"""``graph_unmerge``: one entity that holds two things is taken apart."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio

from app.errors import Conflict, Forbidden, InvalidInput, NotFound, QuotaExceeded
from app.memory.queries import LOCK, WRITE
from app.memory.service import MemoryService
from app.store.control.audit import Audit
from app.store.database import Database
from tests.memory.conftest import Agent, Packaged, settings
from tests.memory.doing import one_waits, uncommitted
from tests.memory.merging.conftest import Team, do, everything, merge, undo

SUN = {"other_entity_id": "sun", "relation_type": "RELATED_TO", "direction": "out"}
PROBE = {"other_entity_id": "Messenger", "relation_type": "ABOUT", "direction": "in"}


async def unmerge(agent: Agent, *edges: dict[str, Any], **more: Any) -> dict[str, Any]:
    named = {"entity_id": "mercury", "new_entity_name": "Planet Mercury", "new_entity_type": "Object"}
    return await do(agent, "graph_unmerge", **{**named, "edges_to_move": list(edges), "reason": "two things", **more})


@pytest_asyncio.fixture
async def mixed(agent: Agent) -> Agent:
    await agent.batch(
        [
            {"name": "Mercury", "type": "Concept", "properties": {"description": "a liquid metal", "confidence": 0.9}},
            {"name": "Thermometer", "type": "Object"},
            {"name": "Sun", "type": "Object"},
            {"name": "Messenger", "type": "Event"},
        ],
        [
            {"from": "Thermometer", "relation": "CONTAINS", "to": "Mercury", "evidence": "It holds quicksilver."},
            {
                "from": "Mercury",
                "relation": "RELATED_TO",
                "to": "Sun",
                "weight": 0.7,
                "evidence": "It circles nearest.",
                "valid_at": "2020-01-01",
                "properties": {"role": "orbit"},
            },
            {"from": "Messenger", "relation": "ABOUT", "to": "Mercury"},
        ],
    )
    return agent


@pytest.mark.shows("graph_unmerge", 1, 2, 7)
async def test_listed_relations_move_whole_and_the_others_stay(mixed: Agent, database: Database) -> None:
    old = next(row for row in (await everything(database, mixed))["relations"] if row[1] == "RELATED_TO")
    answer = await unmerge(mixed, SUN, PROBE)
    assert answer["original"] == {"id": "mercury", "name": "Mercury", "remaining_edges": 1}
    assert answer["new_entity"] == {
        "id": "planet-mercury",
        "name": "Planet Mercury",
        "type": "Object",
        "moved_edges": 2,
    }
    new = next(row for row in (await everything(database, mixed))["relations"] if row[1] == "RELATED_TO")
    assert new == ["planet-mercury", *old[1:]]
    assert set(await mixed.edges("Planet Mercury")) == {
        ("planet-mercury", "RELATED_TO", "sun"),
        ("messenger", "ABOUT", "planet-mercury"),
    }
    assert set(await mixed.edges("Mercury")) == {("thermometer", "CONTAINS", "mercury")}
    found = await mixed.entity("Planet Mercury")
    assert (found["confidence"], found["times_mentioned"], found["properties"]) == (0.5, 1, {})
    assert (await mixed.entity("Mercury"))["confidence"] == 0.9


@pytest.mark.shows("graph_unmerge", 3)
async def test_the_new_entity_is_found_by_meaning_and_by_what_its_relations_say(
    mixed: Agent, embedder: Packaged
) -> None:
    """W-M23: it has a vector at once."""
    await unmerge(mixed, SUN)
    assert "Planet Mercury — Object" in embedder.embedded
    found = await mixed.search("planet mercury", min_similarity=0)
    assert found["seeds"][0]["id"] == "planet-mercury"
    assert found["seeds"][0]["similarity"] is not None
    circling = await mixed.entities(search="circles nearest")
    assert {entity["id"] for entity in circling["entities"]} == {"planet-mercury", "sun"}
    assert {entity["id"] for entity in (await mixed.entities(search="quicksilver"))["entities"]} == {
        "mercury",
        "thermometer",
    }


@pytest.mark.shows("graph_unmerge", 4)
async def test_an_id_that_is_taken_is_a_conflict_with_words(mixed: Agent, database: Database) -> None:
    """W-M23."""
    before = await everything(database, mixed)
    for name in ("SUN", "mercury"):
        with pytest.raises(Conflict, match=r"exists already .* Give the new one a name"):
            await unmerge(mixed, SUN, new_entity_name=name)
    assert await everything(database, mixed) == before


@pytest.mark.shows("graph_unmerge", 4)
async def test_an_entity_that_arises_meanwhile_is_a_conflict_and_stays_as_it_was_made(
    mixed: Agent, database: Database
) -> None:
    """Kind 17: it was looked for before any lock was taken, and what another call made of the id was overwritten."""
    made = {"id": "planet-mercury", "name": "planet mercury", "type": "Concept"}
    asked = {"ends": [made], "pairs": [], "rivals": [], "now": datetime.now(UTC)}
    entity = {"id": "planet-mercury", "label": "Concept", "fields": {"times_mentioned": 1, "content": "said just now"}}
    written = {"entities": [entity], "aliases": [], "changed": [], "created": []}
    async with uncommitted(mixed, (LOCK, asked), (WRITE, written)):
        apart = asyncio.create_task(unmerge(mixed, SUN))
        await one_waits(database, mixed)
    with pytest.raises(Conflict, match=r"'planet-mercury' exists already \('planet mercury'\)"):
        await apart
    found = await mixed.entity("planet mercury")
    assert (found["type"], found["edge_count"], found["properties"]) == ("Concept", 0, {"content": "said just now"})
    assert ("mercury", "RELATED_TO", "sun") in await mixed.edges("Mercury")


@pytest.mark.shows("graph_unmerge", 5)
async def test_a_missing_original_is_refused_and_no_stray_node_arises(mixed: Agent, database: Database) -> None:
    """W-M23."""
    before = await everything(database, mixed)
    with pytest.raises(NotFound, match=r"Entity 'Mercuri' not found; did you mean 'Mercury' \(id mercury\)"):
        await unmerge(mixed, SUN, entity_id="Mercuri")
    assert await everything(database, mixed) == before


@pytest.mark.shows("graph_unmerge", 6)
async def test_every_listed_relation_that_is_not_there_is_named_and_nothing_is_applied(
    mixed: Agent, database: Database
) -> None:
    before = await everything(database, mixed)
    with pytest.raises(NotFound) as refused:
        await unmerge(mixed, SUN, {**SUN, "direction": "in"}, {**PROBE, "relation_type": "USES"})
    assert "edges_to_move[1] sun→RELATED_TO→mercury" in refused.value.message
    assert "edges_to_move[2] messenger→USES→mercury" in refused.value.message
    with pytest.raises(NotFound, match=r"edges_to_move\[0\].other_entity_id 'Nobody' not found"):
        await unmerge(mixed, {**SUN, "other_entity_id": "Nobody"})
    assert await everything(database, mixed) == before


@pytest.mark.shows("graph_unmerge", 8)
async def test_a_name_that_led_to_the_original_leads_to_the_new_entity(mixed: Agent) -> None:
    await mixed.relate("Planet Mercury", "RELATED_TO", "Sun", to_type="Object")
    await merge(mixed, "planet-mercury", "mercury")
    assert (await mixed.query("Planet Mercury"))["seeds"] == ["mercury"]
    await unmerge(mixed, SUN)
    assert (await mixed.query("Planet Mercury"))["seeds"] == ["planet-mercury"]
    assert (await mixed.entity("Mercury"))["aliases"] == []


@pytest.mark.shows("graph_unmerge", 9, 10)
async def test_it_is_audited_and_can_be_undone(mixed: Agent, database: Database) -> None:
    """W-M23: audit_logged is true because the entry was written with the change."""
    before = await everything(database, mixed)
    answer = await unmerge(mixed, SUN, PROBE)
    entry = (await Audit(database.control).entries(mixed.tenant, [""]))[0]
    assert (entry.actor, entry.action, entry.target) == ("user", "memory.unmerge", "mercury")
    assert entry.detail == {"new_entity": "planet-mercury", "reason": "two things", "undo_id": answer["undo_id"]}
    assert answer["audit_logged"]
    await undo(mixed, answer["undo_id"])
    assert await everything(database, mixed) == before


@pytest.mark.shows("graph_unmerge", 1, 11)
async def test_all_parallel_copies_move_and_those_that_may_not_be_written_stay_and_are_named(
    mixed: Agent, service: MemoryService, tenant: str
) -> None:
    team = Team(service, tenant, ("", "a"), ("a", ""))
    await team.relate("Mercury", "RELATED_TO", "Sun", weight=0.9)
    narrow = Agent(service, tenant, ("", "a"), "a")
    with pytest.raises(Forbidden, match="messenger→ABOUT→mercury lies in layers"):
        await unmerge(narrow, PROBE)
    part = await unmerge(narrow, SUN, new_entity_name="Half Mercury")
    assert part["kept_edges"] == ["mercury→RELATED_TO→sun"]
    assert (part["original"]["remaining_edges"], part["new_entity"]["moved_edges"], part["layers"]) == (3, 1, ["a"])
    await undo(narrow, part["undo_id"])
    whole = await unmerge(team, SUN)
    assert (whole["original"]["remaining_edges"], whole["layers"], whole["kept_edges"]) == (2, ["tenant", "a"], [])
    assert (await team.edges("Planet Mercury"))["planet-mercury", "RELATED_TO", "sun"]["weight"] == 0.9


@pytest.mark.shows("graph_unmerge", 12)
async def test_the_same_key_takes_apart_once_and_bad_input_is_refused(
    mixed: Agent, database: Database, embedder: Packaged
) -> None:
    first = await unmerge(mixed, SUN, idempotency_key="k")
    assert await unmerge(mixed, SUN, idempotency_key="k") == first
    for wrong in ({"new_entity_type": "`) MATCH (n"}, {"new_entity_name": " "}):
        with pytest.raises(InvalidInput):
            await unmerge(mixed, SUN, **wrong)
    with pytest.raises(InvalidInput, match=r"edges_to_move\[0\].relation_type"):
        await unmerge(mixed, {**SUN, "relation_type": "X]-(n)-[y"})
    full = MemoryService(database, embedder, settings(quota_entities=1))  # type: ignore[arg-type]
    with pytest.raises(QuotaExceeded):
        await unmerge(Agent(full, mixed.tenant, ("",), ""), PROBE, new_entity_name="Third")
    await full.close()


async def test_without_relations_the_new_entity_stands_alone_in_the_write_layer(mixed: Agent) -> None:
    answer = await unmerge(mixed)
    assert (answer["new_entity"]["moved_edges"], answer["layers"]) == (0, ["tenant"])
    assert (await mixed.entity("Planet Mercury"))["edge_count"] == 0

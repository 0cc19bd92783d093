"""``graph_merge``: all of one entity moves to another, once, whole, and can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.memory.service import MemoryService
from app.store.control.audit import Audit
from app.store.database import Database
from tests.memory.conftest import Agent, Packaged
from tests.memory.doing import backdate
from tests.memory.doing import do as do_changing
from tests.memory.merging.conftest import Team, everything, merge, undo


@pytest.mark.shows("graph_merge", 1)
async def test_an_entity_is_never_merged_with_itself(agent: Agent) -> None:
    await agent.relate("Bob", "USES", "Vim")
    with pytest.raises(InvalidInput, match="Cannot merge an entity with itself"):
        await merge(agent, "bob", "Bob")


@pytest.mark.shows("graph_merge", 2)
async def test_a_missing_side_is_named_and_a_misspelt_one_only_helped(agent: Agent) -> None:
    await agent.relate("Katherine", "USES", "Vim")
    with pytest.raises(
        NotFound, match=r"Source entity 'Kathrine' not found; did you mean 'Katherine' \(id katherine\)"
    ):
        await merge(agent, "Kathrine", "Vim")
    with pytest.raises(NotFound, match="Target entity 'nobody' not found"):
        await merge(agent, "Katherine", "nobody")
    assert (await agent.entities(id="Katherine"))["found"]


@pytest.mark.shows("graph_merge", 3, 4, 5)
async def test_relations_move_or_become_one_and_those_between_the_two_go(agent: Agent) -> None:
    """W-M15: no parallel relation of one type between the same two."""
    await agent.batch(
        [{"name": name, "type": "Person"} for name in ("Bob", "Robert", "Carol")]
        + [{"name": name, "type": "Object"} for name in ("Vim", "Emacs")],
        [
            {"from": "Bob", "relation": "USES", "to": "Vim", "weight": 0.9, "evidence": "Bob uses Vim."},
            {"from": "Bob", "relation": "USES", "to": "Emacs", "weight": 0.4},
            {"from": "Carol", "relation": "KNOWS", "to": "Bob", "weight": 0.6},
            {"from": "Bob", "relation": "KNOWS", "to": "Robert", "weight": 0.3},
            {"from": "Robert", "relation": "USES", "to": "Vim", "weight": 0.5, "evidence": "Robert uses Vim."},
        ],
    )
    before = await agent.edges("Robert")
    answer = await merge(agent, "bob", "robert")
    assert (answer["edges_added"], answer["edges_consolidated"], answer["self_loops_dropped"]) == (2, 1, 1)
    assert answer["source"] == {"id": "bob", "name": "Bob", "type": "Person", "deleted": True}
    assert answer["target"] == {"id": "robert", "name": "Robert", "type": "Person"}
    edges = await agent.edges("Robert")
    assert set(edges) == {("robert", "USES", "vim"), ("robert", "USES", "emacs"), ("carol", "KNOWS", "robert")}
    both = edges["robert", "USES", "vim"]
    assert both["weight"] == 0.9
    assert both["evidence"].split("\n") == ["Robert uses Vim.", "Bob uses Vim."]
    assert both["last_confirmed"] > before["robert", "USES", "vim"]["last_confirmed"]
    assert edges["robert", "USES", "emacs"]["weight"] == 0.4


@pytest.mark.shows("graph_merge", 3)
async def test_a_moved_relation_keeps_all_its_properties_and_its_moments(agent: Agent, database: Database) -> None:
    """W-M22: moments stay moments, so what was moved goes on fading and comparing."""
    await agent.relate("Bob", "USES", "Vim", valid_at="2024-05-01", properties={"role": "editor", "deep": {"a": [1]}})
    await agent.relate("Robert", "USES", "Emacs")
    old = next(row for row in (await everything(database, agent))["relations"] if row[0] == "bob")
    await merge(agent, "bob", "robert")
    new = next(row for row in (await everything(database, agent))["relations"] if row[2] == "vim")
    assert new == ["robert", *old[1:]]
    kinds = await _moments(database, agent)
    assert set(kinds) == {True}


async def _moments(database: Database, agent: Agent) -> list[bool]:
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            "CYPHER 25 MATCH (a:Entity {tenant: $tenant})-[r]->() UNWIND ['valid_at', 'ingested_at', 'last_confirmed'] "
            "AS k WITH r[k] AS value WHERE value IS NOT NULL RETURN value IS :: ZONED DATETIME AS moment",
            tenant=agent.tenant,
        )
        return [row["moment"] async for row in result]


@pytest.mark.shows("graph_merge", 4)
async def test_what_holds_beats_what_ended_and_the_past_is_kept(agent: Agent) -> None:
    """W-M22: validity is considered."""
    await agent.relate("Bob", "WORKS_AT", "Acme", to_type="Organization", valid_at="2019-01-01")
    await agent.relate("Bob", "WORKS_AT", "Initech", to_type="Organization", valid_at="2021-01-01")
    await agent.relate("Robert", "WORKS_AT", "Acme", to_type="Organization", valid_at="2023-01-01")
    await merge(agent, "robert", "bob")
    edge = (await agent.edges("Bob", current_only=False))["bob", "WORKS_AT", "acme"]
    assert edge["valid_at"].startswith("2023-01-01")
    assert edge["invalid_at"] is None
    then = await agent.edges("Bob", as_of="2020-06-01")
    assert ("bob", "WORKS_AT", "acme") in then


@pytest.mark.shows("graph_merge", 6)
async def test_properties_are_adopted_where_the_target_has_none(agent: Agent) -> None:
    await agent.batch(
        [
            {"name": "Bob", "type": "Person", "properties": {"role": "chef", "email": "b@x", "mood": {"now": "calm"}}},
            {"name": "Robert", "type": "Person", "properties": {"role": "cook"}},
        ]
    )
    answer = await merge(agent, "bob", "robert")
    assert answer["properties_adopted"] == ["email", "mood"]
    found = await agent.entity("Robert")
    assert found["properties"] == {"role": "cook", "email": "b@x", "mood": {"now": "calm"}}


@pytest.mark.shows("graph_merge", 21)
async def test_two_together_have_no_more_properties_than_one_record_may(plain_agent: Agent, database: Database) -> None:
    """What graph_relate refuses in one record must not come about by merging two."""
    agent = plain_agent
    described = {end: {f"{end}_{number}": "x" * 30_000 for number in range(3)} for end in ("from", "to")}
    await agent.batch(
        [{"name": name, "type": "Person"} for name in ("Ann", "Bob", "Robert")],
        [
            {"from": "Ann", "relation": "KNOWS", "to": "Bob", "properties": described["from"]},
            {"from": "Ann", "relation": "KNOWS", "to": "Robert", "properties": described["to"]},
        ],
    )
    before = await everything(database, agent)
    with pytest.raises(InvalidInput, match="properties of 'ann KNOWS robert' may have 128 KiB together"):
        await merge(agent, "bob", "robert")
    assert await everything(database, agent) == before
    await agent.batch(
        [
            {"name": "Carol", "type": "Person", "properties": described["from"]},
            {"name": "Caroline", "type": "Person", "properties": described["to"]},
        ]
    )
    for dry_run in (True, False):
        with pytest.raises(InvalidInput, match="properties of 'Caroline' may have 128 KiB together"):
            await merge(agent, "carol", "caroline", dry_run=dry_run)


@pytest.mark.shows("graph_merge", 7)
async def test_confidence_and_mentions_are_combined(agent: Agent) -> None:
    """W-M22."""
    await agent.relate("Bob", "USES", "Vim", weight=0.9)
    await agent.relate("Bob", "USES", "Vim", weight=0.9)
    await agent.relate("Robert", "USES", "Vim", weight=0.4)
    first = (await agent.entity("Bob"))["first_seen"]
    seen = (await agent.entity("Robert"))["last_seen"]
    await merge(agent, "bob", "robert")
    found = await agent.entity("Robert")
    assert (found["confidence"], found["times_mentioned"]) == (0.9, 3)
    assert found["first_seen"] == first
    assert found["last_seen"] > seen


@pytest.mark.shows("graph_merge", 7)
async def test_what_comes_together_is_what_is_left_of_both_whether_or_not_it_was_written(
    service: MemoryService, tenant: str, database: Database
) -> None:
    """W-M07: a merge starts clocks anew, so it takes what has faded and never what was."""
    held = []
    for number in range(2):
        agent = Agent(service, f"{tenant}{number}", ("",), "")
        await agent.relate("Bob", "USES", "Vim", weight=0.8)
        await backdate(database, agent, 50)
        await agent.relate("Robert", "USES", "Emacs", weight=0.4)
        await agent.relate("Robert", "USES", "Vim", weight=0.4)
        if number:
            await do_changing(agent, "graph_decay")
        await merge(agent, "bob", "robert")
        edges = await agent.edges("Robert")
        held.append(((await agent.entity("Robert"))["confidence"], edges["robert", "USES", "vim"]["weight"]))
    assert held[0] == pytest.approx((0.8 * 0.998**50, 0.8 * 0.997**50))
    assert held[1] == pytest.approx(held[0])


@pytest.mark.shows("graph_merge", 8)
async def test_the_losers_id_and_names_lead_to_the_winner(agent: Agent) -> None:
    await agent.relate("Bob Smith", "USES", "Vim")
    await agent.relate("bob_smith", "USES", "Vim")
    await agent.relate("Bobby", "ALIAS_OF", "Bob Smith", to_type="Person")
    await agent.relate("Robert", "USES", "Emacs")
    answer = await merge(agent, "bob-smith", "robert")
    assert answer["aliases_added"][0] == "Bob Smith"
    assert {"Bob Smith", "bob_smith", "Bobby"} <= set((await agent.entity("robert"))["aliases"])
    for name in ("Bob Smith", "bob-smith", "BOB_SMITH"):
        assert (await agent.query(name))["seeds"] == ["robert"]
    written = await agent.relate("bob-smith", "USES", "Nano")
    assert written["edge"]["from"] == "robert"


@pytest.mark.shows("graph_merge", 9)
async def test_the_winner_is_found_by_the_losers_words_and_by_its_meaning(
    service: MemoryService, agent: Agent, embedder: Packaged, database: Database
) -> None:
    """W-M23: what comes of it has a vector at once, made before any lock was taken."""
    await agent.batch(
        [
            {"name": "Bob", "type": "Person", "properties": {"description": "restores antique clocks"}},
            {"name": "Robert", "type": "Person"},
        ],
        [{"from": "Bob", "relation": "RELATED_TO", "to": "Robert", "evidence": "They are zanily alike."}],
    )
    await merge(agent, "bob", "robert")
    assert "restores antique clocks" in embedder.embedded[-1]
    assert (await agent.search("antique clocks"))["seeds"][0]["id"] == "robert"
    assert (await agent.search("antique clocks"))["seeds"][0]["similarity"] > 0.4
    assert not (await agent.entities(search="zanily"))["found"]


@pytest.mark.shows("graph_merge", 10)
async def test_types_may_differ_and_a_warning_says_so(agent: Agent) -> None:
    await agent.relate("Bob", "USES", "Vim")
    answer = await merge(agent, "bob", "vim")
    assert "types differ" in answer["warnings"][0]
    assert (await agent.entity("Vim"))["type"] == "Concept"


@pytest.mark.shows("graph_merge", 11)
async def test_a_dry_run_reports_exactly_what_a_run_does_and_applies_nothing(agent: Agent, database: Database) -> None:
    await agent.relate("Bob", "USES", "Vim", evidence="Bob uses Vim.")
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person")
    await agent.relate("Robert", "USES", "Vim")
    await agent.relate("Bob", "USES", "Nano")
    before = await everything(database, agent)
    rehearsed = await merge(agent, "bob", "robert", dry_run=True)
    assert await everything(database, agent) == before
    done = await merge(agent, "bob", "robert")
    volatile = {"undo_id", "dry_run", "audit_logged", "source"}
    assert {k: v for k, v in rehearsed.items() if k not in volatile} == {
        k: v for k, v in done.items() if k not in volatile
    }
    assert (rehearsed["dry_run"], rehearsed["audit_logged"], rehearsed["source"]["deleted"]) == (True, False, False)
    assert (done["dry_run"], done["audit_logged"], done["source"]["deleted"]) == (False, True, True)


@pytest.mark.shows("graph_merge", 12)
async def test_several_values_of_a_single_valued_relation_are_told(agent: Agent) -> None:
    for person, place in (("Bob", "Acme"), ("Robert", "Initech")):
        await agent.relate(person, "WORKS_AT", place, to_type="Organization", valid_at="2024-01-01")
    for person in ("Bob", "Robert"):
        await agent.relate(person, "LOCATED_IN", "Rome", to_type="Object")
    answer = await merge(agent, "bob", "robert")
    assert answer["contradiction_candidates"] == [
        {
            "relation": "WORKS_AT",
            "values": [{"id": "acme", "name": "Acme"}, {"id": "initech", "name": "Initech"}],
        }
    ]


@pytest.mark.shows("graph_merge", 13)
async def test_the_audit_trail_names_who_and_why(agent: Agent, database: Database) -> None:
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person")
    answer = await merge(agent, "bob", "robert", reason="same mail address")
    entry = (await Audit(database.control).entries(agent.tenant, [""]))[0]
    assert (entry.actor, entry.action, entry.target) == ("user", "memory.merge", "robert")
    assert entry.detail == {"source": "bob", "reason": "same mail address", "undo_id": answer["undo_id"]}


@pytest.mark.shows("graph_merge", 14)
@pytest.mark.shows("graph_undo", 2)
async def test_undoing_a_merge_restores_everything_exactly(agent: Agent, database: Database) -> None:
    await agent.relate("Bob", "USES", "Vim", evidence="Bob uses Vim.", valid_at="2024-01-01", weight=0.9)
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person", evidence="They met.")
    await agent.relate("Robert", "USES", "Vim", evidence="Robert uses Vim.")
    await agent.relate("Bobby", "ALIAS_OF", "Bob", to_type="Person")
    before = await everything(database, agent)
    answer = await merge(agent, "bob", "robert")
    after = await everything(database, agent)
    back = await undo(agent, answer["undo_id"])
    assert await everything(database, agent) == before
    assert back["restored"]["entities"] == 2
    await undo(agent, back["undo_id"])
    assert await everything(database, agent) == after


@pytest.mark.shows("graph_merge", 15)
async def test_copies_move_in_each_layer_and_unreadable_ones_stay_as_they_are(
    service: MemoryService, tenant: str, database: Database
) -> None:
    """Partition rules 9 and 11."""
    wide, hidden = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "b"), "b")
    team = Team(service, tenant, ("", "a"), ("a", ""))
    await wide.relate("Bob", "USES", "Vim")
    await wide.relate("Robert", "USES", "Emacs")
    await team.relate("Bob", "KNOWS", "Carol", to_type="Person", weight=0.7)
    await hidden.relate("Bob", "USES", "Secret")
    out_of_sight = await everything(database, hidden, "b")
    answer = await merge(team, "bob", "robert")
    assert answer["layers"] == ["tenant", "a"]
    assert (answer["edges_added"], answer["edges_consolidated"]) == (2, 0)
    assert await everything(database, hidden, "b") == out_of_sight
    sibling = await Agent(service, tenant, ("a",), "a").entity("robert")
    assert (sibling["name"], sibling["type"], sibling["layers"]) == ("Robert", "Person", ["a"])
    assert set(await team.edges("robert")) >= {("robert", "KNOWS", "carol"), ("robert", "USES", "vim")}
    assert (await hidden.query("bob"))["found"]


@pytest.mark.shows("graph_merge", 16)
async def test_a_visible_copy_that_may_not_be_written_refuses_the_merge_and_names_the_layer(
    service: MemoryService, tenant: str, database: Database
) -> None:
    """Partition rule 9."""
    wide, narrow = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    await wide.relate("Bob", "USES", "Vim")
    await narrow.relate("Bob", "KNOWS", "Robert", to_type="Person")
    before = await everything(database, narrow)
    for dry_run in (True, False):
        with pytest.raises(Forbidden, match="read and not write: tenant"):
            await merge(narrow, "bob", "robert", dry_run=dry_run)
    assert await everything(database, narrow) == before


@pytest.mark.shows("graph_merge", 17)
async def test_what_something_else_hangs_on_is_not_merged_away(agent: Agent, database: Database) -> None:
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person")
    async with database.driver.session(database=database.name) as session:
        await session.run(
            "CYPHER 25 MATCH (n:Entity {tenant: $tenant, id: 'bob'}) CREATE (:Chunk {tenant: $tenant, layer: '', "
            "id: 'c'})-[:MENTIONS {tenant: $tenant, layer: ''}]->(n)",
            tenant=agent.tenant,
        )
    with pytest.raises(Conflict, match="in use elsewhere"):
        await merge(agent, "bob", "robert")
    assert (await merge(agent, "robert", "bob"))["self_loops_dropped"] == 1


@pytest.mark.shows("graph_merge", 18)
async def test_the_same_key_merges_once(agent: Agent) -> None:
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person")
    first = await merge(agent, "bob", "robert", idempotency_key="k")
    assert await merge(agent, "bob", "robert", idempotency_key="k") == first


async def test_merging_without_a_model_keeps_the_vector_that_still_stands(agent: Agent, embedder: Packaged) -> None:
    await agent.relate("Robert", "USES", "Vim")
    await agent.relate("Bob", "USES", "Emacs")
    identity, embedder.identity = embedder.identity, None
    answer: dict[str, Any] = await merge(agent, "bob", "robert")
    embedder.identity = identity
    assert answer["warnings"] == []
    found = await agent.search("Robert", min_similarity=0)
    assert next(seed for seed in found["seeds"] if seed["id"] == "robert")["similarity"] is not None


@pytest.mark.shows("graph_merge", 8)
async def test_a_word_about_the_loser_that_was_on_its_way_reaches_the_winner(
    service: MemoryService, agent: Agent, embedder: Packaged
) -> None:
    """The merge comes between what graph_relate reads and what it locks."""
    await agent.relate("Bob", "KNOWS", "Robert", to_type="Person")
    passages = embedder.passages

    async def merging(texts: Any, deadline: Any) -> Any:
        embedder.passages = passages  # type: ignore[method-assign]
        await merge(agent, "bob", "robert")
        return await passages(texts, deadline)

    embedder.passages = merging  # type: ignore[method-assign]
    answer = await agent.relate("Bob", "USES", "Vim")
    assert answer["edge"]["from"] == "robert"
    assert [entity["id"] for entity in (await agent.entities(type="Person"))["entities"]] == ["robert"]

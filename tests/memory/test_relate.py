"""``graph_relate`` writes what was said, once, whole or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from app.context import TenantRules
from app.errors import Conflict, InvalidInput, QuotaExceeded
from app.memory.service import MemoryService
from app.store.database import Database
from tests.memory.conftest import Agent, Failing, Packaged, settings


@pytest.mark.shows("graph_relate", 3, 4)
async def test_the_first_word_creates_and_the_next_strengthens(agent: Agent) -> None:
    first = await agent.relate("Ann", "USES", "Vim", weight=0.6)
    assert first["action"] == "created"
    assert first["created_entities"] == ["Ann", "Vim"]
    assert first["edge"] | {"weight": 0.6} == first["edge"]
    again = await agent.relate("Ann", "USES", "Vim", weight=0.5)
    assert (again["action"], again["created_entities"]) == ("strengthened", [])
    assert again["edge"]["weight"] == pytest.approx(0.65)
    assert (await agent.entity("Ann"))["times_mentioned"] == 2


@pytest.mark.shows("graph_relate", 18, 19)
async def test_what_a_relation_holds_when_it_is_new_and_when_it_is_said_again(plain_agent: Agent) -> None:
    agent = plain_agent
    await agent.relate("Ann", "USES", "Vim", valid_at="2020-01-01", properties={"role": "editor", "since": "1.0"})
    first = (await agent.edges("Ann"))["ann", "USES", "vim"]
    assert (first["weight"], first["valid_at"], first["invalid_at"]) == (0.5, "2020-01-01T00:00:00Z", None)
    assert first["ingested_at"] == first["last_confirmed"]
    for name in ("Ann", "Vim"):
        entity = await agent.entity(name)
        assert (entity["confidence"], entity["times_mentioned"], entity["properties"]) == (0.5, 1, {})
        assert entity["first_seen"] == entity["last_seen"]
    await agent.relate("Ann", "USES", "Vim", weight=0.7, properties={"role": "tool"})
    again = (await agent.edges("Ann"))["ann", "USES", "vim"]
    assert (again["weight"], again["valid_at"], again["ingested_at"]) == (0.7, first["valid_at"], first["ingested_at"])
    assert again["last_confirmed"] > first["last_confirmed"]
    assert again["properties"] == {"role": "tool", "since": "1.0"}
    await agent.relate("Ann", "USES", "Vim", valid_at="2021-01-01")
    assert (await agent.edges("Ann"))["ann", "USES", "vim"]["valid_at"] == "2021-01-01T00:00:00Z"
    entity = await agent.entity("Ann")
    assert (entity["confidence"], entity["times_mentioned"]) == (0.7, 3)
    assert entity["last_seen"] > entity["first_seen"]
    await agent.batch(
        [{"name": "Bob", "type": "Person"}, {"name": "Cid", "type": "Person", "properties": {"confidence": 0.9}}],
        [{"from": "Bob", "to": "Cid", "relation": "KNOWS", "weight": 0.8}],
    )
    assert [(await agent.entity(name))["confidence"] for name in ("Bob", "Cid")] == [0.5, 0.9]


@pytest.mark.shows("graph_relate", 20)
async def test_saying_it_again_ends_neither_itself_nor_another_verb(plain_agent: Agent) -> None:
    await plain_agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01")
    await plain_agent.relate("Ann", "LOCATED_IN", "Rome", valid_at="2020-01-01")
    assert (await plain_agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2024-01-01"))["superseded"] == []
    assert {key[1:] for key in await plain_agent.edges("Ann")} == {("WORKS_AT", "acme"), ("LOCATED_IN", "rome")}


@pytest.mark.shows("graph_relate", 17)
async def test_with_a_batch_the_fields_of_one_relation_say_nothing(plain_agent: Agent) -> None:
    entities = [{"name": name, "type": "Person"} for name in ("Ann", "Bob")]
    answer = await plain_agent.send(
        {
            "from_name": "Cid",
            "from_type": "Person",
            "relation": "KNOWS",
            "to_name": "Dan",
            "to_type": "Person",
            "batch": {"entities": entities, "relations": [{"from": "Ann", "to": "Bob", "relation": "KNOWS"}]},
        }
    )
    assert (answer["entities_created"], answer["edges_created"]) == (2, 1)
    assert not (await plain_agent.query("Cid"))["found"]


@pytest.mark.shows("graph_relate", 4)
async def test_weights_are_clamped_with_a_warning_and_mentions_never_pass_one(agent: Agent) -> None:
    first = await agent.relate("Ann", "USES", "Vim", weight=7)
    assert first["edge"]["weight"] == 1.0
    assert "outside 0..1" in first["warnings"][0]
    assert (await agent.relate("Ann", "USES", "Vim"))["edge"]["weight"] == 1.0
    assert (await agent.relate("Bob", "USES", "Vim", weight=-1))["edge"]["weight"] == 0.0


@pytest.mark.shows("graph_relate", 5)
@pytest.mark.shows("graph_entities", 2)
async def test_evidence_and_provenance_are_stored_and_evidence_is_found(agent: Agent) -> None:
    said = "She swears by modal editing every single day."
    await agent.relate("Ann", "USES", "Vim", evidence=said, source_session="s-1", source_type="conversation")
    edge = (await agent.edges("Ann"))["ann", "USES", "vim"]
    assert (edge["evidence"], edge["source_session"], edge["source_type"]) == (said, "s-1", "conversation")
    found = await agent.entities(search="modal editing")
    assert {entity["id"] for entity in found["entities"]} == {"ann", "vim"}


@pytest.mark.shows("graph_relate", 2, 3)
async def test_a_batch_connects_by_local_id_by_name_and_to_what_is_known(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim")
    answer = await agent.batch(
        [
            {"localId": "p", "name": "Project X", "type": "Project", "properties": {"status": "active"}},
            {"name": "Vim", "type": "Concept"},
        ],
        [
            {"from": "ann", "to": "p", "relation": "WORKS_ON", "weight": 0.7},
            {"from": "project x", "to": "VIM", "relation": "USES_TECH", "weight": 0.6},
        ],
        source_session="s-2",
    )
    assert answer["created_entities"] == ["Project X"]
    assert (answer["entities_created"], answer["entities_merged"]) == (1, 2)
    assert (answer["edges_created"], answer["edges_strengthened"], answer["edges_failed"]) == (2, 0, 0)
    assert answer["details"] == [
        {"entity": "Project X", "action": "created"},
        {"entity": "Vim", "action": "merged"},
        {"edge": "Ann→WORKS_ON→Project X", "action": "created", "weight": 0.7},
        {"edge": "Project X→USES_TECH→Vim", "action": "created", "weight": 0.6},
    ]
    assert (await agent.edges("Ann"))["ann", "WORKS_ON", "project-x"]["source_session"] == "s-2"
    assert (await agent.entity("Project X"))["properties"] == {"status": "active"}


@pytest.mark.shows("graph_relate", 2)
async def test_unresolved_references_are_all_named_and_nothing_is_written(agent: Agent) -> None:
    await agent.relate("Katherine", "USES", "Vim")
    with pytest.raises(InvalidInput) as refused:
        await agent.batch(
            [{"name": "New One", "type": "Concept"}],
            [
                {"from": "New One", "to": "Nobody", "relation": "KNOWS"},
                {"from": "Kathrine", "to": "New One", "relation": "KNOWS"},
            ],
        )
    message = refused.value.message
    assert "batch.relations[0].to 'Nobody'" in message
    assert "batch.relations[1].from 'Kathrine'" in message
    assert "Katherine" in message
    with pytest.raises(InvalidInput, match=r"^1 of the references leads to no one entity"):
        await agent.batch([], [{"from": "Katherine", "to": "Nobody", "relation": "KNOWS"}])
    assert not (await agent.entities(id="New One"))["found"]


@pytest.mark.shows("graph_relate", 15)
async def test_names_in_any_script_are_entities_of_their_own(agent: Agent) -> None:
    for name in ("C", "C++", "C#", "日本", "Über cool"):
        assert (await agent.relate("Ann", "KNOWS_ABOUT", name))["created_entities"][-1:] == [name]
    assert (await agent.entities(id="日本"))["entities"][0]["name"] == "日本"
    assert (await agent.stats())["nodes"]["total"] == 6


@pytest.mark.shows("graph_relate", 10)
async def test_the_first_display_name_stays_and_later_spellings_become_aliases(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Graph Memory")
    await agent.relate("ann", "USES", "graph_memory")
    entity = await agent.entity("GRAPH-MEMORY")
    assert (entity["name"], entity["aliases"]) == ("Graph Memory", ["graph_memory"])


@pytest.mark.shows("graph_relate", 10)
async def test_an_entity_keeps_its_first_type_and_says_so(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim", to_type="tool")
    answer = await agent.relate("Ann", "USES", "Vim", to_type="Concept")
    assert "keeps its first type" in answer["warnings"][0]
    assert (await agent.entity("Vim"))["type"] == "Object"


async def test_a_beginning_in_the_future_counts_from_now_on_and_the_answer_says_so(agent: Agent) -> None:
    await agent.relate("Ann", "WORKS_AT", "Acme", to_type="Organization", valid_at="2020-01-01")
    told = {"to_type": "Organization", "valid_at": "2999-01-01"}
    first = await agent.relate("Ann", "WORKS_AT", "Globex", **told)
    assert first["warnings"] == [
        "Ann→WORKS_AT→Globex begins in the future (2999-01-01T00:00:00Z) and counts as current from now on; "
        "what it replaced is found with as_of."
    ]
    assert set(await agent.edges("Ann")) == {("ann", "WORKS_AT", "globex")}
    assert set(await agent.edges("Ann", as_of="2026-01-01")) == {("ann", "WORKS_AT", "acme")}


async def test_of_many_beginnings_in_the_future_a_few_are_named_and_the_rest_counted(plain_agent: Agent) -> None:
    people = [f"Person {number}" for number in range(9)]
    answer = await plain_agent.batch(
        [{"name": name, "type": "Person"} for name in ["Ann", *people]],
        [
            {"from": "Ann", "relation": "KNOWS", "to": name, "valid_at": "2999-01-01" if number else "2020-01-01"}
            for number, name in enumerate(people)
        ],
    )
    *named, rest = (warning for warning in answer["warnings"] if "in the future" in warning)
    assert [warning.split(" begins in the future")[0] for warning in named] == [
        f"Ann→KNOWS→Person {number}" for number in range(1, 6)
    ]
    assert rest == "3 more relations begin in the future: for each of them the same is true."


@pytest.mark.shows("graph_relate", 11)
async def test_confidence_rises_and_never_falls(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim", weight=0.6)
    await agent.relate("Ann", "USES", "Vim", weight=0.4)
    assert (await agent.entity("Ann"))["confidence"] == 0.6
    await agent.batch([{"name": "Ann", "type": "Person", "properties": {"confidence": 0.9}}])
    assert (await agent.entity("Ann"))["confidence"] == 0.9


@pytest.mark.shows("graph_relate", 12)
async def test_nested_values_are_kept(agent: Agent) -> None:
    deep = {"a": [1, {"b": None}], "c": "d"}
    await agent.batch(
        [{"name": "Ann", "type": "Person", "properties": {"role": deep, "team": [1, "x"], "email": "a@b"}}]
    )
    assert (await agent.entity("Ann"))["properties"] == {"role": deep, "team": [1, "x"], "email": "a@b"}
    await agent.batch([{"name": "Ann", "type": "Person", "properties": {"role": "lead", "team": None, "email": None}}])
    assert (await agent.entity("Ann"))["properties"] == {"role": "lead"}


@pytest.mark.shows("graph_relate", 12)
async def test_numbers_are_stored_as_floats(agent: Agent, database: Database) -> None:
    await agent.relate("Ann", "USES", "Vim", weight=1)
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            "MATCH (n:Entity {tenant: $tenant, id: 'ann'})-[r]->() RETURN valueType(r.weight) AS weight, "
            "valueType(n.confidence) AS confidence, all(x IN n.embedding WHERE x IS :: FLOAT) AS vector",
            tenant=agent.tenant,
        )
        row = await result.single(strict=True)
    assert row["weight"].startswith("FLOAT")
    assert row["confidence"].startswith("FLOAT")
    assert row["vector"] is True


@pytest.mark.shows("graph_relate", 8)
async def test_asserting_a_superseded_relation_again_makes_it_current(agent: Agent) -> None:
    for target, when in (("Acme", "2020-01-01"), ("Globex", "2022-01-01"), ("Acme", "2024-01-01")):
        await agent.relate("Ann", "WORKS_AT", target, valid_at=when)
    assert list(await agent.edges("Ann")) == [("ann", "WORKS_AT", "acme")]
    every = await agent.edges("Ann", current_only=False)
    assert every["ann", "WORKS_AT", "globex"]["invalid_at"] == "2024-01-01T00:00:00Z"


@pytest.mark.shows("graph_relate", 6, 7)
async def test_supersession_follows_validity_and_happens_in_batches_too(agent: Agent) -> None:
    answer = await agent.batch(
        [{"name": name, "type": "Organization"} for name in ("Acme", "Globex")] + [{"name": "Ann", "type": "Person"}],
        [
            {"from": "Ann", "to": "Globex", "relation": "WORKS_AT", "valid_at": "2022-01-01"},
            {"from": "Ann", "to": "Acme", "relation": "WORKS_AT", "valid_at": "2020-01-01"},
            {"from": "Ann", "to": "Acme", "relation": "PREFERS", "valid_at": "2020-01-01"},
            {"from": "Ann", "to": "Globex", "relation": "PREFERS", "valid_at": "2022-01-01"},
        ],
    )
    assert answer["superseded"] == []
    assert set(await agent.edges("Ann")) == {
        ("ann", "WORKS_AT", "globex"),
        ("ann", "PREFERS", "acme"),
        ("ann", "PREFERS", "globex"),
    }
    newer = await agent.relate("Ann", "WORKS_AT", "Initech", valid_at="2025-01-01")
    assert newer["superseded"] == [
        {"from": "ann", "to": "globex", "type": "WORKS_AT", "invalid_at": "2025-01-01T00:00:00Z"}
    ]


@pytest.mark.shows("graph_relate", 21)
async def test_without_a_model_what_is_written_says_that_it_has_no_vector(
    agent: Agent, database: Database, embedder: Packaged
) -> None:
    assert embedder.identity is not None
    service = MemoryService(database, Failing(embedder.identity), settings())  # type: ignore[arg-type]
    answer = await Agent(service, agent.tenant, ("",), "").relate("Ann", "USES", "Vim")
    assert "embedding model did not answer" in answer["warnings"][0]
    assert (await agent.entity("Ann"))["name"] == "Ann"
    await service.close()


@pytest.mark.shows("graph_relate", 21)
async def test_what_has_a_vector_is_not_embedded_again(agent: Agent, embedder: Packaged) -> None:
    await agent.relate("Ann", "USES", "Vim")
    embedder.embedded.clear()
    await agent.relate("Ann", "USES", "Vim", evidence="Again.")
    assert embedder.embedded == []
    await agent.batch([{"name": "Vim", "type": "Concept", "properties": {"description": "An editor."}}])
    assert len(embedder.embedded) == 1


@pytest.mark.shows("graph_relate", 14)
async def test_the_same_idempotency_key_applies_once(agent: Agent) -> None:
    one = {"from_name": "Ann", "from_type": "Person", "relation": "USES", "to_name": "Vim", "to_type": "Object"}
    first = await agent.send(one | {"idempotency_key": "k"}, "digest")
    assert await agent.send(one | {"idempotency_key": "k"}, "digest") == first
    assert (await agent.entity("Ann"))["times_mentioned"] == 1
    with pytest.raises(Conflict):
        await agent.send(one | {"idempotency_key": "k"}, "another digest")


async def test_quotas_refuse_with_the_remedy_and_apply_nothing(
    tenant: str, database: Database, embedder: Packaged
) -> None:
    service = MemoryService(database, embedder, settings(quota_entities=3, quota_relations=5))  # type: ignore[arg-type]
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ann", "USES", "Vim")
    await agent.relate("Ann", "USES", "Make")
    with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_ENTITIES"):
        await agent.relate("Ann", "USES", "Git")
    assert (await agent.stats())["nodes"]["total"] == 3
    await agent.relate("Vim", "USES", "Make")
    agent.rules = TenantRules(quota_entities=4)
    await agent.relate("Ann", "USES", "Git")
    agent.rules = TenantRules(quota_entities=5, quota_relations=4)
    with pytest.raises(QuotaExceeded, match="hold 4 relations"):
        await agent.relate("Ann", "USES", "Emacs")
    await service.close()


@pytest.mark.shows("graph_relate", 13)
async def test_which_relations_have_one_value_at_a_time_is_the_tenants_own_rule(agent: Agent) -> None:
    agent.rules = TenantRules(single_valued=frozenset({"LIVES_IN"}))
    for relation in ("LIVES_IN", "WORKS_AT"):
        for target, when in (("Rome", "2020-01-01"), ("Oslo", "2024-01-01")):
            await agent.relate("Ann", relation, target, valid_at=when)
    edges = await agent.edges("Ann")
    assert {key[1:] for key in edges} == {("LIVES_IN", "oslo"), ("WORKS_AT", "rome"), ("WORKS_AT", "oslo")}


async def test_a_partition_takes_at_most_two_hundred_types_and_relations_of_its_own(plain_agent: Agent) -> None:
    await plain_agent.batch([{"name": f"n{number}", "type": f"Kind{number}"} for number in range(200)])
    with pytest.raises(InvalidInput, match="beyond the documented"):
        await plain_agent.batch([{"name": "one more", "type": "KindMore"}])
    await plain_agent.batch([{"name": "one more", "type": "Kind7"}, {"name": "and", "type": "Person"}])
    relations = [{"from": "and", "to": f"n{number}", "relation": f"R{number}"} for number in range(200)]
    await plain_agent.batch([], relations)
    with pytest.raises(InvalidInput, match="beyond the documented"):
        await plain_agent.batch([], [{"from": "and", "to": "n1", "relation": "R_MORE"}])


@pytest.mark.shows("graph_relate", 16)
@pytest.mark.shows("graph_query", 1)
async def test_an_alias_leads_to_its_entity(agent: Agent) -> None:
    await agent.batch(
        [{"name": "GKP", "type": "Alias"}, {"name": "Graphkeep Project", "type": "Project"}],
        [{"from": "GKP", "to": "Graphkeep Project", "relation": "ALIAS_OF"}],
    )
    assert "GKP" in (await agent.entity("Graphkeep Project"))["aliases"]


@pytest.mark.shows("graph_relate", 12)
async def test_moments_are_stored_as_moments(agent: Agent, database: Database) -> None:
    await agent.relate("Ann", "USES", "Vim", valid_at="2026-03-01T12:00:00+02:00")
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            "MATCH (:Entity {tenant: $tenant, id: 'ann'})-[r]->() RETURN r.valid_at AS valid_at", tenant=agent.tenant
        )
        stored: Any = (await result.single(strict=True))["valid_at"]
    assert stored.to_native() == datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.mark.shows("graph_entities", 2)
async def test_lucene_syntax_and_odd_text_are_plain_names(agent: Agent) -> None:
    for name in ('C++ (old) "x', "a AND", "foo:bar", "*x", "a/b\nc", "🦊 fox", "שלום", "x\u0000y", "'; DROP"):
        answer = await agent.relate("Ann", "KNOWS_ABOUT", name)
        assert answer["created_entities"], name
        assert (await agent.query(name))["found"], name

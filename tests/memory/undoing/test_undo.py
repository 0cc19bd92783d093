"""``graph_undo`` lists what this caller may undo, and undoes it exactly or says why not."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from app.errors import Conflict, InvalidInput, NotFound, QuotaExceeded
from app.memory.service import MemoryService
from app.memory.undoing.schemas import UndoInput
from app.settings import Settings, StoreSettings
from app.store.control.audit import Audit
from app.store.database import Database
from tests.memory.conftest import Agent, Packaged, settings
from tests.memory.doing import backdate
from tests.memory.doing import do as changing
from tests.memory.merging.conftest import Team, everything, merge, undo


async def _pair(agent: Agent) -> str:
    await agent.relate("Bob", "USES", "Vim", evidence="Bob uses Vim.")
    await agent.relate("Robert", "USES", "Vim")
    undo_id: str = (await merge(agent, "bob", "robert"))["undo_id"]
    return undo_id


@pytest.mark.parametrize("blank", ["", "  "])
def test_who_gives_a_blank_id_is_told_where_ids_come_from(blank: str) -> None:
    with pytest.raises(ValidationError, match="`undo_id` in the answer of the change; graph_undo without"):
        UndoInput.model_validate_json(f'{{"undo_id": "{blank}"}}', strict=True)


@pytest.mark.shows("graph_undo", 1, 5)
async def test_changes_are_listed_newest_first_and_a_cursor_goes_on(agent: Agent) -> None:
    first = await _pair(agent)
    second = (await undo(agent, first))["undo_id"]
    third = (await undo(agent, second))["undo_id"]
    answer = await undo(agent, None)
    assert [change["undo_id"] for change in answer["changes"]] == [third]
    change = answer["changes"][0]
    assert (change["tool"], change["layers"]) == ("graph_undo", ["tenant"])
    assert change["summary"] == "merged 'Bob' (bob) into 'Robert' (robert)"
    assert change["at"][:10] < change["expires_at"][:10]
    await agent.relate("Ann", "KNOWS", "Carol", to_type="Person")
    fourth = (await merge(agent, "ann", "carol"))["undo_id"]
    page = await undo(agent, None, limit=1)
    assert [change["undo_id"] for change in page["changes"]] == [fourth]
    rest = await undo(agent, None, limit=1, cursor=page["next_cursor"])
    assert ([change["undo_id"] for change in rest["changes"]], rest["next_cursor"]) == ([third], None)
    with pytest.raises(InvalidInput):
        await undo(agent, None, cursor="nonsense")


@pytest.mark.shows("graph_undo", 3)
async def test_what_has_changed_since_is_named_and_nothing_is_applied(agent: Agent, database: Database) -> None:
    undo_id = await _pair(agent)
    await agent.relate("Robert", "USES", "Emacs")
    left = await everything(database, agent)
    with pytest.raises(Conflict) as refused:
        await undo(agent, undo_id)
    assert "entity 'robert' has changed (last_seen, times_mentioned)" in refused.value.message
    assert "relation" not in refused.value.message
    assert await everything(database, agent) == left


@pytest.mark.shows("graph_undo", 12)
async def test_fading_since_does_not_stand_in_the_way_and_what_comes_back_fades_too(
    agent: Agent, database: Database
) -> None:
    """The merge takes over Bob's relations with their age; decay runs every night, before one looks at what it did."""
    await agent.batch(
        [{"name": name, "type": "Person", "properties": {"confidence": 0.8}} for name in ("Bob", "Robert", "Vim")],
        [{"from": "Bob", "relation": "USES", "to": "Vim", "weight": 0.8}],
    )
    await backdate(database, agent, 50)
    before = await everything(database, agent)
    first = (await merge(agent, "bob", "robert"))["undo_id"]
    assert (await changing(agent, "graph_decay"))["edges_decayed"] == 1
    await undo(agent, first)
    vim = [node for node in before["nodes"] if node[1]["id"] == "vim"]
    left = await everything(database, agent)
    assert [node for node in left["nodes"] if node[1]["id"] != "vim"] == [
        node for node in before["nodes"] if node not in vim
    ]
    assert left["relations"] == before["relations"]
    await changing(agent, "graph_decay")
    assert (await agent.entity("Bob"))["confidence"] == pytest.approx(0.8 * 0.998**50)
    assert (await agent.edges("Bob"))["bob", "USES", "vim"]["weight"] == pytest.approx(0.8 * 0.997**50)
    second = (await merge(agent, "bob", "robert"))["undo_id"]
    await changing(agent, "graph_decay")
    await changing(agent, "graph_weaken", from_name="robert", to_name="vim", relation="USES")
    with pytest.raises(Conflict, match=r"relation robert→USES→vim has changed \(weight\)\. Nothing"):
        await undo(agent, second)


PEOPLE, THINGS = ("Ann", "Bob", "Cid"), ("Vim", "Emacs", "Acme", "Initech")


async def _remembered(database: Database, agent: Agent, kind: str) -> dict[str, Any]:
    """Everything; but of entities that ``end`` mentions not what each mention changes, which it does not take back."""
    found = await everything(database, agent)
    counters = {"last_seen", "times_mentioned", "decay_state"} if kind == "end" else set()
    kept = [
        [labels, {name: held for name, held in node.items() if name not in counters}] for labels, node in found["nodes"]
    ]
    return found | {"nodes": kept}


async def _change(agent: Agent, random: Random, kind: str) -> str:
    """A change of this kind that can be undone; its id."""
    if kind == "end":
        said = [
            {
                "from": "Ann",
                "relation": "WORKS_AT",
                "to": to,
                "weight": 0.5,
                "valid_at": since,
                "evidence": f"at {to} {since}",
            }
            for to, since in (("Initech", "2024-01-01"), ("Acme", "2025-01-01"))
        ]
        return str((await agent.batch([], said))["undo_id"])
    if kind == "merge":
        return str((await merge(agent, *random.sample(("ann", "bob", "cid"), 2)))["undo_id"])
    if kind == "prune":
        pruned = await changing(agent, "graph_prune", mode="execute", edge_threshold=0.45)
        return str(pruned["undo_id"])
    return str((await changing(agent, "graph_delete", entity_id=random.choice(("vim", "bob", "acme"))))["undo_id"])


@pytest.mark.shows("graph_undo", 2, 5, 8)
@pytest.mark.parametrize("kind", ["end", "merge", "prune", "delete"])
async def test_whatever_is_undone_comes_back_to_the_letter(plain_agent: Agent, database: Database, kind: str) -> None:
    """Evidence too: what was said at one moment in its order, and what an end alone still knows."""
    agent, random = plain_agent, Random(kind)
    await agent.batch(
        [{"name": name, "type": "Person"} for name in PEOPLE] + [{"name": name, "type": "Object"} for name in THINGS],
        [{"from": "Ann", "relation": "WORKS_AT", "to": "Acme", "weight": 0.4, "valid_at": "2020-01-01"}],
    )
    for number in range(4):
        triples = random.sample([(a, verb, b) for a in PEOPLE for verb in ("USES", "LIKES") for b in THINGS], 6)
        said = [
            {"from": a, "relation": verb, "to": b, "weight": random.choice((0.3, 0.6)), "evidence": f"{a} {b} {number}"}
            for a, verb, b in triples
        ]
        await agent.batch([], said)
    await changing(agent, "graph_boost", from_name=said[0]["from"], relation=said[0]["relation"], to_name=said[0]["to"])
    before = await _remembered(database, agent, kind)
    undo_id = await _change(agent, random, kind)
    after = await _remembered(database, agent, kind)
    assert after != before
    for left in (before, after, before):
        undo_id = (await undo(agent, undo_id))["undo_id"]
        assert await _remembered(database, agent, kind) == left


@pytest.mark.shows("graph_undo", 4, 9)
async def test_a_change_is_undone_once_and_the_trail_says_so(agent: Agent, database: Database) -> None:
    undo_id = await _pair(agent)
    done = await undo(agent, undo_id)
    with pytest.raises(Conflict, match=f"undone already; to make it again, undo {done['undo_id']}"):
        await undo(agent, undo_id)
    entry = (await Audit(database.control).entries(agent.tenant, [""]))[0]
    assert (entry.actor, entry.action, entry.target) == ("user", "memory.undo", undo_id)
    assert entry.detail == {"tool": "graph_merge", "undo_id": done["undo_id"]}


@pytest.mark.shows("graph_undo", 6)
async def test_a_change_is_there_only_for_who_may_write_all_its_layers(service: MemoryService, tenant: str) -> None:
    """Partition rule 18."""
    team = Team(service, tenant, ("", "a"), ("a", ""))
    await Agent(service, tenant, ("",), "").relate("Bob", "USES", "Vim")
    await team.relate("Bob", "KNOWS", "Robert", to_type="Person")
    undo_id = (await merge(team, "bob", "robert"))["undo_id"]
    for part in (Agent(service, tenant, ("", "a"), "a"), Agent(service, tenant, ("",), "")):
        assert (await undo(part, None))["changes"] == []
        with pytest.raises(NotFound) as refused:
            await undo(part, undo_id)
        with pytest.raises(NotFound) as invented:
            await undo(part, "un-0123")
        assert refused.value.message == invented.value.message
    assert [change["undo_id"] for change in (await undo(team, None))["changes"]] == [undo_id]
    assert (await undo(team, undo_id))["undone"]["layers"] == ["tenant", "a"]


async def test_what_a_change_is_called_has_no_name_from_a_layer_that_it_did_not_touch(
    service: MemoryService, tenant: str
) -> None:
    """Partition rule 18: it is shown to who may write the layers that it touched, not to who may read what it saw."""
    there, here = Agent(service, tenant, ("a",), "a"), Agent(service, tenant, ("b",), "b")
    await there.batch([{"name": name, "type": "Person"} for name in ("ZED", "ROBERT")], [])
    await here.batch([{"name": name, "type": "Person"} for name in ("Zed", "Bob", "Robert")], [])
    await changing(Team(service, tenant, ("a", "b"), ("b",)), "graph_delete", entity_id="zed")
    await merge(Team(service, tenant, ("a", "b"), ("b", "a")), "bob", "robert")
    told = [change["summary"] for change in (await undo(here, None))["changes"]]
    assert told == ["merged 'Bob' (bob) into 'Robert' (robert)", "deleted Zed"]


@pytest.mark.shows("graph_undo", 7)
async def test_how_long_a_change_can_be_undone_is_a_setting(
    database: Database, embedder: Packaged, tenant: str
) -> None:
    plain = settings()
    brief = Settings(store=StoreSettings(undo_days=3), limits=plain.limits, embedding=plain.embedding)
    service = MemoryService(database, embedder, brief)  # type: ignore[arg-type]
    agent = Agent(service, tenant, ("",), "")
    undo_id = await _pair(agent)
    async with database.driver.session(database=database.name) as session:
        result = await session.run("MATCH (u:_Undo {id: $id}) RETURN u.expires_at - u.at AS kept", id=undo_id)
        assert [row["kept"] async for row in result] == [3 * 86_400_000]
        await session.run("MATCH (u:_Undo {id: $id}) SET u.expires_at = 1", id=undo_id)
    assert (await undo(agent, None))["changes"] == []
    with pytest.raises(NotFound):
        await undo(agent, undo_id)
    await service.close()


async def test_what_comes_back_counts_for_the_quota(database: Database, embedder: Packaged, tenant: str) -> None:
    """To fill, delete, fill again and undo would double what a tenant may hold."""
    service = MemoryService(database, embedder, settings(quota_entities=3))  # type: ignore[arg-type]
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ann", "KNOWS", "Bob")
    gone = await changing(agent, "graph_delete", entity_id="bob")
    await agent.relate("Ann", "KNOWS", "Cid", to_type="Person")
    await agent.relate("Ann", "KNOWS", "Dan", to_type="Person")
    with pytest.raises(QuotaExceeded, match="may hold 3 entities"):
        await undo(agent, gone["undo_id"])
    await changing(agent, "graph_delete", entity_id="dan")
    assert (await undo(agent, gone["undo_id"]))["restored"]["entities"] == 1
    with pytest.raises(QuotaExceeded):
        await agent.relate("Ann", "KNOWS", "Eve", to_type="Person")
    await service.close()


@pytest.mark.shows("graph_undo", 8)
async def test_superseding_can_be_undone(agent: Agent, database: Database) -> None:
    await agent.relate("Ann", "WORKS_AT", "Acme", to_type="Organization", valid_at="2020-01-01")
    first = await agent.edges("Ann")
    answer = await agent.relate(
        *("Ann", "WORKS_AT", "Initech"),
        to_type="Organization",
        valid_at="2024-01-01",
        evidence="She left for Initech yesterday.",
    )
    assert [edge["to"] for edge in answer["superseded"]] == ["acme"]
    assert (await agent.entities(search="yesterday"))["found"]
    await agent.relate("Ann", "USES", "Vim")  # a later mention does not stand in the way
    done = await undo(agent, answer["undo_id"])
    assert done["restored"] == {"entities": 0, "relations": 2, "aliases": 0}
    edges = await agent.edges("Ann")
    assert edges["ann", "WORKS_AT", "acme"] == first["ann", "WORKS_AT", "acme"]
    assert set(edges) == {("ann", "WORKS_AT", "acme"), ("ann", "USES", "vim")}
    assert not (await agent.entities(search="yesterday"))["found"]
    await undo(agent, done["undo_id"])
    assert ("ann", "WORKS_AT", "initech") in await agent.edges("Ann")
    assert (await agent.entities(search="yesterday"))["found"]


async def test_relating_what_supersedes_nothing_leaves_nothing_to_undo(agent: Agent) -> None:
    assert (await agent.relate("Ann", "USES", "Vim")).get("undo_id") is None
    assert (await agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01")).get("undo_id") is None
    assert (await undo(agent, None))["changes"] == []


@pytest.mark.shows("graph_undo", 10)
async def test_the_same_key_undoes_once(agent: Agent) -> None:
    undo_id = await _pair(agent)
    first = await undo(agent, undo_id, idempotency_key="k")
    assert await undo(agent, undo_id, idempotency_key="k") == first

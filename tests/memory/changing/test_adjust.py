"""``graph_boost`` and ``graph_weaken`` move one weight, within bounds, in every copy that may be written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from app.context import Scope
from app.contract import Call
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.memory.service import MemoryService
from app.settings import EmbeddingSettings, MemorySettings, Settings
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do, entries

USES = {"from_name": "Ann", "to_name": "Vim", "relation": "USES"}


@pytest.mark.shows("graph_boost", 1, 2, 8)
async def test_a_boost_adds_its_amount_and_counts_as_confirmed_now(agent: Agent, database: Database) -> None:
    await agent.relate("Ann", "USES", "Vim", weight=0.6)
    await backdate(database, agent, 0.9)
    before = (await agent.edges("Ann"))["ann", "USES", "vim"]
    answer = await do(agent, "graph_boost", **USES)
    assert (answer["previous_weight"], answer["new_weight"]) == (0.6, 0.75)
    assert answer["edge"] == {"from": "ann", "to": "vim", "type": "USES"}
    assert (await do(agent, "graph_boost", **USES, amount=0.05))["new_weight"] == 0.8
    after = (await agent.edges("Ann"))["ann", "USES", "vim"]
    assert after["last_confirmed"] > before["last_confirmed"]
    assert after["weight"] == 0.8


@pytest.mark.shows("graph_weaken", 1, 2, 4)
async def test_a_weakened_relation_is_as_old_as_before(agent: Agent, database: Database) -> None:
    """W-M18: weakening does not refresh the moment from which a relation fades."""
    await agent.relate("Ann", "USES", "Vim", weight=0.7)
    await backdate(database, agent, 0.9)
    before = (await agent.edges("Ann"))["ann", "USES", "vim"]["last_confirmed"]
    answer = await do(agent, "graph_weaken", **USES)
    assert (answer["previous_weight"], answer["new_weight"], answer["pruned"]) == (0.7, 0.5, False)
    assert (await agent.edges("Ann"))["ann", "USES", "vim"]["last_confirmed"] == before


@pytest.mark.shows("graph_boost", 3)
@pytest.mark.shows("graph_weaken", 3)
async def test_no_amount_leaves_zero_to_one(agent: Agent) -> None:
    """W-M16: negative and overlarge amounts are clamped, with a warning, and weights stay within [0, 1]."""
    await agent.relate("Ann", "USES", "Vim", weight=0.6)
    assert (await do(agent, "graph_boost", **USES, amount=7))["new_weight"] == 1.0
    negative = await do(agent, "graph_boost", **USES, amount=-3)
    assert (negative["new_weight"], "outside 0..1" in negative["warnings"][0]) == (1.0, True)
    down = await do(agent, "graph_weaken", **USES, amount=9)
    assert (down["previous_weight"], down["new_weight"], down["pruned"]) == (1.0, 0.0, True)
    assert (await do(agent, "graph_weaken", **USES, amount=-1))["new_weight"] == 0.0


@pytest.mark.shows("graph_boost", 4)
@pytest.mark.shows("graph_weaken", 5)
async def test_one_setting_feeds_amounts_and_the_threshold(agent: Agent, database: Database) -> None:
    """The defaults of the tools and what being mentioned adds come from the settings, and only from there."""
    memory = MemorySettings(boost=0.1, weaken=0.3, mention=0.02, prune_edge_threshold=0.3)
    settings = Settings(memory=memory, embedding=EmbeddingSettings(embedding="none"))
    service = MemoryService(database, agent.service.embedder, settings)
    other = Agent(service, agent.tenant, ("",), "")
    await other.relate("Ann", "USES", "Vim", weight=0.4)
    assert (await other.relate("Ann", "USES", "Vim", weight=0.1))["edge"]["weight"] == pytest.approx(0.42)
    assert (await do(other, "graph_boost", **USES))["new_weight"] == 0.52
    weaker = await do(other, "graph_weaken", **USES)
    assert (weaker["new_weight"], weaker["pruned"]) == (0.22, True)
    await service.close()


@pytest.mark.shows("graph_boost", 5)
@pytest.mark.shows("graph_weaken", 6)
async def test_names_are_found_by_alias_and_in_spite_of_a_typo_and_several_are_named(agent: Agent) -> None:
    await agent.relate("Katherine Johnson", "USES", "Vim", weight=0.5)
    await agent.batch(
        [{"name": "KJ", "type": "Alias"}, {"name": "Katherine Johnson", "type": "Person"}],
        [{"from": "KJ", "to": "Katherine Johnson", "relation": "ALIAS_OF"}],
    )
    for name in ("katherine-johnson", "Kathrine Johnson", "Johnson"):
        found = await do(agent, "graph_boost", from_name=name, to_name="vim", relation="USES", amount=0.01)
        assert found["edge"]["from"] == "katherine-johnson"
    await agent.relate("Katharine Johnson", "USES", "Emacs", weight=0.5)
    with pytest.raises(InvalidInput, match=r"fits several.*'Katharine Johnson' \(id katharine-johnson\)"):
        await do(agent, "graph_weaken", from_name="Kathxrine Johnson", to_name="Vim", relation="USES")


@pytest.mark.shows("graph_boost", 6)
@pytest.mark.shows("graph_weaken", 7)
async def test_a_missing_relation_is_an_error_that_names_graph_relate(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim")
    for more in ({"relation": "KNOWS"}, {"from_name": "Vim", "to_name": "Ann"}, {"to_name": "Nothing Like It"}):
        for tool in ("graph_boost", "graph_weaken"):
            with pytest.raises(NotFound, match="graph_relate") as missing:
                await do(agent, tool, **{**USES, **more})
            assert missing.value.message.endswith("Nothing was applied.")
            assert agent.tenant not in missing.value.message


async def test_a_relation_can_carry_no_cypher(agent: Agent) -> None:
    """W-M01: the relation is a parameter and of a plain form."""
    await agent.relate("Ann", "USES", "Vim")
    with pytest.raises(InvalidInput, match="only letters"):
        await do(agent, "graph_boost", **{**USES, "relation": "X]-() DETACH DELETE (n"})


@pytest.mark.shows("graph_boost", 7)
@pytest.mark.shows("graph_weaken", 8)
async def test_each_call_stands_in_the_audit_trail_under_the_layers_that_changed(
    service: MemoryService, tenant: str, database: Database
) -> None:
    writer = Agent(service, tenant, ("", "a"), "a")
    await writer.relate("Ann", "USES", "Vim", weight=0.5)
    await do(writer, "graph_boost", **USES, reason="she said so")
    await do(writer, "graph_weaken", **USES)
    told = await entries(database, writer)
    assert [(entry.action, entry.target, entry.actor, entry.layers, entry.detail) for entry in told] == [
        ("memory.weaken", "ann USES vim", "user", ("a",), {"previous_weight": 0.65, "new_weight": 0.45}),
        (
            *("memory.boost", "ann USES vim", "user", ("a",)),
            {"reason": "she said so", "previous_weight": 0.5, "new_weight": 0.65},
        ),
    ]
    assert await entries(database, Agent(service, tenant, ("",), None)) == []


@pytest.mark.shows("graph_weaken", 12)
@pytest.mark.parametrize("tool", ["graph_boost", "graph_weaken"])
async def test_whether_decay_ran_just_before_or_just_after_changes_nothing(
    service: MemoryService, tenant: str, database: Database, tool: str
) -> None:
    """To the last digit: a change acts on what is left by then, whether or not a run had written it."""
    left = []
    for number, steps in enumerate(((tool, "graph_decay"), ("graph_decay", tool))):
        agent = Agent(service, f"{tenant}{number}", ("",), "")
        await agent.relate("Ann", "USES", "Vim", weight=0.8)
        await backdate(database, agent, 33.7)
        told = {}
        for step in steps:
            ends = {"from_name": "Ann", "relation": "USES", "to_name": "Vim"} if step == tool else {}
            told[step] = await do(agent, step, **ends)
        await backdate(database, agent, 5.5)
        await do(agent, "graph_decay")
        left.append((told[tool], (await agent.edges("Ann"))["ann", "USES", "vim"]["weight"]))
    assert left[0] == left[1]
    assert left[0][0]["previous_weight"] == pytest.approx(0.8 * 0.997**33)


@pytest.mark.shows("graph_boost", 9)
@pytest.mark.shows("graph_weaken", 9)
async def test_the_same_key_boosts_or_weakens_once(agent: Agent) -> None:
    await agent.relate("Ann", "USES", "Vim", weight=0.5)
    for tool, weight in (("graph_boost", 0.65), ("graph_weaken", 0.45)):
        first = await do(agent, tool, **USES, idempotency_key="k")
        assert await do(agent, tool, **USES, idempotency_key="k") == first
        assert (await agent.edges("Ann"))["ann", "USES", "vim"]["weight"] == weight
        with pytest.raises(Conflict):
            await do(agent, tool, digest="other", **USES, idempotency_key="k")


@pytest.mark.shows("graph_boost", 10)
@pytest.mark.shows("graph_weaken", 10)
async def test_each_copy_that_may_be_written_moves_and_the_merged_weight_is_told(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    hidden, both = Agent(service, tenant, ("", "b"), "b"), _writing(service, tenant, ("", "a"))
    await wide.relate("Ann", "USES", "Vim", weight=0.4)
    await in_a.relate("Ann", "USES", "Vim", weight=0.8)
    await hidden.relate("Ann", "USES", "Vim", weight=0.9)
    answer = await do(both, "graph_boost", **USES)
    assert (answer["previous_weight"], answer["new_weight"]) == (0.8, 0.95)
    assert (answer["layers"], answer["kept_layers"]) == (["tenant", "a"], [])
    assert (await wide.edges("Ann"))["ann", "USES", "vim"]["weight"] == 0.55
    assert (await Agent(service, tenant, ("b",), None).edges("Ann"))["ann", "USES", "vim"]["weight"] == 0.9
    partly = await do(in_a, "graph_weaken", **USES, amount=0.5)
    assert (partly["previous_weight"], partly["new_weight"]) == (0.95, 0.55)
    assert (partly["layers"], partly["kept_layers"]) == (["a"], ["tenant"])


@pytest.mark.shows("graph_boost", 11)
@pytest.mark.shows("graph_weaken", 11)
async def test_a_relation_of_which_no_copy_may_be_written_is_refused_and_stays(
    service: MemoryService, tenant: str
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    await wide.relate("Ann", "USES", "Vim", weight=0.4)
    for tool in ("graph_boost", "graph_weaken"):
        with pytest.raises(Forbidden, match="tenant"):
            await do(in_a, tool, **USES)
    assert (await wide.edges("Ann"))["ann", "USES", "vim"]["weight"] == 0.4


async def test_a_boost_takes_few_round_trips(agent: Agent, show: Callable[[str], None]) -> None:
    await agent.relate("Ann", "USES", "Vim", weight=0.1)
    taken = []
    for _ in range(20):
        began = time.perf_counter()
        await do(agent, "graph_boost", **USES, amount=0.001)
        taken.append(time.perf_counter() - began)
    show(f"graph_boost: median {sorted(taken)[10] * 1000:.1f} ms, slowest but one {sorted(taken)[-2] * 1000:.1f} ms")
    assert sorted(taken)[10] < 0.5


def _writing(service: MemoryService, tenant: str, layers: tuple[str, ...]) -> Agent:
    """An agent who may write every layer that it reads."""

    class Everywhere(Agent):
        def call(self, tool: str, digest: str = "") -> Call:
            scope = Scope(tenant, layers, layers, layers[0], "user")
            return replace(super().call(tool, digest), scope=scope)

    return Everywhere(service, tenant, layers, layers[0])

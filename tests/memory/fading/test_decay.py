"""``graph_decay``: weights are a function of the time that went by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from app.context import Deadline
from app.contract import Call
from app.errors import Conflict
from app.memory.changing.queries import ADJUST
from app.memory.fading.queries import OF_RELATION
from app.memory.fading.rest import FLOOR, rest
from app.memory.fading.tools import FADING
from app.memory.queries import LOCK
from app.memory.service import MemoryService
from app.settings import EmbeddingSettings, MemorySettings, Settings
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do, entries, one_waits, uncommitted


async def _weights(agent: Agent) -> dict[str, float]:
    """All confidences and weights as they are stored."""
    database = agent.service.database
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            """
            MATCH (n:Entity {tenant: $tenant}) RETURN n.layer + '/' + n.id AS name, n.confidence AS held
            UNION ALL MATCH (a:Entity {tenant: $tenant})-[r]->(b)
            RETURN a.layer + '/' + a.id + ' ' + type(r) + ' ' + b.id AS name, r.weight AS held
            """,
            tenant=agent.tenant,
        )
        return {row["name"]: row["held"] async for row in result}


async def _some(agent: Agent) -> None:
    kinds = ("Person", "Project", "Event", "Reasoning", "Spaceship")
    await agent.batch(
        [{"name": f"the {kind}", "type": kind, "properties": {"confidence": 0.8}} for kind in kinds],
        [
            {"from": "the Person", "to": f"the {kind}", "relation": "USES", "weight": 0.2 * number}
            for number, kind in enumerate(kinds)
            if number
        ],
    )


@pytest.mark.shows("graph_decay", 1, 2)
async def test_thirty_runs_leave_what_one_run_leaves(service: MemoryService, tenant: str, database: Database) -> None:
    """W-M07: decay compounded on every run; 0.8 of a person is 0.7534 after thirty days, whoever ran when."""
    once, often = Agent(service, f"{tenant}1", ("",), ""), Agent(service, f"{tenant}2", ("",), "")
    for agent in (once, often):
        await _some(agent)
    for _ in range(6):
        await backdate(database, often, 5)
        await do(often, "graph_decay")
        await do(often, "graph_decay")
    await backdate(database, once, 30)
    await do(once, "graph_decay")
    held = await _weights(once)
    assert await _weights(often) == held
    assert held["/the-person"] == pytest.approx(0.7534, abs=1e-4)
    assert held["/the-reasoning"] == pytest.approx(0.8 * 0.996**30)
    assert held["/the-spaceship"] == pytest.approx(0.8 * 0.996**30)
    assert held["/the-person USES the-spaceship"] == pytest.approx(0.8 * 0.997**30)
    again = await do(once, "graph_decay")
    assert (again["nodes_decayed"], again["edges_decayed"]) == (0, 0)


@pytest.mark.shows("graph_decay", 3)
async def test_nothing_fades_within_a_day_nor_below_the_floor(agent: Agent, database: Database) -> None:
    await _some(agent)
    await agent.relate("Ann", "USES", "Vim", weight=0)
    await backdate(database, agent, 0.9)
    before = await _weights(agent)
    assert (await do(agent, "graph_decay"))["nodes_decayed"] == 0
    assert await _weights(agent) == before
    await backdate(database, agent, 4000)
    await do(agent, "graph_decay")
    held = await _weights(agent)
    assert held["/the-event"] == 0.01
    assert held["/ann USES vim"] == 0.0


@pytest.mark.shows("graph_decay", 4)
async def test_what_is_said_or_boosted_starts_anew_and_what_is_weakened_goes_on(
    agent: Agent, database: Database
) -> None:
    """W-M18: a mention or a boost is a new beginning; weakening neither gains nor loses a day."""
    for target in ("boosted", "said", "weakened", "left"):
        await agent.relate("Ann", "USES", target, weight=0.8)
    await backdate(database, agent, 50)
    await do(agent, "graph_decay")
    held = await _weights(agent)
    assert held["/ann USES left"] == pytest.approx(0.6884, abs=1e-4)
    ends = {"from_name": "Ann", "relation": "USES"}
    await do(agent, "graph_boost", **ends, to_name="boosted", amount=0.1)
    await do(agent, "graph_weaken", **ends, to_name="weakened", amount=0.1)
    await agent.relate("Ann", "USES", "said", weight=0.1)
    assert (await do(agent, "graph_decay"))["edges_decayed"] == 0
    start = await _weights(agent)
    await backdate(database, agent, 10)
    await do(agent, "graph_decay")
    await do(agent, "graph_decay")
    now = await _weights(agent)
    for target in ("boosted", "said", "weakened"):
        assert now[f"/ann USES {target}"] == pytest.approx(start[f"/ann USES {target}"] * 0.997**10)
    assert now["/ann USES left"] == pytest.approx(0.8 * 0.997**60)


@pytest.mark.shows("graph_decay", 1, 4)
@pytest.mark.shows("graph_boost", 1)
@pytest.mark.shows("graph_weaken", 4)
async def test_whatever_happens_between_weights_depend_on_no_run_of_decay(
    service: MemoryService, tenant: str, database: Database
) -> None:
    """W-M07: what is said, boosted or weakened adds to what is left by then, whether or not a run had written it."""
    never, often, now_and_then = (Agent(service, f"{tenant}{number}", ("",), "") for number in range(3))
    random = Random(7)
    told = []
    for agent in (never, often, now_and_then):
        await agent.batch(
            [{"name": "always", "type": "Preference", "properties": {"subtype": "rule", "confidence": 0.8}}],
            [],
        )
        for target in ("Vim", "Emacs", "always"):
            await agent.relate("Ann", "USES", target, weight=0.8)
        await backdate(database, agent, 50)
        if agent is often:
            await do(agent, "graph_decay")
        ends = {"from_name": "Ann", "relation": "USES", "to_name": "Vim"}
        told.append(await do(agent, "graph_boost", **ends, amount=0.1))
    assert told[0] == told[1] == told[2]
    assert told[0]["previous_weight"] == pytest.approx(0.8 * 0.997**50)
    assert told[0]["new_weight"] == pytest.approx(0.8 * 0.997**50 + 0.1)
    steps = [random.choice(("graph_boost", "graph_weaken", "relate", "mention")) for _ in range(6)]
    for step in steps:
        days, target = random.choice((0.4, 3.5, 40, 400)), random.choice(("Vim", "Emacs", "always"))
        for agent in (never, often, now_and_then):
            await backdate(database, agent, days)
            if agent is often or (agent is now_and_then and days > 30):
                await do(agent, "graph_decay")
            if step == "relate":
                await agent.relate("Ann", "USES", target, weight=0.3)
            elif step == "mention":
                await agent.batch([{"name": target, "type": "Concept"}, {"name": "Ann", "type": "Person"}])
            else:
                await do(agent, step, from_name="Ann", relation="USES", to_name=target, amount=0.05)
    for agent in (never, often, now_and_then):
        await backdate(database, agent, 5.5)
        await do(agent, "graph_decay")
    held = await _weights(never)
    assert held["/always"] == 0.8
    assert await _weights(often) == pytest.approx(held, abs=1e-9)
    assert await _weights(now_and_then) == pytest.approx(held, abs=1e-9)


@pytest.mark.parametrize("state", [None, "faded", "weakened"])
@pytest.mark.parametrize("days", [0.5, 1, 49.9, 50, 4000])
async def test_what_is_decided_outside_of_the_database_fades_as_in_it(
    agent: Agent, database: Database, days: float, state: str | None
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    since = now - timedelta(days=days)
    left = 0.8 * 0.997**3
    held, stored = {
        None: (0.8, None),
        "faded": (left, [0.8, since.timestamp(), 3.0, left]),
        "weakened": (0.3, [0.3, since.timestamp() + 3600, 0.0, 0.3]),
    }[state]
    terms = {
        "held": held,
        "seen": since,
        "state": stored,
        "moment": now.timestamp(),
        "edge_rate": 0.997,
        "floor": FLOOR,
    }
    text = OF_RELATION.replace(
        "WITH *, r.", "WITH {weight: $held, last_confirmed: $seen, decay_state: $state} AS r WITH *, r.", 1
    )
    async with database.driver.session(database=database.name) as session:
        row = await (await session.run(f"CYPHER 25 {text} RETURN value", terms)).single()
    assert row is not None
    assert rest(held, since, stored, 0.997, now) == pytest.approx(row["value"])


@pytest.mark.shows("graph_decay", 4)
@pytest.mark.parametrize("layers", [("",), ("", "a")])
async def test_a_boost_or_a_mention_that_comes_while_things_fade_is_kept(
    service: MemoryService, tenant: str, database: Database, layers: tuple[str, ...]
) -> None:
    """W-M18: what fades is read under the locks that whatever strengthens it takes too."""
    agent = Agent(service, tenant, layers, layers[-1])
    await agent.batch(
        [{"name": name, "type": "Concept", "properties": {"confidence": 0.8}} for name in ("Ann", "Vim")],
        [{"from": "Ann", "to": "Vim", "relation": "USES", "weight": 0.5}],
    )
    await backdate(database, agent, 50)
    now = datetime.now(UTC)
    boosted = {"ids": ["ann", "vim"], "source": "ann", "relation": "USES", "target": "vim", "change": 0.4}
    boosted |= {"moment": now.timestamp(), "edge_rate": 1.0, "floor": 0.01}
    mentioned = {"ends": [{"id": "ann", "name": "Ann", "type": "Concept"}], "pairs": [], "rivals": [], "now": now}
    async with uncommitted(agent, (ADJUST, {**boosted, "confirms": True, "now": now}), (LOCK, mentioned)):
        fading = asyncio.create_task(do(agent, "graph_decay"))
        await one_waits(database, agent)
    told = await fading
    held = await _weights(agent)
    assert held[f"{layers[-1]}/ann USES vim"] == 0.9
    assert held[f"{layers[-1]}/ann"] == 0.8
    assert held[f"{layers[-1]}/vim"] < 0.8
    assert (told["nodes_decayed"], told["edges_decayed"]) == (1, 0)


@pytest.mark.shows("graph_decay", 5)
async def test_rules_and_their_relations_never_fade_but_what_was_superseded_does(
    agent: Agent, database: Database
) -> None:
    await agent.batch(
        [
            {"name": "always type", "type": "Preference", "properties": {"subtype": "rule", "confidence": 1.0}},
            {"name": "Ann", "type": "Person", "properties": {"confidence": 0.8}},
        ],
        [{"from": "Ann", "to": "always type", "relation": "PREFERS", "weight": 1.0}],
    )
    await agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01", weight=0.8)
    await agent.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-01-01", weight=0.8)
    await backdate(database, agent, 100)
    await do(agent, "graph_decay")
    held = await _weights(agent)
    assert (held["/always-type"], held["/ann PREFERS always-type"]) == (1.0, 1.0)
    assert held["/ann WORKS_AT acme"] == held["/ann WORKS_AT globex"] < 0.8


@pytest.mark.shows("graph_decay", 6, 7, 8)
async def test_a_dry_run_tells_exactly_what_a_run_does(agent: Agent, database: Database) -> None:
    await _some(agent)
    await agent.batch(
        [{"name": f"dim {number}", "type": "Event", "properties": {"confidence": 0.12}} for number in range(3)],
        [
            {"from": "dim 0", "to": "dim 1", "relation": "USES", "weight": 0.055},
            {"from": "dim 2", "to": "the Person", "relation": "USES", "weight": 0.5},
        ],
    )
    await backdate(database, agent, 40)
    before = await _weights(agent)
    dry = await do(agent, "graph_decay", dry_run=True)
    assert await _weights(agent) == before
    wet = await do(agent, "graph_decay")
    assert wet == dry | {"dry_run": False}
    assert (wet["nodes_decayed"], wet["edges_decayed"]) == (8, 6)
    assert (wet["nodes_flagged_for_pruning"], wet["edges_below_threshold"]) == (2, 1)
    held = await _weights(agent)
    for detail in wet["details"]:
        assert detail["new_confidence"] == held[f"/{detail['id']}"]
        assert detail["old_confidence"] == before[f"/{detail['id']}"]
    assert {"type", "name"} <= wet["details"][0].keys()
    falls = [detail["old_confidence"] - detail["new_confidence"] for detail in wet["details"]]
    assert falls == sorted(falls, reverse=True)
    assert (await do(agent, "graph_prune"))["node_count"] == 2
    few = await do(agent, "graph_decay", dry_run=True, limit=1)
    assert len(few["details"]) <= 1


@pytest.mark.shows("graph_decay", 9)
async def test_the_bookkeeping_shows_nowhere(agent: Agent, database: Database) -> None:
    await _some(agent)
    await backdate(database, agent, 40)
    await do(agent, "graph_decay")
    shown = [
        await agent.entity("the Person"),
        await agent.query("the Person", max_hops=2, min_weight=0),
        await agent.search("the Person", min_similarity=0, explain=True),
        await agent.entities(),
    ]
    assert "decay" not in str(shown)


@pytest.mark.shows("graph_decay", 10)
async def test_a_run_that_runs_out_of_time_says_where_to_go_on(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed stays, the rest follows with the cursor, and both together are one run."""
    monkeypatch.setattr("app.memory.fading.decay._BATCH", 2)
    await _some(agent)
    await backdate(database, agent, 40)
    reported: list[tuple[float, float | None]] = []

    async def progress(done: float, total: float | None = None, message: str | None = None) -> None:
        reported.append((done, total))

    tool = next(tool for tool in FADING if tool.name == "graph_decay")

    async def run(seconds: float, **arguments: Any) -> dict[str, Any]:
        call = agent.call("graph_decay")
        made = Call(call.tool, "test", call.principal, call.scope, Deadline.after(seconds), progress, "d")
        return dict(await tool.run(agent.service, made, tool.input.model_validate(arguments)))

    first = await run(14)
    assert (first["complete"], first["nodes_decayed"]) == (False, 2)
    rest = await run(60, cursor=first["next_cursor"])
    assert (rest["complete"], rest["nodes_decayed"]) == (True, 3)
    assert reported == [(2, 5), (2, 3), (3, 3)]
    assert (await do(agent, "graph_decay"))["nodes_decayed"] == 0


@pytest.mark.shows("graph_decay", 11)
async def test_each_copy_fades_by_its_own_clock_and_only_where_it_may_be_written(
    service: MemoryService, tenant: str, database: Database
) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    await wide.relate("Ann", "USES", "Vim", weight=0.8)
    await in_a.relate("Ann", "USES", "Vim", weight=0.6)
    await backdate(database, wide, 30)
    told = await do(in_a, "graph_decay")
    held = await _weights(wide)
    assert held["/ann USES vim"] == held["/ann"] == 0.8
    assert held["a/ann USES vim"] == pytest.approx(0.6 * 0.997**30)
    assert (told["nodes_decayed"], told["edges_decayed"]) == (2, 1)
    assert {detail["new_confidence"] for detail in told["details"]} == {0.8}
    assert (await do(wide, "graph_decay"))["edges_decayed"] == 1


@pytest.mark.shows("graph_decay", 12)
async def test_a_run_is_in_the_audit_trail_and_a_key_answers_again(agent: Agent, database: Database) -> None:
    await _some(agent)
    await backdate(database, agent, 30)
    first = await do(agent, "graph_decay", idempotency_key="k")
    await backdate(database, agent, 30)
    held = await _weights(agent)
    assert await do(agent, "graph_decay", idempotency_key="k") == first
    assert await _weights(agent) == held
    with pytest.raises(Conflict):
        await do(agent, "graph_decay", digest="other", idempotency_key="k")
    assert await _weights(agent) == held
    assert [(entry.action, entry.detail["nodes_decayed"]) for entry in await entries(database, agent)] == [
        ("memory.decay", 5)
    ]


@pytest.mark.shows("graph_decay", 2)
async def test_rates_are_the_gateways_settings(agent: Agent, database: Database) -> None:
    memory = MemorySettings(decay_rates=("Person=0.5",), decay_other_rate=0.25, decay_edge_rate=0.1)
    service = MemoryService(
        database, agent.service.embedder, Settings(memory=memory, embedding=EmbeddingSettings(embedding="none"))
    )
    other = Agent(service, agent.tenant, ("",), "")
    await _some(other)
    await backdate(database, other, 1.5)
    await do(other, "graph_decay")
    held = await _weights(other)
    assert (held["/the-person"], held["/the-project"]) == (0.4, 0.2)
    assert held["/the-person USES the-event"] == pytest.approx(0.04)
    await service.close()


async def test_a_run_over_a_few_thousand_records_is_quick(
    plain_agent: Agent, database: Database, show: Callable[[str], None]
) -> None:
    names = [f"thing {number}" for number in range(400)]
    await plain_agent.batch([{"name": name, "type": "Concept"} for name in names])
    relations = [
        {"from": name, "to": names[(number + step) % 400], "relation": "USES"}
        for step in (1, 2)
        for number, name in enumerate(names)
    ]
    for start in range(0, len(relations), 400):
        await plain_agent.batch([], relations[start : start + 400])
    await backdate(database, plain_agent, 30)
    began = time.perf_counter()
    answer = await do(plain_agent, "graph_decay")
    taken = time.perf_counter() - began
    assert (answer["nodes_decayed"], answer["edges_decayed"]) == (400, 800)
    show(f"graph_decay: 400 entities and 800 relations in {taken * 1000:.0f} ms")
    assert taken < 3

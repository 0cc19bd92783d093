"""Changes of the same records at the same time: each as if it were alone, before or after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from app.errors import CallError, InvalidInput, NotFound
from app.memory.changing.queries import ADJUST
from app.memory.merging.queries import LOOK
from app.memory.queries import LOCK, LOCK_COPIES
from app.store import integrity
from app.store.database import Database, Writing
from app.store.images import READ_IMAGES
from app.store.planning import EXAMPLES
from app.store.statement import Statement, statement
from tests.memory import doing
from tests.memory.conftest import Agent
from tests.memory.doing import one_waits, uncommitted
from tests.memory.merging.conftest import everything, merge, undo

MENTION = statement(
    "test.mention_together",
    """
    MATCH (n:Entity {tenant: $tenant, layer: $layer, id: $id})
    SET n.times_mentioned = 7, n.first_seen = datetime('2020-01-01T00:00:00Z')
    """,
    writes=True,
)

Answers = list[dict[str, Any] | BaseException]


async def _at_once(database: Database, agent: Agent, held: str, *calls: Coroutine[Any, Any, Any]) -> Answers:
    """Begin the calls while ``held`` is locked, so that all of them stand at their first lock; their answers."""
    async with uncommitted(agent, (LOCK_COPIES, {"ids": [held]})):
        begun = [asyncio.create_task(call) for call in calls]
        await one_waits(database, agent, number=len(calls))
    return await asyncio.gather(*begun, return_exceptions=True)


async def _three(agent: Agent) -> None:
    await agent.batch(
        [{"name": name, "type": "Person"} for name in ("Ann", "Bob", "Carol")]
        + [{"name": f"thing {number}", "type": "Object"} for number in range(3)],
        [
            {"from": name, "relation": "USES", "to": f"thing {number}", "evidence": f"{name} uses it"}
            for number, name in enumerate(("Ann", "Bob", "Carol"))
        ],
    )


@pytest.mark.parametrize(
    "found", [LOCK, ADJUST, LOCK_COPIES, LOOK, READ_IMAGES], ids=lambda found: str(found.name).partition(".")[2]
)
async def test_a_lock_waits_and_loses_nothing_of_what_was_written_before(
    plain_agent: Agent, database: Database, found: Statement
) -> None:
    """Kind 17: a property set to itself is read before its node is locked, and what came between is undone by it."""
    agent = plain_agent
    await agent.batch([{"name": "Bob", "type": "Person"}])
    asked = {**EXAMPLES, "ids": ["bob"], "ends": [{"id": "bob", "name": "Bob", "type": "Person"}], "pairs": []}
    call = agent.call("test")

    async def locking(writing: Writing) -> dict[str, Any]:
        await writing.run(found, **{name: asked[name] for name in found.parameters})
        return {}

    async with uncommitted(agent, (MENTION, {"id": "bob"})):
        session = database.session(call.scope, deadline=call.deadline, request_id="test")
        waiting = asyncio.create_task(session.write(locking))
        await one_waits(database, agent)
    await waiting
    held = (await everything(database, agent))["nodes"][0][1]
    assert (held["times_mentioned"], str(held["first_seen"])[:4]) == (7, "2020")


@pytest.mark.shows("graph_merge", 20)
@pytest.mark.parametrize("other", [("ann", "bob"), ("bob", "ann"), ("bob", "carol")], ids="→".join)
async def test_merges_of_one_entity_at_once_lose_nothing(
    plain_agent: Agent, database: Database, other: tuple[str, str]
) -> None:
    """Kind 17: the one that comes second sees what the first one left; refused, it has applied nothing."""
    agent = plain_agent
    await _three(agent)
    before = await everything(database, agent)
    answers = await _at_once(database, agent, "bob", merge(agent, "ann", "bob"), merge(agent, *other))
    done = [answer for answer in answers if not isinstance(answer, BaseException)]
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(done) in ({1, 2} if other == ("bob", "carol") else {1})
    assert all(isinstance(answer, NotFound | InvalidInput) for answer in refused)
    assert all(isinstance(answer, CallError) and "Nothing was applied" in answer.message for answer in refused)
    left = await everything(database, agent)
    targets = {relation[2] for relation in left["relations"]}
    assert targets == {"thing-0", "thing-1", "thing-2"}
    assert len(left["relations"]) == 3
    for answer in sorted(done, key=lambda answer: answer["target"]["id"] == "carol", reverse=True):
        await undo(agent, answer["undo_id"])
    assert await everything(database, agent) == before


async def _two_hubs(agent: Agent) -> None:
    """Dense nodes: the engine takes no lock of its own on those when a relation comes or goes."""
    things = [{"name": f"thing {number}", "type": "Object"} for number in range(60)]
    people = [{"name": name, "type": "Person"} for name in ("Ann", "Anne", "Bob", "Rob")]
    ties = [{"from": hub, "relation": "USES", "to": thing["name"]} for hub in ("Ann", "Bob") for thing in things]
    await agent.batch([*people, *things], [*ties, {"from": "Ann", "relation": "KNOWS", "to": "Bob"}])


@pytest.mark.shows("graph_merge", 20)
async def test_merges_of_two_that_are_related_keep_the_relation(plain_agent: Agent, database: Database) -> None:
    """Kind 16: each moves one end of it."""
    agent = plain_agent
    await _two_hubs(agent)
    before = await everything(database, agent)
    one, two = await _at_once(database, agent, "thing-7", merge(agent, "ann", "anne"), merge(agent, "bob", "rob"))
    assert isinstance(one, dict), one
    assert isinstance(two, dict), two
    left = [relation[:3] for relation in (await everything(database, agent))["relations"]]
    assert ["anne", "KNOWS", "rob"] in left
    assert (len(left), {relation[0] for relation in left}) == (121, {"anne", "rob"})
    assert (one["edges_added"], two["edges_added"]) == (61, 61)
    assert await integrity.check(database) == []
    newest_first = [change["undo_id"] for change in (await undo(agent, None))["changes"]]
    for undo_id in newest_first:
        await undo(agent, undo_id)
    assert await everything(database, agent) == before


@pytest.mark.shows("graph_delete", 12)
@pytest.mark.shows("graph_merge", 20)
async def test_a_deletion_beside_the_merge_of_a_neighbour_leaves_no_relation_to_nothing(
    plain_agent: Agent, database: Database
) -> None:
    agent = plain_agent
    await _two_hubs(agent)
    deleted, merged = await _at_once(
        *(database, agent, "thing-7"),
        doing.do(agent, "graph_delete", entity_id="ann"),
        merge(agent, "bob", "rob"),
    )
    assert isinstance(deleted, dict), deleted
    assert isinstance(merged, dict), merged
    left = [relation[:3] for relation in (await everything(database, agent))["relations"]]
    assert (len(left), {relation[0] for relation in left}) == (60, {"rob"})
    assert deleted["edges_removed"] == 61
    assert await integrity.check(database) == []

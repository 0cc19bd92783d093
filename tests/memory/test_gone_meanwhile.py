"""What goes while a call waits for its lock: the call acts as if it had come after, and nothing is half there.

The database hands out a node that another transaction deleted meanwhile as one without properties.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from app.errors import CallError, Conflict, InvalidInput, NotFound
from app.memory.queries import LOCK_COPIES
from app.memory.removing.queries import REMOVE
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.memory.doing import do, one_waits, uncommitted
from tests.memory.merging.conftest import everything

_BOB: Final = {"from_name": "Ann", "relation": "KNOWS", "to_name": "Bob"}
_MOVED: Final = [{"other_entity_id": "bob", "relation_type": "KNOWS", "direction": "out"}]
_OTHER: Final = {"from_name": "Ann", "from_type": "Person", "relation": "USES", "to_name": "lamp", "to_type": "Object"}
_MERGED: Final = {"reason": "one person"}
_PARTED: Final = {"new_entity_name": "Anna", "new_entity_type": "Person", "reason": "two people"}

CALLS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "relate": ("graph_relate", {**_BOB, "from_type": "Person", "to_type": "Person"}),
    "relate to another": ("graph_relate", _OTHER),
    "boost": ("graph_boost", _BOB),
    "weaken": ("graph_weaken", _BOB),
    "merge into it": ("graph_merge", {"source_id": "bob", "target_id": "ann", **_MERGED}),
    "merge it": ("graph_merge", {"source_id": "ann", "target_id": "bob", **_MERGED}),
    "unmerge": ("graph_unmerge", {"entity_id": "ann", "edges_to_move": _MOVED, **_PARTED}),
    "delete": ("graph_delete", {"entity_id": "ann"}),
    "resolve": ("graph_resolve", {"from_name": "Ann", "to_name": "Carl", "resolution": "both are right"}),
    "undo": ("graph_undo", {}),
}


async def outcome(agent: Agent, name: str, arguments: dict[str, Any]) -> dict[str, Any] | CallError:
    """What a call answers, or the error that its caller is told."""
    try:
        return await (agent.send(arguments) if name == "graph_relate" else do(agent, name, **arguments))
    except CallError as error:
        return error


@pytest.mark.parametrize(("name", "arguments"), CALLS.values(), ids=CALLS)
async def test_a_call_that_waits_behind_a_deletion_acts_as_if_it_came_after(
    agent: Agent, database: Database, name: str, arguments: dict[str, Any]
) -> None:
    await agent.batch(
        [{"name": each, "type": "Person"} for each in ("Ann", "Bob", "Carl", "Dora")],
        [
            {"from": "Ann", "relation": "KNOWS", "to": "Bob", "evidence": "They met."},
            {"from": "Ann", "relation": "CONTRADICTS", "to": "Carl"},
            {"from": "Dora", "relation": "KNOWS", "to": "Ann"},
        ],
    )
    if name == "graph_undo":
        arguments = {"undo_id": (await do(agent, "graph_delete", entity_id="dora"))["undo_id"]}
    going = {"ids": ["ann"], "triples": []}
    async with uncommitted(agent, (LOCK_COPIES, {"ids": ["ann"]}), (REMOVE, going)):
        waiting = asyncio.create_task(outcome(agent, name, arguments))
        await one_waits(database, agent)
    told = await waiting
    if isinstance(told, CallError):
        assert (type(told) in (NotFound, Conflict, InvalidInput), told.outcome) == (True, "not_applied"), told
    held = {node[1]["id"]: node[1]["name"] for node in (await everything(database, agent))["nodes"]}
    assert ("ann" in held) is (name == "graph_relate"), told
    assert held.get("bob") == "Bob"
    assert held.get("ann", "Ann") == "Ann"

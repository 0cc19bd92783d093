"""W-M15: a process that dies between any two statements of a change leaves the graph as it was before or as after."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.faults.conftest import Process
from tests.faults.crashing import NEWEST, use
from tests.memory.conftest import Agent

OPERATIONS: Final[dict[str, dict[str, Any]]] = {
    "graph_merge": {"source_id": "bob", "target_id": "robert", "reason": "r"},
    "graph_unmerge": {
        "entity_id": "bob",
        "new_entity_name": "Half",
        "new_entity_type": "Person",
        "reason": "r",
        "edges_to_move": [{"other_entity_id": "vim", "relation_type": "USES", "direction": "out"}],
    },
    "graph_relate": {
        "idempotency_key": "k",
        "batch": {
            "entities": [{"name": "Bob", "type": "Person"}, {"name": "Initech", "type": "Organization"}],
            "relations": [
                {"from": "Bob", "relation": "WORKS_AT", "to": "Initech", "valid_at": "2025-01-01"},
                {"from": "Bob", "relation": "USES", "to": "Vim"},
            ],
        },
    },
    "graph_delete": {"entity_id": "bob", "reason": "r"},
    "graph_prune": {"mode": "execute"},
    "graph_undo": {"undo_id": NEWEST},
}
"""One line for a tool: what it is called with on the world below."""

WORLD: Final = {
    "entities": [
        {"name": "Bob", "type": "Person", "properties": {"email": "b@x"}},
        *({"name": name, "type": "Person"} for name in ("Robert", "Carol")),
        {"name": "Vim", "type": "Object"},
        {"name": "Acme", "type": "Organization"},
        {"name": "faint", "type": "Concept", "properties": {"confidence": 0.01}},
    ],
    # Evidence of one moment in the order in which it is searched where that is made anew: the last comes first.
    "relations": [
        {"from": "Robert", "relation": "USES", "to": "Vim", "evidence": "Robert uses Vim."},
        {"from": "Bob", "relation": "USES", "to": "Vim", "evidence": "Bob uses Vim."},
        {"from": "Carol", "relation": "KNOWS", "to": "Bob"},
        {"from": "Bob", "relation": "KNOWS", "to": "Robert"},
        {"from": "Bob", "relation": "WORKS_AT", "to": "Acme", "valid_at": "2020-01-01"},
        {"from": "faint", "relation": "ABOUT", "to": "Vim", "weight": 0.01, "evidence": "a whisper"},
    ],
}


async def _whole(agent: Agent, *, control: bool = True) -> list[str]:
    """All that the tenant has, to the byte: graph, undo records, idempotency keys, audit."""
    database = agent.service.database
    async with database.driver.session(database=database.name) as session:
        result = await session.run(
            """
            CYPHER 25
            MATCH (n {tenant: $tenant}) WHERE $control OR n:Entity OR n:Alias
            RETURN labels(n) AS kind, properties(n) AS held
            UNION ALL
            MATCH (:Entity {tenant: $tenant})-[r]->() RETURN [type(r)] AS kind, properties(r) AS held
            """,
            tenant=agent.tenant,
            control=control,
        )
        return sorted([str((sorted(row["kind"]), sorted(row["held"].items()))) async for row in result])


async def _count(agent: Agent, label: str) -> int:
    return sum(record.startswith(f"(['{label}']") for record in await _whole(agent))


@pytest.mark.shows("graph_merge", 19)
@pytest.mark.shows("graph_unmerge", 13)
@pytest.mark.shows("graph_undo", 11)
@pytest.mark.shows("graph_prune", 4)
@pytest.mark.shows("graph_delete", 11)
@pytest.mark.parametrize("tool", OPERATIONS)
async def test_a_process_that_dies_at_any_statement_leaves_the_state_before_or_after(
    crashed_agent: Agent, process: Process, tool: str
) -> None:
    agent, arguments = crashed_agent, OPERATIONS[tool]
    await use(agent, "graph_relate", {"batch": WORLD})
    graph = await _whole(agent, control=False)
    if tool == "graph_undo":
        await use(agent, "graph_merge", OPERATIONS["graph_merge"])
    before = await _whole(agent)
    point, committed = 1, False
    while not committed:
        order = {"work": "tool", "tenant": agent.tenant, "tool": tool, "arguments": arguments}
        assert await process(point, order) is None, "it came to its end and was never seen committed"
        committed = await _whole(agent) != before
        point += 1
    assert point > 5
    # The last one died behind its commit: nothing of the change is missing, for it can be undone whole.
    assert await _count(agent, "_Undo") == (2 if tool == "graph_undo" else 1)
    if tool == "graph_undo":
        assert await _whole(agent, control=False) == graph
    elif tool == "graph_relate":
        assert await _count(agent, "_Idempotency") == 1
        assert await _count(agent, "WORKS_AT") == 2
    else:
        newest = (await use(agent, "graph_undo", {}))["changes"][0]
        assert newest["tool"] == tool
        await use(agent, "graph_undo", {"undo_id": newest["undo_id"]})
        assert await _whole(agent, control=False) == graph

"""Whoever keeps a reading is told of everything that any tool writes: otherwise what is kept would be out of date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from app.cli.toolsets import every_tool
from app.context import Deadline, Scope
from app.store.database import Database
from tests.isolation.callers import LAYERS, Caller, Gate, Reply
from tests.isolation.recipes import OWN, RECIPES
from tests.isolation.world import Worlds

WRITES = [tool.name for tool in every_tool() if not tool.read_only and not tool.operators_only]
WRITER = Caller("writer", "", ("", "a"), ("a", ""))

_HELD = """
CYPHER 25
MATCH (n:Entity {tenant: $tenant})
RETURN n.id AS id, [n.layer, labels(n), n {.*, embedding: null},
  [(n)-[r]->(m) | [type(r), m.id, properties(r)]], [(n)<-[r]-(m) | [type(r), m.id, properties(r)]]] AS held
ORDER BY id, n.layer
"""


async def _held(database: Database, tenant: str) -> dict[str, list[str]]:
    """All that there is of each entity."""
    async with database.driver.session(database=database.name) as session:
        rows = await (await session.run(_HELD, tenant=tenant)).data()
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["id"], []).append(repr(_sorted(row["held"])))
    return found


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted((key, _sorted(inner)) for key, inner in value.items())
    return sorted(map(repr, map(_sorted, value))) if isinstance(value, list) else value


@pytest.mark.parametrize("tool", WRITES)
async def test_whoever_keeps_a_reading_is_told_of_all_that_a_tool_writes(
    gate: Gate, worlds: Worlds, database: Database, tool: str
) -> None:
    writer, before = WRITER.of(worlds.crowded), await _held(database, worlds.crowded)
    reading = database.session(
        Scope(worlds.crowded, LAYERS, (), None, "reader"), deadline=Deadline.after(60), request_id="touched"
    )

    async def called(name: str, arguments: Mapping[str, Any]) -> Reply:
        nonlocal before
        mark = reading.mark
        reply = await gate.ask(writer, name, arguments)
        after = await _held(database, worlds.crowded)
        changed = {id_ for id_ in before.keys() | after.keys() if before.get(id_) != after.get(id_)}
        touched = reading.touched_since(mark)
        assert touched is None or changed <= touched, f"{name}: {changed - touched} are not told"
        before = after
        return reply

    for recipe in RECIPES[tool]:
        reply = await called(tool, recipe.arguments(OWN))
        if undo_id := reply.payload.get("undo_id"):
            await called("graph_undo", {"undo_id": undo_id})
            await called(tool, recipe.arguments(OWN))

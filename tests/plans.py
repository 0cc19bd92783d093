"""How the database means to run a statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neo4j import AsyncSession

from app.store.database import Database
from app.store.partition import partition_token
from app.store.statement import Statement

FORBIDDEN = frozenset({"AllNodesScan", "NodeByLabelScan", "CartesianProduct"})
"""Operators whose cost grows with everybody's data."""

_INJECTED: dict[str, Any] = {
    "tenant": "t",
    "layers": ["", "work"],
    "writable": [""],
    "layer": "",
    "partitions": [partition_token("t", "")],
    "partition": partition_token("t", ""),
}


_LEAST = 2_000
_CROWD = """
CYPHER 25
UNWIND range(1, $many) AS place
CREATE (a:Entity {tenant: 'dplans', layer: '', id: 'a' + place})
CREATE (b:Entity {tenant: 'dplans', layer: '', id: 'b' + place})
CREATE (a)-[:KNOWS {tenant: 'dplans', layer: ''}]->(b)
"""


async def _crowded(session: AsyncSession) -> None:
    """See that the database holds something: on an empty one to read everything is the cheapest plan, and right."""
    there = await (await session.run("MATCH ()-[r]->() RETURN count(r) AS many")).single(strict=True)
    if there["many"] < _LEAST:
        await (await session.run(_CROWD, many=_LEAST)).consume()
        await (await session.run("CALL db.clearQueryCaches()")).consume()  # plans that were made before


async def operators(database: Database, statement: Statement, parameters: Mapping[str, Any]) -> list[str]:
    """The operators of the statement's plan, outermost first."""
    bound = {**{name: _INJECTED[name] for name in statement.injected}, **parameters}
    async with database.driver.session(database=database.name) as session:
        await _crowded(session)
        result = await session.run("EXPLAIN " + statement.text, bound)
        plan = (await result.consume()).plan
    assert plan is not None
    return [name.partition("@")[0] for name in _walk(plan)]


async def assert_plan(
    database: Database,
    statement: Statement,
    parameters: Mapping[str, Any],
    forbidden: frozenset[str] | set[str] = FORBIDDEN,
) -> None:
    """The statement's plan uses none of the ``forbidden`` operators."""
    used = await operators(database, statement, parameters)
    assert not forbidden.intersection(used), f"{statement.name}: {used}"


def _walk(plan: Mapping[str, Any]) -> Iterator[str]:
    yield plan["operatorType"]
    for child in plan.get("children", ()):
        yield from _walk(child)

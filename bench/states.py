"""States that a call changes, made anew by the bare driver: each call finds what the one before it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.graph.identity import entity_id
from bench.stage import Stage

__all__ = ["awake_again", "faded_again"]

_FAINT: Final = """
UNWIND $rows AS row
MATCH (a:Entity {tenant: $of, layer: '', id: row.source})-[r]->(b:Entity {tenant: $of, layer: '', id: row.target})
WHERE type(r) = row.relation
SET r.weight = 0.01
"""
_ENTITIES: Final = """
MATCH (n:Entity {tenant: $of}) WHERE n.layer = '' AND n.decay_state IS NOT NULL
CALL (n) { SET n.confidence = n.decay_state[0] REMOVE n.decay_state } IN TRANSACTIONS OF 5000 ROWS
"""
_RELATIONS: Final = """
MATCH (n:Entity {tenant: $of})-[r]->(:Entity) WHERE n.layer = '' AND r.decay_state IS NOT NULL
CALL (r) { SET r.weight = r.decay_state[0] REMOVE r.decay_state } IN TRANSACTIONS OF 5000 ROWS
"""


async def faded_again(stage: Stage, relations: Sequence[tuple[str, str, str]]) -> None:
    """These relations, by the names of their ends, have faded away."""
    rows = [{"source": entity_id(one), "relation": verb, "target": entity_id(end)} for one, verb, end in relations]
    await stage.driver.execute_query(_FAINT, {"of": stage.graphs[0].data, "rows": rows})


async def awake_again(stage: Stage) -> None:
    """Nothing has faded yet: all of it is written by the next run, not only what a day has gone by for."""
    async with stage.driver.session(database=stage.target.database) as session:
        for text in (_ENTITIES, _RELATIONS):
            await (await session.run(text, {"of": stage.graphs[0].data})).consume()

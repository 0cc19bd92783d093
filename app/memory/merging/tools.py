"""Tools that bring entities together and take them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.merging.answers import MergeAnswer, UnmergeAnswer
from app.memory.merging.merge import merge
from app.memory.merging.schemas import MergeInput, UnmergeInput
from app.memory.merging.unmerge import unmerge

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["MERGING"]

WRITE: Final = "memory:write"


async def _merge(service: MemoryService, call: Call, arguments: MergeInput) -> Mapping[str, Any]:
    memory = service.behaviour(call.principal)
    return await merge(service.database, service.embedder, memory, service.retention, call, arguments)


async def _unmerge(service: MemoryService, call: Call, arguments: UnmergeInput) -> Mapping[str, Any]:
    return await unmerge(service.database, service.embedder, service.census, service.retention, call, arguments)


MERGING: Final[tuple[Tool, ...]] = (
    Tool(
        name="graph_merge",
        title="Merge two entities",
        description=(
            "Make two entities one when they are surely the same thing: everything of `source_id` moves to "
            "`target_id`, and the source's id and names go on leading there. Relations that both have become one (the "
            "greater weight, all evidence; what holds beats what ended, and the past is kept); relations between the "
            "two are dropped; properties are taken over where the target has none. Try `dry_run` first: it reports "
            "exactly what a run would do. Names must be exact, nothing is guessed. `contradiction_candidates` are "
            "relations with one value at a time that have several now. `undo_id` undoes it with graph_undo. Never "
            "merge on a mere likeness of names; ask when in doubt."
        ),
        toolset="memory",
        input=MergeInput,
        output=MergeAnswer,
        run=_merge,
        scope=WRITE,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        destructive=True,
        volatile=frozenset({"undo_id"}),
        example={"source_id": "bob", "target_id": "robert-smith", "reason": "same person", "dry_run": True},
    ),
    Tool(
        name="graph_unmerge",
        title="Take an entity apart",
        description=(
            "Undo a confusion when one entity holds two things: makes a new entity and moves the relations of "
            "`edges_to_move` to it, as they are. Each names its other end, the relation and the `direction` as seen "
            "from the original. If one of them does not exist, or an entity with the new name exists already, nothing "
            "is applied and the message says which. Properties stay with the original. To take back a graph_merge as "
            "a whole, use graph_undo with its `undo_id`. Answers with `moved_edges` and `remaining_edges`."
        ),
        toolset="memory",
        input=UnmergeInput,
        output=UnmergeAnswer,
        run=_unmerge,
        scope=WRITE,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        destructive=True,
        volatile=frozenset({"undo_id"}),
        example={
            "entity_id": "mercury",
            "new_entity_name": "Mercury (planet)",
            "new_entity_type": "Object",
            "edges_to_move": [{"other_entity_id": "sun", "relation_type": "RELATED_TO", "direction": "out"}],
            "reason": "the element and the planet were one",
        },
    ),
)

"""Tools that forget: what has faded, or one entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.removing.answers import DeleteAnswer, PruneAnswer
from app.memory.removing.delete import delete
from app.memory.removing.prune import prune
from app.memory.removing.schemas import DeleteInput, PruneInput

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["REMOVING"]

WRITE: Final = "memory:write"


async def _prune(service: MemoryService, call: Call, arguments: PruneInput) -> Mapping[str, Any]:
    memory = service.behaviour(call.principal)
    return await prune(service.database, service.kept, service.census, memory, service.retention, call, arguments)


async def _delete(service: MemoryService, call: Call, arguments: DeleteInput) -> Mapping[str, Any]:
    return await delete(service.database, service.census, service.retention, call, arguments)


REMOVING: Final = (
    Tool(
        name="graph_prune",
        title="Forget what has faded",
        description=(
            "Forget what has faded: relations with a weight below `edge_threshold`, entities with a confidence below "
            "`node_threshold` and no stronger relation, and entities without relations that were not seen for "
            "`max_age_days`. Rules (subtype `rule`) and their relations stay. `preview` (the default) lists what would "
            "go and changes nothing; show it to the user and ask before `execute`, which takes away exactly that, in "
            "one transaction, with the aliases that lead nowhere else. `undo_id` gives it back with graph_undo. Run "
            "graph_decay first."
        ),
        toolset="memory",
        input=PruneInput,
        output=PruneAnswer,
        run=_prune,
        scope=WRITE,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=False,
        destructive=True,
        volatile=frozenset({"next_cursor", "undo_id", "last_seen"}),
        example={"mode": "preview", "max_age_days": 90},
    ),
    Tool(
        name="graph_delete",
        title="Delete an entity",
        description=(
            "Delete one entity and all its relations: for what is plainly wrong, a test, or made by mistake. Ask the "
            "user first. It is named by its id or exact name. What another toolset needs stays, and so do copies in "
            "layers that this connection may not write: `kept` says so. To correct a fact use graph_relate or "
            "graph_weaken; for two entities that are one, graph_merge. `undo_id` gives it back with graph_undo."
        ),
        toolset="memory",
        input=DeleteInput,
        output=DeleteAnswer,
        run=_delete,
        scope=WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        destructive=True,
        volatile=frozenset({"undo_id"}),
        example={"entity_id": "project-x", "reason": "made by a test"},
    ),
)

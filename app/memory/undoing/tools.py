"""The tool that takes a change back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.undoing.schemas import UndoAnswer, UndoInput
from app.memory.undoing.undo import undo

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["UNDOING"]


async def _undo(service: MemoryService, call: Call, arguments: UndoInput) -> Mapping[str, Any]:
    return await undo(service.database, service.census, service.retention, call, arguments)


UNDOING: Final = (
    Tool(
        name="graph_undo",
        title="Undo a change",
        description=(
            "Undo a merge, unmerge, deletion, pruning, or the ending of older relations by graph_relate. Without "
            "`undo_id` it lists the changes that this connection may undo, newest first. With one it restores exactly "
            "what was there before, relations, aliases and all; if anything that the change touched has changed "
            "since, it refuses, says what and applies nothing. Answers with `restored` (numbers of records) and an "
            "`undo_id` that makes the change again. Changes can be undone for a limited time (`expires_at`)."
        ),
        toolset="memory",
        input=UndoInput,
        output=UndoAnswer,
        run=_undo,
        scope="memory:write",
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        destructive=True,
        volatile=frozenset({"undo_id", "at", "expires_at", "next_cursor"}),
        example={"limit": 10},
    ),
)

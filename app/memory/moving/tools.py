"""Tools that take what is remembered elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.moving.export import export
from app.memory.moving.schemas import ExportAnswer, ExportInput
from app.memory.service import MemoryService

__all__ = ["MOVING"]


async def _export(service: MemoryService, call: Call, arguments: ExportInput) -> Mapping[str, Any]:
    return await export(service, call, arguments)


MOVING: Final = (
    Tool(
        name="graph_export",
        title="Export the memory",
        description=(
            "Write everything that this connection may read to a file on the gateway, as JSON lines: one meta line, "
            "then nodes, aliases and edges, a last line with counts and checksum. Use it before changes "
            "that touch much, and as a backup. Answers with the file's name (fetch it with GET /exports/{name} and "
            "the same token), counts, size and SHA-256. Keeps your `keep` newest exports and removes older ones; "
            "exports of others are never touched. What takes longer than a call goes on by itself: `status` is "
            "running; ask again with its `export_id`. `graphkeep restore` reads the file back."
        ),
        toolset="memory",
        input=ExportInput,
        output=ExportAnswer,
        run=_export,
        scope="memory:write",
        cost=Cost.WHOLE_GRAPH,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=False,
        destructive=True,
        volatile=frozenset({"backup_file", "size_bytes", "sha256", "export_id"}),
        example={"keep": 14, "label": "before-merge"},
    ),
)

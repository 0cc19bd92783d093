"""The tool that lets old memories fade."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.fading.decay import decay
from app.memory.fading.schemas import DecayAnswer, DecayInput

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["FADING"]

WRITE: Final = "memory:write"


async def _decay(service: MemoryService, call: Call, arguments: DecayInput) -> Mapping[str, Any]:
    return await decay(service.database, service.behaviour(call.principal), call, arguments)


FADING: Final = (
    Tool(
        name="graph_decay",
        title="Let old memories fade",
        description=(
            "Let fade what was not seen for long: confidence of entities by type, weights of relations. What is left "
            "is a function of the time since it was last seen, so running it once or a hundred times gives the same "
            "(half-lives: docs/SETTINGS.md). Rules (subtype `rule`) and their relations never fade. Run it before "
            "graph_prune. `dry_run` reports exactly what a run would do now. If `complete` is false, time ran out: "
            "call again with `cursor`."
        ),
        toolset="memory",
        input=DecayInput,
        output=DecayAnswer,
        run=_decay,
        scope=WRITE,
        cost=Cost.WHOLE_GRAPH,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=False,
        destructive=True,
        idempotent=True,
        volatile=frozenset({"next_cursor"}),
        example={"dry_run": True},
    ),
)

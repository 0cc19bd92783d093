"""What of the memory is read by address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call, Fill, Resource
from app.counting import counted
from app.errors import NotFound
from app.graph.vocabulary import ENTITY_TYPES, RELATIONS
from app.memory.analysis.context import build_context
from app.memory.analysis.schemas import ContextInput
from app.memory.runs.lease import readable
from app.memory.runs.shown import when
from app.memory.schemas import EntitiesInput, QueryInput
from app.memory.service import MemoryService
from app.memory.stats import figures
from app.memory.timeline import SINGLE_VALUED
from app.store.control.runs import RunStore

__all__ = ["RESOURCES"]

_READ: Final = "memory:read"
_JSON: Final = "application/json"
_RELATIONS: Final = 50
_BUDGET: Final = 4000


async def _entity(service: MemoryService, call: Call, id_: str) -> Mapping[str, Any]:
    found = await service.entities(call, EntitiesInput(id=id_[:512]))
    if not found["found"]:
        raise NotFound("there is no such entity")
    entity = found["entities"][0]
    around = QueryInput(entities=[entity["id"]], max_hops=1, min_weight=0, limit=_RELATIONS)
    shown = await service.query(call, around)
    return {"entity": entity, "relations": shown["edges"], "beside": [_brief(node) for node in shown["nodes"]]}


def _brief(node: Mapping[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in ("id", "name", "type")}


async def _vocabulary(service: MemoryService, call: Call, _: str) -> Mapping[str, Any]:
    session = service.database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    held = (await figures(await service.kept.by_ranges(session), len(session.scope.layers)))[0]
    single = call.principal.rules.single_valued
    return {
        "types": list(ENTITY_TYPES),
        "relations": list(RELATIONS),
        "single_valued": sorted(SINGLE_VALUED if single is None else single),
        "types_in_use": held["nodes"]["by_type"],
        "relations_in_use": held["edges"]["by_type"],
    }


async def _changelog(service: MemoryService, call: Call, _: str) -> str:
    store = RunStore(service.database.control.until(call.deadline, call.request_id))
    run = await store.last(call.scope.tenant, readable(call), completed=True)
    if run is None:
        return "No run has come to its end yet.\n"
    counts = (
        f"{counted(run.transcripts, 'conversation')}, {counted(run.documents, 'document')}; "
        f"{counted(run.entities, 'entity', 'entities')} and {counted(run.edges, 'relation')} made, "
        f"{counted(run.errors, 'error')}"
    )
    return f"# {run.kind} of {when(run.ended_at)}\n\n{counts}\n\n{run.changelog or '(nothing was noted)'}\n"


async def _context(service: MemoryService, call: Call, _: str) -> Mapping[str, Any]:
    return await build_context(service, call, ContextInput(token_budget=_BUDGET))


RESOURCES: Final = (
    Resource(
        name="entity",
        title="Entity",
        description="One entity with all its text, and the relations that it has now.",
        uri="graphkeep://entity/{id}",
        media_type=_JSON,
        toolset="memory",
        scope=_READ,
        read=_entity,
        fill=Fill.ENTITY_ID,
        volatile=frozenset({"first_seen", "last_seen", "ingested_at", "last_confirmed", "ended_at"}),
    ),
    Resource(
        name="vocabulary",
        title="Vocabulary",
        description="Types and relations that are documented and in use, and which relations have one value at a time.",
        uri="graphkeep://vocabulary",
        media_type=_JSON,
        toolset="memory",
        scope=_READ,
        read=_vocabulary,
    ),
    Resource(
        name="changelog",
        title="Last run",
        description="What the last dream or bootstrap that came to its end changed.",
        uri="graphkeep://changelog",
        media_type="text/markdown",
        toolset="memory",
        scope=_READ,
        read=_changelog,
        volatile=frozenset({"changelog"}),
    ),
    Resource(
        name="context",
        title="Briefing",
        description="What a session should know before it begins: state, recent things, hubs, contradictions.",
        uri="graphkeep://context",
        media_type=_JSON,
        toolset="memory",
        scope=_READ,
        read=_context,
        volatile=frozenset(
            {
                *("generated_at", "first_seen", "last_seen", "last_dream_run", "hours_since_last_dream"),
                *("run_id", "started_at", "ended_at", "duration_ms", "minutes", "detected_date"),
            }
        ),
    ),
)

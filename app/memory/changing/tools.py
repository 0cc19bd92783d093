"""Tools that change what is remembered: stronger, weaker, gone, decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.changing.adjust import boost, weaken
from app.memory.changing.answers import (
    AdjustAnswer,
    ContradictionsAnswer,
    DecayAnswer,
    DeleteAnswer,
    PruneAnswer,
    ResolveAnswer,
    WeakenAnswer,
)
from app.memory.changing.contradictions import contradictions, resolve
from app.memory.changing.schemas import (
    BoostInput,
    ContradictionsInput,
    DecayInput,
    DeleteInput,
    PruneInput,
    ResolveInput,
    WeakenInput,
)
from app.memory.fading.decay import decay
from app.memory.removing.delete import delete
from app.memory.removing.prune import prune

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["CHANGING"]

READ: Final = "memory:read"
WRITE: Final = "memory:write"


async def _boost(service: MemoryService, call: Call, arguments: BoostInput) -> Mapping[str, Any]:
    return await boost(service.database, service.settings.memory, call, arguments)


async def _weaken(service: MemoryService, call: Call, arguments: WeakenInput) -> Mapping[str, Any]:
    return await weaken(service.database, service.settings.memory, call, arguments)


async def _contradictions(service: MemoryService, call: Call, arguments: ContradictionsInput) -> Mapping[str, Any]:
    session = service.database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    return await contradictions(session.read, call, arguments)


async def _resolve(service: MemoryService, call: Call, arguments: ResolveInput) -> Mapping[str, Any]:
    return await resolve(service.database, call, arguments)


async def _decay(service: MemoryService, call: Call, arguments: DecayInput) -> Mapping[str, Any]:
    return await decay(service.database, service.settings.memory, call, arguments)


async def _prune(service: MemoryService, call: Call, arguments: PruneInput) -> Mapping[str, Any]:
    return await prune(service.database, service.census, service.settings.memory, service.retention, call, arguments)


async def _delete(service: MemoryService, call: Call, arguments: DeleteInput) -> Mapping[str, Any]:
    return await delete(service.database, service.census, service.retention, call, arguments)


CHANGING: Final = (
    Tool(
        name="graph_boost",
        title="Confirm a relation",
        description=(
            "Make a remembered relation stronger when the user confirms it, or when recalling it helped: adds `amount` "
            "to its weight (at most 1) and counts it as confirmed now, so that it fades more slowly. Names, aliases "
            "and small typos are understood; the direction counts. If there is no such relation, use graph_relate. "
            "Answers with `previous_weight` and `new_weight`."
        ),
        toolset="memory",
        input=BoostInput,
        output=AdjustAnswer,
        run=_boost,
        scope=WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        example={"from_name": "Alice", "to_name": "Project X", "relation": "WORKS_ON", "reason": "she said so again"},
    ),
    Tool(
        name="graph_weaken",
        title="Doubt a relation",
        description=(
            "Make a remembered relation weaker when the user corrects it or it proved wrong: takes `amount` from its "
            "weight (at least 0). When it was last confirmed stays the same. If a new value took its place, prefer "
            "graph_relate with `valid_at`, which ends the old one. `pruned` says that it is now weak enough for "
            "graph_prune; nothing is deleted here."
        ),
        toolset="memory",
        input=WeakenInput,
        output=WeakenAnswer,
        run=_weaken,
        scope=WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        example={"from_name": "Alice", "to_name": "Vim", "relation": "PREFERS", "reason": "she prefers Emacs now"},
    ),
    Tool(
        name="graph_contradictions",
        title="List contradictions",
        description=(
            "Contradictions that wait to be decided, the newest first: two things that a CONTRADICTS relation joins, "
            "with what they say. `candidates` are entities with several current values of a relation that has one at "
            "a time (two employers, two places) and no recorded contradiction yet: ask the user which holds, then end "
            "the other by graph_relate with `valid_at`, or record the contradiction by graph_relate CONTRADICTS. "
            "Decide a recorded one by graph_resolve."
        ),
        toolset="memory",
        input=ContradictionsInput,
        output=ContradictionsAnswer,
        run=_contradictions,
        scope=READ,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
        volatile=frozenset({"next_cursor", "detected_date"}),
        example={"include_resolved": False, "limit": 20},
    ),
    Tool(
        name="graph_resolve",
        title="Decide a contradiction",
        description=(
            "Record how a contradiction was decided: it is kept with its `resolution` and no longer waits in "
            "graph_contradictions. It changes neither of the two: weaken, delete or supersede what proved wrong by "
            "graph_weaken, graph_delete or graph_relate. Deciding again replaces the resolution."
        ),
        toolset="memory",
        input=ResolveInput,
        output=ResolveAnswer,
        run=_resolve,
        scope=WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        idempotent=True,
        volatile=frozenset({"detected_date"}),
        example={"from_name": "Uses Vue", "to_name": "Uses React", "resolution": "React since the rewrite in May."},
    ),
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

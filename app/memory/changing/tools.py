"""Tools that change what is remembered: stronger, weaker, decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.changing.adjust import boost, weaken
from app.memory.changing.answers import AdjustAnswer, ContradictionsAnswer, ResolveAnswer, WeakenAnswer
from app.memory.changing.contradictions import contradictions, resolve
from app.memory.changing.schemas import BoostInput, ContradictionsInput, ResolveInput, WeakenInput

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["CHANGING"]

READ: Final = "memory:read"
WRITE: Final = "memory:write"


async def _boost(service: MemoryService, call: Call, arguments: BoostInput) -> Mapping[str, Any]:
    return await boost(service.database, service.behaviour(call.principal), call, arguments)


async def _weaken(service: MemoryService, call: Call, arguments: WeakenInput) -> Mapping[str, Any]:
    return await weaken(service.database, service.behaviour(call.principal), call, arguments)


async def _contradictions(service: MemoryService, call: Call, arguments: ContradictionsInput) -> Mapping[str, Any]:
    session = service.database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    return await contradictions(service.kept, session, call, arguments)


async def _resolve(service: MemoryService, call: Call, arguments: ResolveInput) -> Mapping[str, Any]:
    return await resolve(service.database, call, arguments)


CHANGING: Final = (
    Tool(
        name="graph_boost",
        title="Confirm a relation",
        description=(
            "Make a remembered relation stronger when the user confirms it, or when recalling it helped: adds `amount` "
            "to what is left of its weight (at most 1), which fades anew from now on. Names, aliases "
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
            "Make a remembered relation weaker when the user corrects it or it proved wrong: takes `amount` from what "
            "is left of its weight (at least 0). When it was last confirmed stays the same. If a new value took its "
            "place, prefer graph_relate with `valid_at`, which ends the old one. `pruned` says that it is now weak "
            "enough for graph_prune; nothing is deleted here."
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
)

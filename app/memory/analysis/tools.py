"""Tools that look at the memory as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.analysis.answers import (
    CommunitiesAnswer,
    ContextAnswer,
    CypherAnswer,
    ReembedAnswer,
    SuggestionsAnswer,
    ValidateAnswer,
)
from app.memory.analysis.communities import communities
from app.memory.analysis.context import build_context
from app.memory.analysis.cypher import cypher
from app.memory.analysis.queries import EXAMPLE_QUERY
from app.memory.analysis.reembed import reembed
from app.memory.analysis.schemas import (
    CommunitiesInput,
    ContextInput,
    CypherInput,
    ReembedInput,
    SuggestionsInput,
    ValidateInput,
)
from app.memory.analysis.suggestions import suggestions
from app.memory.analysis.validate import validate

if TYPE_CHECKING:
    from app.memory.service import MemoryService

__all__ = ["ANALYSIS"]

READ: Final = "memory:read"
WRITE: Final = "memory:write"


async def _validate(service: MemoryService, call: Call, arguments: ValidateInput) -> Mapping[str, Any]:
    return await validate(service.database, call, arguments)


async def _context(service: MemoryService, call: Call, arguments: ContextInput) -> Mapping[str, Any]:
    return await build_context(service, call, arguments)


async def _communities(service: MemoryService, call: Call, arguments: CommunitiesInput) -> Mapping[str, Any]:
    return await communities(service.database, call, arguments)


async def _suggestions(service: MemoryService, call: Call, arguments: SuggestionsInput) -> Mapping[str, Any]:
    return await suggestions(service.database, service.embedder, call, arguments)


async def _cypher(service: MemoryService, call: Call, arguments: CypherInput) -> Mapping[str, Any]:
    return await cypher(service.database, call, arguments)


async def _reembed(service: MemoryService, call: Call, arguments: ReembedInput) -> Mapping[str, Any]:
    return await reembed(service.database, service.embedder, call, arguments)


ANALYSIS: Final = (
    Tool(
        name="graph_validate",
        title="Check the memory's quality",
        description=(
            "Find what may be wrong in the memory, after a run or in maintenance: names that could mean anything or "
            "point at something unnamed, entities nearly named alike, ends of relations of an unlikely type, extreme "
            "confidence, entities related to nothing. Short real names (Go, C, 日本) are no faults. Narrow it with "
            "`source_session`. Each issue has `type`, `description` and `severity` (high first); repair with "
            "graph_merge, graph_delete or graph_relate. It only reports."
        ),
        toolset="memory",
        input=ValidateInput,
        output=ValidateAnswer,
        run=_validate,
        scope=READ,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=True,
        idempotent=True,
        volatile=frozenset({"next_cursor"}),
        example={"max_issues": 50},
    ),
    Tool(
        name="graph_build_context",
        title="Briefing for a session",
        description=(
            "What to know before a session begins, in one call: the user's standing rules, what waits to be learned, "
            "the last run, contradictions, what is new, the hubs, and figures. With `topic` also what stands around "
            "it (`project_cwd` lifts what is near that project). `token_budget` bounds the answer: what a session "
            "needs least is cut first and counted in `omitted`."
        ),
        toolset="memory",
        input=ContextInput,
        output=ContextAnswer,
        run=_context,
        scope=READ,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
        volatile=frozenset(
            {
                *("generated_at", "first_seen", "detected_date", "last_dream_run", "hours_since_last_dream"),
                *("run_id", "started_at", "ended_at", "duration_ms", "minutes"),
            }
        ),
        example={"topic": "Project X", "project_cwd": "/home/alice/project-x"},
    ),
    Tool(
        name="graph_communities",
        title="Find communities",
        description=(
            "Divide the memory into groups that hang together more closely than with the rest (Leiden, over current "
            "relations stronger than `weight_threshold`): what the user's worlds are. Largest first; `label` and "
            "`seed_name` name the most central members, of which at most 30 are listed. The same memory gives the "
            "same groups. `coverage` says how much is in the groups shown; `truncated`, that only the 200,000 "
            "strongest links were considered."
        ),
        toolset="memory",
        input=CommunitiesInput,
        output=CommunitiesAnswer,
        run=_communities,
        scope=READ,
        cost=Cost.WHOLE_GRAPH,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=True,
        idempotent=True,
        example={"max_communities": 10},
    ),
    Tool(
        name="graph_merge_suggestions",
        title="Find duplicates",
        description=(
            "Suggest pairs of entities of one type that may be the same thing: their texts are alike, their names are "
            "alike, they share neighbours (rare ones count more). `score` sums the signals by `weights`; "
            "embedding_similarity is (1+cosine)/2, the cosine stands beside it. Scope it with `entity_id` or "
            "`entity_type`; without, all is looked at, and `next_cursor` goes on where there is too much for one "
            "call. Nothing is changed: look at both, then use graph_merge."
        ),
        toolset="memory",
        input=SuggestionsInput,
        output=SuggestionsAnswer,
        run=_suggestions,
        scope=READ,
        cost=Cost.HEAVY,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=True,
        idempotent=True,
        volatile=frozenset({"next_cursor"}),
        example={"entity_type": "Person"},
    ),
    Tool(
        name="graph_cypher",
        title="Query the store directly",
        description=(
            "Operators only: run one reading Cypher query over memory records of every tenant, or of the one that "
            "`tenant` names. Records are (:Entity {tenant, layer, id, name, type, …}) and their relations with "
            "weight, valid_at, invalid_at. Each path needs a node with a label (with `tenant`: and the map "
            "{tenant: $tenant}). SHOW, CALL, LOAD CSV, USE, TERMINATE, EXPLAIN, reduce, split, =~, [x IN list | …] "
            "(use UNWIND and collect) and all that writes is refused; 5 seconds; at most `limit` rows. What was read "
            "stands in the audit of the tenants concerned."
        ),
        toolset="memory",
        input=CypherInput,
        output=CypherAnswer,
        run=_cypher,
        scope="admin",
        cost=Cost.HEAVY,
        deadline=DeadlineClass.CYPHER,
        read_only=True,
        idempotent=True,
        operators_only=True,
        instead="Use graph_query, graph_entities or graph_search.",
        volatile=frozenset({"execution_time_ms"}),
        example={
            "cypher": EXAMPLE_QUERY,
            "tenant": "home",
        },
    ),
    Tool(
        name="graph_reembed",
        title="Make vectors anew",
        description=(
            "Embed entities that have no vector (the model was away when they were written) or one that another model "
            "made; with `force` all of them. It works in batches; what is not done when its time ends is "
            "`remaining`: call again, with `next_cursor` if there is one. Needed seldom, since every write embeds."
        ),
        toolset="memory",
        input=ReembedInput,
        output=ReembedAnswer,
        run=_reembed,
        scope=WRITE,
        cost=Cost.WHOLE_GRAPH,
        deadline=DeadlineClass.WHOLE_GRAPH,
        read_only=False,
        idempotent=True,
        volatile=frozenset({"next_cursor"}),
        example={},
    ),
)

"""The memory toolset as clients see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.analysis.tools import ANALYSIS
from app.memory.answers import EntitiesAnswer, QueryAnswer, RelateAnswer, SearchAnswer, StatsAnswer
from app.memory.changing.tools import CHANGING
from app.memory.fading.tools import FADING
from app.memory.merging.tools import MERGING
from app.memory.moving.tools import MOVING
from app.memory.removing.tools import REMOVING
from app.memory.runs.tools import RUNS
from app.memory.schemas import EntitiesInput, QueryInput, RelateInput, SearchInput, StatsInput
from app.memory.service import MemoryService
from app.memory.undoing.tools import UNDOING

__all__ = ["TOOLS"]

READ: Final = "memory:read"
WRITE: Final = "memory:write"


async def _relate(service: MemoryService, call: Call, arguments: RelateInput) -> Mapping[str, Any]:
    return await service.relate(call, arguments)


async def _query(service: MemoryService, call: Call, arguments: QueryInput) -> Mapping[str, Any]:
    return await service.query(call, arguments)


async def _entities(service: MemoryService, call: Call, arguments: EntitiesInput) -> Mapping[str, Any]:
    return await service.entities(call, arguments)


async def _search(service: MemoryService, call: Call, arguments: SearchInput) -> Mapping[str, Any]:
    return await service.search(call, arguments)


async def _stats(service: MemoryService, call: Call, _: StatsInput) -> Mapping[str, Any]:
    return await service.stats(call)


TOOLS: Final = (
    Tool(
        name="graph_relate",
        title="Remember relations",
        description=(
            "Remember that two things are related: creates the relation or strengthens it, and creates the entities if "
            "they are new. One relation: from_name, from_type, relation, to_name, to_type. Several: `batch` with "
            "entities and relations, written together or not at all; a relation names its ends by localId, by the name "
            "of an entity of the batch, or by the name of a known entity. Look with graph_search or graph_entities "
            "first whether the thing is known under another name. Give `evidence` (the sentence that says so) and, if "
            "known, `valid_at` (since when it is true). For a relation with one value at a time (WORKS_AT, REPORTS_TO, "
            "LOCATED_IN, HOSTED_ON, DEPLOYED_TO) a newer valid_at ends the older value; `supersede` decides otherwise. "
            "Asserting an ended relation again makes it current again. Weights: 0.7 said explicitly, 0.5 stated in a "
            "note, 0.3 inferred; said again they grow by 0.05. Usual types: Person, Project, Preference, Concept, "
            "Decision, Fact, Event, Object, Reasoning, Organization, Technology. A sentence worth keeping whole is a "
            "Fact with its text in properties.content. Answers with `action`, `edge`, `created_entities` (batch: "
            "counters and `details`), `superseded` and `warnings`."
        ),
        toolset="memory",
        input=RelateInput,
        output=RelateAnswer,
        run=_relate,
        scope=WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        volatile=frozenset({"undo_id"}),
        example={
            "from_name": "Alice",
            "from_type": "Person",
            "relation": "WORKS_ON",
            "to_name": "Project X",
            "to_type": "Project",
            "weight": 0.7,
            "evidence": "Alice has led Project X since March.",
            "valid_at": "2026-03-01",
        },
    ),
    Tool(
        name="graph_query",
        title="Look around known things",
        description=(
            "Show what stands around named things: nodes and relations within `max_hops`, the strongest first. Use it "
            "when you know names; another spelling, an alias or a small typo is found too. Use graph_search when you "
            "only know what it is about. `project_context` (the working directory or a project's name) lifts what is "
            "near that project. Only relations that hold now, unless `current_only` is false. `context_level`: minimal "
            "to scan, relations-only for the shape, full for everything. An unknown name is no error: `found` is false "
            "or the name stands in `not_found`; a name that fits several stands in `ambiguous` with candidates."
        ),
        toolset="memory",
        input=QueryInput,
        output=QueryAnswer,
        run=_query,
        scope=READ,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
        volatile=frozenset(
            {
                *("next_cursor", "first_seen", "last_seen", "ingested_at", "last_confirmed", "ended_at"),
                "detected_date",
            }
        ),
        example={"entities": ["Alice"], "max_hops": 2, "limit": 20},
    ),
    Tool(
        name="graph_entities",
        title="Browse entities",
        description=(
            "Browse or search the catalogue of entities. `id` reads exactly one, with all its text. `search` finds "
            "words in names, aliases, types, properties and the evidence of relations. Filter by `type` and "
            "`min_confidence`, sort with `sort_by`, go on with `cursor`. `total` counts all that fit; `edge_count` is "
            "the number of current relations. Use it before graph_relate to see whether something is known."
        ),
        toolset="memory",
        input=EntitiesInput,
        output=EntitiesAnswer,
        run=_entities,
        scope=READ,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
        volatile=frozenset({"next_cursor", "first_seen", "last_seen"}),
        example={"search": "project", "type": "Project", "limit": 20},
    ),
    Tool(
        name="graph_search",
        title="Search by meaning",
        description=(
            "Find what is remembered about something, by meaning and by words together: names, descriptions, contents "
            "and evidence. Ask in plain words; a question is fine. `seeds` are the matches, best first, with "
            "`similarity` (cosine) and `score` ((1+cosine)/2), null where a match was found by its words alone. "
            "`expansion` shows what the best five are related to now. Use graph_query for the surroundings of a thing "
            "whose name you know. `explain` shows how each match was found."
        ),
        toolset="memory",
        input=SearchInput,
        output=SearchAnswer,
        run=_search,
        scope=READ,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.SEMANTIC,
        read_only=True,
        idempotent=True,
        example={"query": "Which editor does Alice prefer?", "top_k": 10},
    ),
    Tool(
        name="graph_stats",
        title="Memory statistics",
        description=(
            "How much is remembered and what may need attention: entities and current relations by type, average "
            "weight, entities without relations, unresolved contradictions, stale entities. Counts cover the layers "
            "that this connection reads."
        ),
        toolset="memory",
        input=StatsInput,
        output=StatsAnswer,
        run=_stats,
        scope=READ,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=True,
        idempotent=True,
        volatile=frozenset({"last_dream_run"}),
        example={},
    ),
    *CHANGING,
    *FADING,
    *REMOVING,
    *MERGING,
    *UNDOING,
    *MOVING,
    *ANALYSIS,
    *RUNS,
)

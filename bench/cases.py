"""What is measured: for each case its tool, the arguments of its calls, and what has to happen before each."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from app.graph.identity import entity_id
from bench.dataset import TenantGraph
from bench.stage import Gateway, Stage, called
from bench.states import awake_again, faded_again

__all__ = ["CASES", "Case", "marker"]

Arguments = dict[str, Any]
Before = Callable[[Stage, Gateway, int], Awaitable[None]]
_PRUNED: Final = 20
"""Relations that have faded away before each pruning."""


@dataclass(frozen=True)
class Case:
    """``arguments(graph, number)``: what call ``number`` says. A case that writes says something new each time."""

    name: str
    tool: str
    arguments: Callable[[TenantGraph, int], Arguments]
    target: float | None
    """Milliseconds that the 95th percentile with one client may take, as decided; None: none was set."""
    writes: bool = False
    model: bool = False
    """Whether the embedding model works in it."""
    share: float = 1.0
    """Of the run's number of calls: slow cases make fewer."""
    crowd: bool = False
    """Whether it is measured with many clients too, and held against the targets of what the gateway may add."""
    driver: bool = True
    """Whether the bare driver can do the same again: not where a call leaves another state behind."""
    before: Before | None = None
    """Done before each call, and not counted: ``before(stage, gateway, number of the call)``."""


def marker(number: int) -> str:
    """The word that makes the names of a writing call its own; all are equally long."""
    return f"x{number:07d}x"


def _name(graph: TenantGraph, number: int) -> str:
    return random.Random(number).choice(graph.names)


def _entity(graph: TenantGraph, number: int) -> Arguments:
    return {"id": entity_id(_name(graph, number))}


def _catalogue(graph: TenantGraph, number: int) -> Arguments:
    return {"search": random.Random(number).choice(graph.descriptions).split()[0], "limit": 20}


def _query(graph: TenantGraph, number: int) -> Arguments:
    return {"entities": [_name(graph, number)], "max_hops": 2}


def _search(graph: TenantGraph, number: int) -> Arguments:
    chance = random.Random(number)
    words = chance.choice(graph.descriptions).split()
    return {"query": f"who told us about {' '.join(chance.sample(words, 4))}?", "top_k": 10}


def _context(graph: TenantGraph, number: int) -> Arguments:
    return {"topic": _name(graph, number)}


def _suggestions(graph: TenantGraph, number: int) -> Arguments:
    return {"entity_id": _name(graph, number), "min_score": 0.3}


def _relate(graph: TenantGraph, number: int) -> Arguments:
    return {
        "from_name": graph.names[0],
        "from_type": "Person",
        "relation": "KNOWS",
        "to_name": f"Guest {marker(number)}",
        "to_type": "Person",
        "weight": 0.7,
        "evidence": f"They met guest {marker(number)} at the harbour last week.",
    }


def _batch(graph: TenantGraph, number: int) -> Arguments:
    """25 new entities and 50 relations: each new one to a known one and to the next new one."""
    new = [f"Part {place} of {marker(number)}" for place in range(25)]
    known = graph.names[1:26]
    entities = [{"name": name, "type": "Concept", "localId": f"n{place}"} for place, name in enumerate(new)]
    relations = [
        {"from": f"n{place}", "to": end, "relation": verb, "weight": 0.5}
        for place in range(25)
        for end, verb in ((known[place], "RELATED_TO"), (f"n{(place + 1) % 25}", "PART_OF"))
    ]
    return {"batch": {"entities": entities, "relations": relations}}


def _weight(graph: TenantGraph, number: int) -> Arguments:
    """A relation of the middle of the list: what changes relations for good takes those of its ends."""
    third = len(graph.relations) // 3
    source, relation, target = graph.relations[third + random.Random(number).randrange(third)]
    return {"from_name": source, "relation": relation, "to_name": target, "amount": 0.05}


def _unmerge(graph: TenantGraph, number: int) -> Arguments:
    """A new entity takes one relation of another."""
    source, relation, target = graph.relations[len(graph.relations) // 10 + number]
    moved = {"other_entity_id": entity_id(target), "relation_type": relation, "direction": "out"}
    return {
        "entity_id": entity_id(source),
        "new_entity_name": f"Half {marker(number)}",
        "new_entity_type": "Person",
        "edges_to_move": [moved],
        "reason": "two people of one name",
    }


def _queue(_: TenantGraph, number: int) -> Arguments:
    content = f"# Meeting {marker(number)}\n" + "Alice leads the harbour project from March.\n" * 40
    return {"action": "queue", "file_name": f"meeting-{marker(number)}.md", "content": content}


async def _written(stage: Stage, running: Gateway, number: int) -> None:
    """Of what the gateway keeps of the whole, a part is out of date; of what this process keeps, all."""
    stage.service.kept.close()
    await called(running, stage.tokens[0], "graph_boost", _weight(stage.graphs[0], number))


async def _faded(stage: Stage, _: Gateway, number: int) -> None:
    end = len(stage.graphs[0].relations) - number * _PRUNED
    await faded_again(stage, stage.graphs[0].relations[end - _PRUNED : end])


async def _awake(stage: Stage, _: Gateway, __: int) -> None:
    await awake_again(stage)


def _nothing(_: TenantGraph, __: int) -> Arguments:
    return {}


def _preview(_: TenantGraph, __: int) -> Arguments:
    return {"mode": "preview"}


CASES: Final = (
    Case("entity by id", "graph_entities", _entity, 100, crowd=True),
    Case("entities by a word", "graph_entities", _catalogue, 100, share=0.5),
    Case("query, 2 hops", "graph_query", _query, 100, crowd=True),
    Case("search", "graph_search", _search, 200, model=True, share=0.5, crowd=True),
    Case("boost", "graph_boost", _weight, 30, share=0.5),
    Case("weaken", "graph_weaken", _weight, 30, share=0.5),
    Case("relate", "graph_relate", _relate, 50, writes=True, model=True, share=0.5, crowd=True),
    Case("relate, batch of 50", "graph_relate", _batch, None, writes=True, model=True, share=0.1, crowd=True),
    Case("stats", "graph_stats", _nothing, 150, share=0.1),
    Case("stats, after a write", "graph_stats", _nothing, 150, share=0.1, before=_written),
    Case("context, kept", "graph_build_context", _context, 300, share=0.2),
    Case("context, after a write", "graph_build_context", _context, 300, share=0.05, before=_written),
    Case("contradictions", "graph_contradictions", _nothing, 200, share=0.2),
    Case("contradictions, after a write", "graph_contradictions", _nothing, 200, share=0.1, before=_written),
    Case("suggestions of an entity", "graph_merge_suggestions", _suggestions, 500, share=0.05),
    Case("suggestions of a type", "graph_merge_suggestions", lambda *_: {"entity_type": "Event"}, 500, share=0.03),
    Case("communities", "graph_communities", _nothing, None, share=0.02),
    Case("validate", "graph_validate", _nothing, None, share=0.02),
    Case("prune, preview", "graph_prune", _preview, 200, share=0.1),
    Case("prune, preview, after a write", "graph_prune", _preview, 200, share=0.1, before=_written),
    Case("unmerge", "graph_unmerge", _unmerge, 200, writes=True, share=0.1, driver=False),
    Case("prune, execute", "graph_prune", lambda *_: {"mode": "execute"}, 500, share=0.05, driver=False, before=_faded),
    Case("decay of everything", "graph_decay", _nothing, 2000, share=0.02, before=_awake),
    Case("ingest, queue", "graph_ingest", _queue, 100, writes=True, share=0.2, driver=False),
    Case("ingest, status", "graph_ingest", lambda _graph, _number: {"action": "status"}, 50, share=0.5),
)

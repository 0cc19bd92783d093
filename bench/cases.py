"""What is measured: for each case its tool, and the arguments of its calls."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from app.graph.identity import entity_id
from bench.dataset import TenantGraph

__all__ = ["CASES", "Case", "marker"]

Arguments = dict[str, Any]


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
    crowd: bool = True
    """Whether it is measured with many clients too."""


def marker(number: int) -> str:
    """The word that makes the names of a writing call its own; all are equally long."""
    return f"x{number:07d}x"


def _name(graph: TenantGraph, number: int) -> str:
    return random.Random(number).choice(graph.names)


def _entity(graph: TenantGraph, number: int) -> Arguments:
    return {"id": entity_id(_name(graph, number))}


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


CASES: Final = (
    Case("entity by id", "graph_entities", _entity, 100),
    Case("query, 2 hops", "graph_query", _query, 100),
    Case("search", "graph_search", _search, None, model=True, share=0.5),
    Case("relate", "graph_relate", _relate, 50, writes=True, model=True, share=0.5),
    Case("relate, batch of 50", "graph_relate", _batch, None, writes=True, model=True, share=0.1),
    Case("stats", "graph_stats", lambda _graph, _number: {}, 150, share=0.2, crowd=False),
    Case("context", "graph_build_context", _context, 300, share=0.1, crowd=False),
    Case("suggestions of an entity", "graph_merge_suggestions", _suggestions, 500, share=0.05, crowd=False),
    Case("communities", "graph_communities", lambda _graph, _number: {}, None, share=0.02, crowd=False),
    Case("validate", "graph_validate", lambda _graph, _number: {}, None, share=0.02, crowd=False),
)

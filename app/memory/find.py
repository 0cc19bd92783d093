"""``graph_search``: by meaning and by words, with what the best matches are related to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.contract import Call
from app.embedding.provider import Embedder
from app.graph.search import Hit, SearchOptions, search
from app.graph.vocabulary import type_name
from app.memory.past.view import view
from app.memory.schemas import SearchInput
from app.memory.shapes import fitting, node_shape
from app.store.database import Database, TenantSession

__all__ = ["find"]

_EXPANDED_SEEDS: Final = 5
_EXPANDED_EDGES: Final = 30
_NOTHING: Final = (
    "Nothing fits. Try other words, a lower min_similarity, graph_query with a name, or graph_entities to browse."
)


async def find(database: Database, embedder: Embedder, call: Call, arguments: SearchInput) -> Mapping[str, Any]:
    """Answer ``graph_search``.

    Raises:
        InvalidInput: a blank query or a malformed type.
        CallError: what the store raises. A missing model is none: words alone answer then, and ``note`` says so.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    options = SearchOptions(
        k=arguments.top_k,
        types=tuple(sorted({type_name(name) for name in arguments.entity_types or ()})),
        min_similarity=arguments.min_similarity,
        min_cosine=arguments.min_cosine,
        explain=arguments.explain,
        seen_by=view(arguments.as_of, arguments.as_of_basis).seen_by,
    )
    found = await search(session, embedder, arguments.query, options)
    seeds = [_seed(hit, explain=arguments.explain) for hit in found.hits]
    seeds = seeds[: fitting(seeds)]
    note = found.note if seeds else _NOTHING if found.note is None else f"{found.note} {_NOTHING}"
    answer: dict[str, Any] = {
        "query": arguments.query[:1000],
        "found": bool(seeds),
        "seeds": seeds,
        "expansion": await _expansion(session, seeds, arguments) if seeds and arguments.expand else None,
    }
    if note is not None:
        answer["note"] = note
    if arguments.explain:
        answer["explain"] = {"mode": found.mode, **found.explain}
    return answer


def _seed(hit: Hit, *, explain: bool) -> dict[str, Any]:
    shown = node_shape(hit.entity)
    seed = {key: shown.get(key) for key in ("id", "name", "type", "confidence", "properties", "layers")}
    seed |= {"similarity": hit.similarity, "score": hit.score}
    return seed | {"why": hit.why} if explain else seed


async def _expansion(
    session: TenantSession, seeds: Sequence[Mapping[str, Any]], arguments: SearchInput
) -> dict[str, Any]:
    ids = [seed["id"] for seed in seeds]
    seen = view(arguments.as_of, arguments.as_of_basis)
    rows = await session.read(
        seen.expansion,
        ids=ids[:_EXPANDED_SEEDS],
        min_weight=arguments.expand_min_weight,
        limit=_EXPANDED_EDGES,
        **seen.parameters,
    )
    nodes: dict[str, dict[str, Any]] = {}
    edges = []
    for row in rows:
        edges.append(
            {
                "from": row["source"],
                "to": row["target"],
                "from_name": row["from_name"],
                "to_name": row["to_name"],
                "type": row["relation"],
                "relation": row["relation"],
                "weight": row["weight"],
            }
        )
        for end, side in (("source", "from"), ("target", "to")):
            if row[end] not in ids:
                node = {"id": row[end], "name": row[f"{side}_name"], "type": row[f"{side}_type"]}
                nodes.setdefault(row[end], {**node, "from_seed": row["seed"]})
    return {"nodes": list(nodes.values()), "edges": edges, "node_count": len(nodes), "edge_count": len(edges)}

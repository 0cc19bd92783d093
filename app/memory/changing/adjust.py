"""``graph_boost`` and ``graph_weaken``: one relation stronger or weaker, in each of its copies that may be written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.contract import Call, Json
from app.errors import InvalidInput, NotFound
from app.graph.identity import entity_id
from app.graph.vocabulary import relation_name
from app.memory.calls import noted, once
from app.memory.changing.queries import ADJUST
from app.memory.changing.schemas import BoostInput, WeakenInput
from app.memory.ends import certain, read_only, sorted_names
from app.memory.fading.rest import FLOOR
from app.memory.shapes import relation_of
from app.settings import MemorySettings
from app.store.database import Database, Writing

__all__ = ["boost", "weaken"]

_ADVICE = "graph_relate creates an entity and its relations; graph_entities shows those that exist."


async def boost(database: Database, settings: MemorySettings, call: Call, arguments: BoostInput) -> Mapping[str, Any]:
    """Answer ``graph_boost``: the weight grows and the relation counts as confirmed now.

    Raises:
        NotFound: there is no such relation; the message names graph_relate.
        InvalidInput: a name fits several entities.
        Forbidden: no copy of it may be written.
        CallError: what the store raises.
    """
    warnings: list[str] = []
    amount = _amount(arguments.amount, settings.boost, warnings)
    answer = await _adjusted(database, settings, call, arguments, amount, confirms=True)
    return {**answer, "warnings": warnings}


async def weaken(database: Database, settings: MemorySettings, call: Call, arguments: WeakenInput) -> Mapping[str, Any]:
    """Answer ``graph_weaken``: the weight shrinks; how long ago the relation was confirmed stays the same.

    Raises:
        CallError: as :func:`boost`.
    """
    warnings: list[str] = []
    amount = _amount(arguments.amount, settings.weaken, warnings)
    answer = await _adjusted(database, settings, call, arguments, -amount, confirms=False)
    return {**answer, "pruned": answer["new_weight"] <= settings.prune_edge_threshold, "warnings": warnings}


def _amount(given: float | None, default: float, warnings: list[str]) -> float:
    if given is None:
        return default
    if not math.isfinite(given):
        raise InvalidInput("amount is a number from 0 to 1, for example 0.15. Nothing was applied.", field="amount")
    clamped = min(1.0, max(0.0, given))
    if clamped != given:
        warnings.append(f"amount {given:g} is outside 0..1 and was taken as {clamped:g}.")
    return clamped


async def _adjusted(
    database: Database,
    settings: MemorySettings,
    call: Call,
    arguments: BoostInput | WeakenInput,
    change: float,
    *,
    confirms: bool,
) -> Json:
    relation = relation_name(arguments.relation)
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)

    async def adjusted(writing: Writing, source: str, target: str) -> tuple[list[Json], list[Json]]:
        now = datetime.now(UTC)
        rows = await writing.run(
            ADJUST,
            ids=sorted({source, target}),
            source=source,
            relation=relation,
            target=target,
            change=float(change),
            confirms=confirms,
            now=now,
            moment=float(int(now.timestamp())),
            edge_rate=settings.decay_edge_rate,
            floor=FLOOR,
        )
        return rows[0]["before"], rows[0]["after"]

    async def work(writing: Writing) -> Json:
        # Most calls name both ends by what gives their ids, which is what is looked up first: one round trip less.
        source, target = entity_id(arguments.from_name), entity_id(arguments.to_name)
        before, after = await adjusted(writing, source, target)
        if not before:
            ends = await certain(writing.run, [arguments.from_name, arguments.to_name], _ADVICE)
            found = tuple(end.id or "" for end in ends)
            if found != (source, target):
                source, target = found
                before, after = await adjusted(writing, source, target)
        triple = (source, relation, target)
        shown = f"{arguments.from_name!r} -[{relation}]-> {arguments.to_name!r}"
        if not before:
            raise NotFound(
                f"Edge not found: {shown}. graph_relate creates it; graph_query shows the relations that exist and "
                "their direction. Nothing was applied."
            )
        if not after:
            raise read_only(f"The relation {shown}", [copy["layer"] for copy in before])
        answer = _answer(triple, before, after)
        weights = {name: answer[name] for name in ("previous_weight", "new_weight")}
        layers = [copy["layer"] for copy in after]
        await noted(writing, call, " ".join(triple), layers, reason=arguments.reason, **weights)
        return answer

    return await session.write(work, idempotency=once(call, arguments.idempotency_key))


def _answer(triple: Sequence[str], before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Json:
    """The merged relation before and after; the copies that were changed have what was left, and their new weight."""
    was = {copy["layer"]: copy["was"] for copy in after}
    weights = {copy["layer"]: copy["weight"] for copy in after}
    return {
        "previous_weight": relation_of(triple, _weighing(before, was))["weight"],
        "new_weight": relation_of(triple, _weighing(before, weights))["weight"],
        "edge": {"from": triple[0], "to": triple[2], "type": triple[1]},
        "layers": sorted_names(list(weights)),
        "kept_layers": sorted_names([copy["layer"] for copy in before if copy["layer"] not in weights]),
    }


def _weighing(copies: Sequence[Mapping[str, Any]], weights: Mapping[str, float]) -> list[Mapping[str, Any]]:
    return [
        {**copy, "properties": [*copy["properties"], ["weight", weights[copy["layer"]]]]}
        if copy["layer"] in weights
        else copy
        for copy in copies
    ]

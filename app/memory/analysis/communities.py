"""``graph_communities``: what hangs together more closely than with the rest (Leiden, off the event loop)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from graspologic_native import leiden

from app.contract import Call
from app.counting import counted
from app.memory.analysis.queries import EDGES, MEMBERS
from app.memory.analysis.schemas import CommunitiesInput
from app.memory.shapes import ANSWER_CHARACTERS, fitting
from app.store.database import Database

__all__ = ["communities"]

_MOST: Final = 200_000
"""Links that are considered, the strongest: about two seconds of computing."""
_SEED: Final = 1
_MEMBERS: Final = 30
_LABELLED: Final = 3
_CLIP: Final = 80

Link = Sequence[Any]
"""[id, id, weight]"""


async def communities(database: Database, call: Call, arguments: CommunitiesInput) -> Mapping[str, Any]:
    """Answer ``graph_communities``.

    Raises:
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    row = (await session.read(EDGES, min_weight=arguments.weight_threshold, most=_MOST))[0]
    links: list[Link] = row["links"]
    await call.progress(1, 3, f"{counted(len(links), 'link')} read")
    quality, groups = await asyncio.to_thread(_divided, links, arguments.resolution)
    await call.progress(2, 3, "divided")
    found = [group for group in groups if len(group) >= arguments.min_size]
    shown = found[: arguments.max_communities]
    ids = sorted({id_ for group in shown for id_ in group})
    rows = await session.read(MEMBERS, ids=ids) if ids else []
    known = {id_: (name, type_) for entry in rows for id_, name, type_ in entry["rows"]}
    room = ANSWER_CHARACTERS // max(len(shown), 1)
    listed = [_shown(number, group, known, room) for number, group in enumerate(shown, start=1)]
    assigned = sum(community["member_count"] for community in listed)
    everything = row["everything"]
    return {
        "communities": listed,
        "total_communities": len(found),
        "total_members": assigned,
        "coverage_pct": round(100.0 * assigned / everything, 1) if everything else 0.0,
        "coverage": {"total_entities": everything, "assigned": assigned, "unassigned": everything - assigned},
        "quality": quality,
        "truncated": len(links) >= _MOST,
    }


def _divided(links: Sequence[Link], resolution: float) -> tuple[float | None, list[list[str]]]:
    """The quality of the division and its groups, largest first; each group's members, the most central first."""
    if not links:
        return None, []
    ordered = sorted((one, two, float(weight)) for one, two, weight in links)
    quality, placed = leiden(ordered, resolution=resolution, seed=_SEED)
    central: dict[str, float] = defaultdict(float)
    for one, two, weight in ordered:
        if placed[one] == placed[two]:
            central[one] += weight
            central[two] += weight
    groups: dict[int, list[str]] = defaultdict(list)
    for id_, place in placed.items():
        groups[place].append(id_)
    members = [sorted(group, key=lambda id_: (-round(central[id_], 9), id_)) for group in groups.values()]
    return round(quality, 4), sorted(members, key=lambda group: (-len(group), group[0]))


def _shown(number: int, group: Sequence[str], known: Mapping[str, tuple[str, str]], room: int) -> dict[str, Any]:
    members = [id_ for id_ in group if id_ in known]
    types = Counter(known[id_][1] for id_ in members)
    shown = [{"id": id_, "name": known[id_][0][:_CLIP], "type": known[id_][1]} for id_ in members[:_MEMBERS]]
    return {
        "id": number,
        "label": ", ".join(member["name"] for member in shown[:_LABELLED]),
        "seed_name": shown[0]["name"] if shown else "",
        "seed_id": shown[0]["id"] if shown else "",
        "member_count": len(members),
        "dominant_type": min(types, key=lambda name: (-types[name], name)) if types else "",
        "members": shown[: fitting(shown, room)],
    }

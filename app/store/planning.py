"""Statements run before they are needed, for a tenant that does not exist.

The database plans and compiles a statement when it first comes. That takes up to half a second for one statement and
many seconds on a busy machine, so the first calls could run into their deadlines. A plan belongs to the types of the
parameters too, so each statement is run with examples; what writes is rolled back.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import structlog

from app.context import Deadline, Scope
from app.contract import Json
from app.errors import CallError, DatabaseUnavailable
from app.store.database import Database, TenantSession, Writing
from app.store.statement import REGISTERED, Statement

__all__ = ["EXAMPLES", "NOBODY", "plan_ahead"]

log = structlog.get_logger("graphkeep.store")

NOBODY: Final = "nobody"
"""A data id that no tenant has: theirs are random."""

_SCOPE: Final = Scope(NOBODY, (NOBODY,), (NOBODY,), NOBODY, NOBODY)
_SECONDS: Final = 60.0
_VECTOR: Final = "vector"
_RECORD: Final = {"id": "x", "label": "Concept", "source": "x", "relation": "KNOWS", "target": "x", "fields": {}}
_IMAGE: Final = {**_RECORD, "labels": ("Concept",), "unlabelled": (), "moments": ()}

EXAMPLES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **dict.fromkeys(("id", "place", "recipe", "source", "relation", "target", "resolution", "from_id"), "x"),
        "beginning": "x",
        **dict.fromkeys(("ids", "starts", "among", "terms", "grams", "named", "frequent", "types", "beyond"), ("x",)),
        **dict.fromkeys(("around", "beside", "forgotten", "removed", "single", "verbs", "exempt"), ("x",)),
        **dict.fromkeys(("ends", "pairs", "rivals", "changed", "parted"), (_RECORD,)),
        **dict.fromkeys(("aliases", "created", "entities"), (_IMAGE,)),
        **dict.fromkeys(("at_edge", "at_node"), 0),
        **dict.fromkeys(("hops", "most", "width", "limit", "near", "few", "nearest", "whole"), 1),
        **dict.fromkeys(("type", "after", "min_confidence")),
        **dict.fromkeys(("brief", "current_only", "confirms", "include_resolved", "include_orphans"), True),
        **dict.fromkeys(("change", "floor", "other_rate", "edge_rate", "node_threshold", "edge_threshold"), 0.5),
        **dict.fromkeys(("parts", "fewest", "each"), 1),
        "doubled": ({"source": "x", "relation": "KNOWS", "targets": ("x",)},),
        "ranges": ({"place": 0, "start": "", "end": "x"},),
        "asked": ({"id": "x", "fuzzy": "names:x~1"},),
        "force": True,
        "least": 0.5,
        "rules": (("WORKS_AT", ("Person",), ("Organization",)),),
        "min_weight": 0.5,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "believed": True,
        "moment": 1_800_000_000.0,
        "now": datetime(2026, 1, 1, tzinfo=UTC),
        "rates": {"Person": 0.5},
        "searched": ({"id": "x", "layer": "x", "fields": {}},),
        "since": datetime(2026, 1, 1, tzinfo=UTC),
        "sort": "confidence",
        "thread": "x",
        "triples": (("x", "KNOWS", "x"),),
        "unseen_since": datetime(2026, 1, 1, tzinfo=UTC),
        "vectors": ({"id": "x", "layer": "x", "seen": "x", "embedding": (0.5,), "place": 0},),
    }
)
"""A value of the usual type for every parameter of the tools' statements but vectors, by name."""


class _Done(Exception):
    """Rolls a rehearsed write back."""


async def plan_ahead(database: Database, rooms: Collection[str], *, dimension: int | None = None) -> int:
    """Run the statements of ``rooms`` (the first words of their names, or whole names) that are registered so far.

    Returns how many ran. Those that compare vectors are run once their index exists: with its ``dimension``, and then
    they alone. A database that is away or busy is no failure: it will plan when the statement comes.
    """
    began, planned = time.monotonic(), 0
    examples = EXAMPLES if dimension is None else {**EXAMPLES, _VECTOR: (0.5,) * dimension}
    for statement in list(REGISTERED.values()):
        if statement.control or not {statement.name, statement.name.split(".")[0]} & set(rooms):
            continue
        if not statement.parameters <= examples.keys() or _compares(statement) != (dimension is not None):
            continue
        session = database.session(_SCOPE, deadline=Deadline.after(_SECONDS), request_id="plans")
        try:
            await _run(session, statement, examples)
        except DatabaseUnavailable:
            break
        except CallError as error:
            log.warning("not_planned", statement=statement.name, reason=error.reason)
        else:
            planned += 1
    log.info("planned", statements=planned, seconds=round(time.monotonic() - began, 1))
    return planned


def _compares(statement: Statement) -> bool:
    """Whether it needs the vector index."""
    return _VECTOR in statement.parameters or "VECTOR INDEX" in statement.text


async def _run(session: TenantSession, statement: Statement, examples: Mapping[str, Any]) -> None:
    parameters = {name: examples[name] for name in statement.parameters}
    if not statement.writes:
        await session.read(statement, **parameters)
        return

    async def undone(writing: Writing) -> Json:
        await writing.run(statement, **parameters)
        raise _Done

    try:
        await session.write(undone)
    except _Done:
        return

"""``graph_run`` with ``status``: what is under way, what was done, how far each conversation was read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call, Cursor, Json
from app.errors import NotFound
from app.memory.runs.lease import readable
from app.memory.runs.schemas import RunInput
from app.memory.runs.shown import event_shown, mark_shown, run_shown
from app.memory.shapes import fitting
from app.store.control.run_events import RunEvents
from app.store.control.runs import Run, RunStore
from app.store.database import Database

__all__ = ["standing"]

_RECENT: Final = 5
_EVENTS_ROOM: Final = 25_000
_MARKS_ROOM: Final = 15_000
_IDLE: Final = "No run is under way that shows to you; graph_run begin starts one."
_YOURS: Final = "Your run is under way. On the device that leads it: graph_run begin takes it up again."
_OTHERS: Final = "Somebody else's run is under way; wait until it ends."
_LOOKED: Final = "This is how the run stands."


async def standing(database: Database, call: Call, given: RunInput) -> Mapping[str, Any]:
    """Answer ``graph_run`` with the action ``status``.

    Raises:
        NotFound: no run of this id shows to the caller.
        CallError: what the store raises.
    """
    control = database.control.until(call.deadline, call.request_id)
    store, tenant, layers, now = RunStore(control), call.scope.tenant, readable(call), int(time.time() * 1000)
    recent = await store.runs(tenant, layers, id_=given.run_id or "", limit=given.limit)
    run, said = _looked_at(recent, given, call, now)
    answer: Json = {"action": "status", "run": _shown(run, call, now), "next": said}
    answer["last_completed"] = _shown(await store.last(tenant, layers, completed=True), call, now)
    answer["runs"] = [run_shown(found, call, now) for found in recent[:_RECENT]]
    marks = [mark_shown(mark) for mark in await store.marks(tenant, layers, given.session_ids, limit=given.limit)]
    answer["watermarks"] = marks[: fitting(marks, _MARKS_ROOM)]
    return answer | await _events(RunEvents(control), call, given, run)


def _looked_at(recent: list[Run], given: RunInput, call: Call, now: int) -> tuple[Run | None, str]:
    if given.run_id is not None:
        if not recent:
            raise NotFound("there is no such run; graph_run status without run_id lists the latest.")
        return recent[0], _LOOKED
    under_way = next((run for run in recent if run.state_at(now) == "running"), None)
    if under_way is None:
        return None, _IDLE
    return under_way, _YOURS if under_way.subject == call.principal.subject else _OTHERS


def _shown(run: Run | None, call: Call, now: int) -> Json | None:
    return None if run is None else run_shown(run, call, now, whole=True)


async def _events(events: RunEvents, call: Call, given: RunInput, run: Run | None) -> Json:
    """What was reported of the run, or of all, newest first; a page of it."""
    question = {"run": run.id if given.run_id is not None and run is not None else ""}
    before = (2**53, "~")
    if given.cursor is not None:
        at, id_ = Cursor.decode(given.cursor, call.scope, question, (float, str)).position
        before = (int(at), id_)
    found = await events.entries(
        call.scope.tenant, readable(call), run=question["run"], before=before, limit=given.limit
    )
    shown = [event_shown(entry) for entry in found]
    fit = fitting(shown, _EVENTS_ROOM)
    more = bool(found) and (fit < len(found) or len(found) == given.limit)
    cursor = Cursor((found[fit - 1].at, found[fit - 1].id)).encode(call.scope, question) if more else None
    return {"events": shown[:fit], "next_cursor": cursor}

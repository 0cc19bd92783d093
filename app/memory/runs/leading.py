"""``graph_run``: begin, heartbeat, progress, finish and abort, each in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.contract import Call, Json
from app.errors import Conflict, InvalidInput, NotFound
from app.memory.moments import moment_text, stored_moment
from app.memory.runs.lease import beaten, decide, leads, readable, slots_of, under_way
from app.memory.runs.schemas import RunInput
from app.memory.runs.shown import mark_shown, run_shown
from app.store.control.audit import append_in
from app.store.control.run_events import RunEvent, RunEvents
from app.store.control.runs import Run, RunStore, Watermark, mark_place, run_of
from app.store.database import Database, Idempotency, Writing

__all__ = ["Leading"]

_BEGUN: Final = (
    "You lead this run; give its `lease` with each call of it. For each conversation, oldest first: read it, write "
    "with graph_relate, then graph_run progress at once. After every quarter of an hour of work without progress, "
    "graph_run heartbeat. At the end graph_run finish, or graph_run abort if you must stop."
)
_RESUMED: Final = (
    "You take this run up again, with a new `lease`. graph_run status shows how far each conversation was read "
    "(`watermarks`); go on behind those, and do not repeat what was done."
)
_GO_ON: Final = "Go on with the next conversation or document; graph_run finish when none is left."
_NO_LEASE: Final = (
    "lease is required: it is in the answer to graph_run begin, which hands a new one to the device that leads. "
    "Nothing was applied."
)
_CLOCKS: Final = 300
"""Seconds that the clock of a device may be ahead of ours."""
_STAYED: Final = "the watermark stands further on than `through`; it was not moved back"


class Leading:
    """One call that begins, leads or ends a run."""

    def __init__(self, database: Database, call: Call, given: RunInput) -> None:
        self._database = database
        self._runs = RunStore(database.control)
        self._events = RunEvents(database.control)
        self._call = call
        self._given = given
        self._now = int(time.time() * 1000)
        self._named = ""

    async def answer(self) -> Mapping[str, Any]:
        """Do what the action says, once for an ``idempotency_key``.

        Raises:
            Conflict: another device leads, or the run has ended. NotFound: no such run shows to the caller.
            CallError: what the store raises.
        """
        call, key = self._call, self._given.idempotency_key
        session = self._database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
        actions: Mapping[str, Callable[[Writing], Awaitable[Json]]] = {
            "begin": self._begin,
            "heartbeat": self._heartbeat,
            "progress": self._progress,
            "finish": self._finish,
            "abort": self._abort,
        }
        action = actions[self._given.action]
        if self._given.action != "begin":
            runs = RunStore(self._database.control.until(call.deadline, call.request_id))
            leased = run_of(self._given.lease or "")
            self._named = leased or self._given.run_id or await under_way(runs, call, self._now)
        idempotency = None if key is None else Idempotency(key, call.tool, call.arguments_digest)
        return await session.write(lambda writing: action(writing.control()), idempotency=idempotency)

    async def _begin(self, writing: Writing) -> Json:
        tenant, wish = self._call.scope.tenant, self._given
        held = await self._runs.lock_slots(writing, tenant, slots_of(wish.kind, self._call.scope.writable))
        decision = decide(held, self._call, wish, self._now)
        for run in (*decision.expired, decision.run):
            await self._runs.save(writing, tenant, run)
        await self._runs.take_slots(writing, tenant, decision.run)
        for run in decision.expired:
            await self._end_event(writing, run)
        event = {"source": wish.source, "device": wish.device, "resumed": decision.resumed}
        await self._report(writing, decision.run, "run_start", event)
        await self._audit(writing, decision.run, "run.begin")
        said = _RESUMED if decision.resumed else _BEGUN
        answer = self._answer(decision.run, said)
        return answer | {"resumed": decision.resumed, "lease": decision.run.lease}

    async def _heartbeat(self, writing: Writing) -> Json:
        run = beaten(await self._led(writing), self._now)
        await self._runs.save(writing, self._call.scope.tenant, run)
        return self._answer(run, _GO_ON)

    async def _progress(self, writing: Writing) -> Json:
        given = self._given
        run = beaten(await self._led(writing), self._now)
        mark, moved, warnings = await self._marked(writing, run)
        if moved.anything:
            run = replace(
                run,
                transcripts=run.transcripts + (mark is not None and moved.first),
                entities=run.entities + (given.entities or 0),
                edges=run.edges + (given.edges or 0),
                documents=run.documents + (given.documents or 0),
                errors=run.errors + (given.errors or 0),
            )
        await self._runs.save(writing, self._call.scope.tenant, run)
        answer = self._answer(run, _GO_ON)
        if mark is not None:
            answer["watermark"] = mark_shown(mark)
        return answer | {"warnings": warnings} if warnings else answer

    async def _finish(self, writing: Writing) -> Json:
        given, run = self._given, await self._locked(writing)
        if run.state == "completed":
            return self._answer(run, "This run had been finished before; nothing was changed.", whole=True)
        self._require_lead(run)
        done = replace(
            run,
            state="completed",
            ended_at=self._now,
            beat_at=self._now,
            documents=run.documents if given.documents is None else given.documents,
            entities=run.entities if given.entities is None else given.entities,
            edges=run.edges if given.edges is None else given.edges,
            errors=run.errors if given.errors is None else given.errors,
            changelog=given.changelog,
        )
        await self._close(writing, done, "run.finish")
        return self._answer(done, "The run is over and another may begin. Tell the person what changed.", whole=True)

    async def _abort(self, writing: Writing) -> Json:
        run = await self._locked(writing)
        if run.state != "running":
            return self._answer(run, "This run had ended before; nothing was changed.")
        if run.subject != self._call.principal.subject:  # from any of their devices: the one that led may be lost
            raise Conflict("only who leads a run may give it up. Nothing was changed.")
        done = replace(run, state="aborted", ended_at=self._now, reason=self._given.reason)
        await self._close(writing, done, "run.abort")
        said = "The run was given up; what it wrote stays, and its watermarks say where the next one goes on."
        return self._answer(done, said)

    async def _marked(self, writing: Writing, run: Run) -> tuple[Watermark | None, _Moved, list[str]]:
        given, tenant = self._given, self._call.scope.tenant
        if given.session_id is None:
            if given.through is not None or given.last_event_id is not None or given.line_count is not None:
                raise InvalidInput(
                    "session_id says whose watermark it is; name the conversation. Nothing was applied.",
                    field="session_id",
                )
            return None, _Moved(False, True), []
        if given.through is not None and given.through.timestamp() * 1000 > self._now + _CLOCKS * 1000:
            raise InvalidInput(
                "through lies in the future, so all that is said until then would be passed over; give the moment of "
                "the last message that was read. Nothing was applied.",
                field="through",
            )
        layers = tuple(sorted(set(run.layers) | readable(self._call)))
        place = mark_place(self._call.scope.write_layer or "", layers)
        before = await self._runs.mark(writing, tenant, place, given.session_id)
        known = stored_moment(before.through or None) if before is not None else None
        behind = known is not None and given.through is not None and given.through < known
        mark = Watermark(
            session=given.session_id,
            layers=layers,
            run=run.id,
            at=self._now,
            through=moment_text(known if behind or given.through is None else given.through) or "",
            last_event_id=_last_event(before, given, behind=behind),
            line_count=max(given.line_count or 0, before.line_count if before is not None else 0),
            entities=given.entities or 0,
            edges=given.edges or 0,
        )
        await self._runs.save_mark(writing, tenant, place, mark)
        first = before is None or before.run != run.id
        return mark, _Moved(first, first or _further(before, mark)), [_STAYED] if behind else []

    async def _led(self, writing: Writing) -> Run:
        run = await self._locked(writing)
        self._require_lead(run)
        return run

    async def _locked(self, writing: Writing) -> Run:
        if not self._named:
            raise InvalidInput(f"you lead no run. {_NO_LEASE}", field="lease")
        run = await self._runs.lock(writing, self._call.scope.tenant, self._named)
        if run is None or not readable(self._call).issuperset(run.layers):
            raise NotFound("there is no such run; graph_run begin starts one and answers with its run_id.")
        return run

    def _require_lead(self, run: Run) -> None:
        if run.state != "running":
            raise Conflict(
                f"this run has ended ({run.state}), so nothing was applied; graph_run begin starts another, which goes "
                "on where the watermarks stand."
            )
        if run.subject == self._call.principal.subject and self._given.lease is None:
            raise InvalidInput(_NO_LEASE, field="lease")
        if not leads(run, self._call, self._given.lease):
            raise Conflict("somebody else leads this run, so nothing was applied. Stop here and say so.")

    async def _close(self, writing: Writing, run: Run, action: str) -> None:
        await self._runs.save(writing, self._call.scope.tenant, run)
        await self._end_event(writing, run)
        await self._audit(writing, run, action)

    async def _end_event(self, writing: Writing, run: Run) -> None:
        ended = run.ended_at or self._now
        data = {
            "source": run.source,
            "state": run.state,
            "duration_ms": ended - run.begun_at,
            "transcripts_processed": run.transcripts,
            "ingest_processed": run.documents,
            "entities_created": run.entities,
            "edges_created": run.edges,
            "errors": run.errors,
        }
        await self._report(writing, run, "run_end", data | ({"reason": run.reason} if run.reason else {}))

    async def _report(self, writing: Writing, run: Run, event: str, data: Mapping[str, Any]) -> None:
        caller = self._call.principal
        entry = RunEvent(run.id, event, self._now, caller.subject, caller.client, run.layers, data, "gateway")
        await self._events.append(writing, self._call.scope.tenant, entry)

    async def _audit(self, writing: Writing, run: Run, action: str) -> None:
        caller = self._call.principal
        await append_in(
            writing,
            tenant=caller.tenant,
            actor=caller.subject,
            action=action,
            target=run.id,
            layers=run.layers,
            detail={"kind": run.kind},
        )

    def _answer(self, run: Run, said: str, *, whole: bool = False) -> Json:
        shown = run_shown(run, self._call, self._now, whole=whole)
        return {"action": self._given.action, "run": shown, "next": said}


@dataclass(frozen=True, slots=True)
class _Moved:
    """Whether a report of progress is the first of its conversation in the run, and whether it says anything new."""

    first: bool
    anything: bool


def _last_event(before: Watermark | None, given: RunInput, *, behind: bool) -> str:
    if before is not None and (behind or given.last_event_id is None):
        return before.last_event_id
    return given.last_event_id or ""


def _further(before: Watermark | None, mark: Watermark) -> bool:
    """Whether the mark moved: the same report again, after an answer that got lost, counts nothing twice."""
    return before is None or (mark.through, mark.line_count, mark.last_event_id) != (
        before.through,
        before.line_count,
        before.last_event_id,
    )

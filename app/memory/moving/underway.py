"""Exports that go on after their calls: this process writes them, and who asks for one by its id waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final, Protocol

import structlog

from app.contract import Call, Json
from app.edge.errors import frames
from app.errors import CallError, Conflict, DatabaseUnavailable, NotFound, Overloaded, QuotaExceeded
from app.store.control.exporting import BEAT_SECONDS, ExportJob, ExportJobs
from app.store.session import ControlSession

__all__ = ["DONE", "RUNNING", "Again", "Exporting", "Writer"]

log = structlog.get_logger("graphkeep.exports")

DONE: Final = "done"
RUNNING: Final = "running"
_LEFT: Final = "left"

_MOST_HERE: Final = 8
"""Exports that go on in one process after their calls."""
_LONGEST_SECONDS: Final = 3600.0
_WAIT_SECONDS: Final = 20.0
"""How long a call waits for an export: it holds the tenant's slot for whole-graph calls meanwhile."""
_LOOK_SECONDS: Final = 0.5
_KINDS: Final = {each.reason: each for each in (DatabaseUnavailable, Overloaded, QuotaExceeded)}
_STOPPED: Final = "the gateway that wrote this export was stopped. Nothing was kept: begin again without export_id."


class Writer(Protocol):
    """An export that is being written."""

    @property
    def id(self) -> str:
        """Of the export as a job."""

    @property
    def turn(self) -> int:
        """How often it was taken up again."""

    @property
    def tenant(self) -> str:
        """The data id whose records it takes."""

    def so_far(self) -> Json:
        """What its caller is told meanwhile."""

    async def whole(self) -> Json:
        """Wait for its end; the answer."""

    async def pruned(self, answer: Json) -> Json:
        """Remove the oldest ones of the same person."""

    async def stop(self) -> None:
        """End it; nothing of it is left."""


Again = Callable[[str, ExportJob, int], Writer]
"""Begins an export anew, from its id, what is known of it and its turn."""


class Exporting:
    """The exports of this process that outlived their calls, and the record of those of every process."""

    def __init__(self, control: ControlSession) -> None:
        self.jobs = ExportJobs(control)
        self._carried: set[asyncio.Task[None]] = set()

    async def room(self, tenant: str) -> None:
        """Let an export begin that may outlive its call.

        Raises:
            Overloaded: the tenant, or this process, has as many under way as it may. CallError: the database does not
                answer.
        """
        self._room_here()
        await self.jobs.room(tenant)

    def take(self, writer: Writer) -> None:
        """Let an export that is noted as a job go on after its call."""
        task = asyncio.create_task(self._carry(writer))
        self._carried.add(task)
        task.add_done_callback(self._carried.discard)

    async def follow(self, call: Call, id_: str, again: Again) -> Mapping[str, Any]:
        """Wait for an export of the caller's own; its answer, or how far it is.

        One whose process is gone is taken up by this one: who asks may read all that it takes, at this moment.

        Raises:
            NotFound: the caller has none of this id, or may not read all of it. Conflict, Overloaded, QuotaExceeded,
                DatabaseUnavailable: it ended without a file, or cannot be taken up now.
        """
        until = call.deadline.sooner(_WAIT_SECONDS)
        while True:
            job = await self.jobs.find(id_, call.scope.tenant, call.scope.subject)
            if job is None or not _reads(call, job.layers):
                raise NotFound("you have no export of this id under way. Begin one without export_id.")
            if job.state == DONE:
                return job.answer
            if job.state == _LEFT:
                await self._take_up(call, id_, job, again)
            elif job.state != RUNNING:
                raise _KINDS.get(job.kind or "", Conflict)(job.reason or _STOPPED)
            if until.passed:
                return job.answer
            await call.progress(job.answer["records"], job.answer["node_count"] + job.answer["edge_count"])
            await asyncio.sleep(min(_LOOK_SECONDS, until.remaining()))

    async def close(self) -> None:
        """End those of this process; who asks for them has them taken up by another."""
        await asyncio.sleep(0)  # one that was taken this moment has not begun, and could not clean up
        for task in self._carried:
            task.cancel()
        await asyncio.gather(*self._carried, return_exceptions=True)

    def _room_here(self) -> None:
        if len(self._carried) >= _MOST_HERE:
            raise Overloaded(
                "this gateway writes as many exports as it may, and none was begun. Try again in some minutes.",
                retry_after_ms=60_000,
            )

    async def _take_up(self, call: Call, id_: str, job: ExportJob, again: Again) -> None:
        self._room_here()
        turn = await self.jobs.take(id_, call.scope.tenant)
        if turn is not None:
            self.take(again(id_, job, turn))

    async def _carry(self, writer: Writer) -> None:
        try:
            answer = await self._whole(writer)
            wanted = await _to_its_end(self.jobs.done(writer.id, writer.turn, writer.tenant, answer))
        except asyncio.CancelledError:
            await writer.stop()
            with contextlib.suppress(CallError):
                await self.jobs.leave(writer.id, writer.turn)
            raise
        except TimeoutError:
            await self._failed(writer, "", f"the export took longer than {_LONGEST_SECONDS:.0f} s. Nothing was kept.")
        except CallError as error:
            if error.outcome == "not_applied":
                await self._failed(writer, error.reason, error.message)
        except Exception as error:  # noqa: BLE001 - who waits for it must be told
            log.error("export_failed", error=type(error).__qualname__, frames=frames(error))
            await self._failed(writer, "", "the export failed by our fault; the log says how. Nothing was kept.")
        else:
            await self._ended(writer, answer, wanted=wanted)

    async def _whole(self, writer: Writer) -> Json:
        """Its answer, with a heartbeat until there is one: none may meet the job's end."""
        beating = asyncio.create_task(self._beat(writer))
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                return {**await writer.whole(), "export_id": writer.id}
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)

    async def _ended(self, writer: Writer, answer: Json, *, wanted: bool) -> None:
        """Remove the files that a whole one replaces, or itself when nobody wants it: one that was noted stays."""
        try:
            await (writer.pruned(answer) if wanted else writer.stop())
        except OSError as error:
            log.error("exports_not_pruned", error=type(error).__qualname__, frames=frames(error))

    async def _beat(self, writer: Writer) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(CallError):
                if not await self.jobs.beat(writer.id, writer.turn, writer.so_far()):
                    await writer.stop()  # another has taken it up, or all that is the tenant's was erased

    async def _failed(self, writer: Writer, kind: str, reason: str) -> None:
        await writer.stop()
        with contextlib.suppress(CallError):
            await self.jobs.failed(writer.id, writer.turn, kind, reason)


async def _to_its_end(noting: Coroutine[Any, Any, bool]) -> bool:
    """What it says, also for who is cut off meanwhile: it may be applied, and what is left to do follows from it."""
    task = asyncio.create_task(noting)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


def _reads(call: Call, layers: Collection[str]) -> bool:
    return set(layers) <= set(call.principal.readable())

"""``graph_export``: what the caller may read, as a file in the tenant's own folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.context import Deadline, Scope, TenantRules, layer_name
from app.contract import Call, Json
from app.errors import CallError, InternalError, Overloaded, QuotaExceeded
from app.memory.moving.exports import Exports, Unfinished
from app.memory.moving.schemas import ExportInput
from app.memory.moving.underway import DONE, RUNNING
from app.memory.service import MemoryService
from app.settings import LimitSettings
from app.store.control.embedding import decision
from app.store.control.exporting import ExportJob, begin_in, new_export_id
from app.store.control.queue import QueueStore
from app.store.database import ControlSession, Idempotency, TenantSession, Writing
from app.store.moving.dump import Dump
from app.store.moving.queries import COUNT_MERGED
from app.store.undo import moved_relations

__all__ = ["MOVED_MEANWHILE", "export", "moves_of", "vectors_made_by"]

MOVED_MEANWHILE: Final = (
    "entities were merged or taken apart while the file was written, so a relation could be missing in it. Nothing was "
    "kept: try again when no run merges."
)
_NO_ROOM: Final = "the export could not be written: the gateway's disk is full or not writable. Nothing was kept."
_PATIENCE: Final = 0.6
"""Part of the call's time after which the export goes on without it: what is left of a write's must do for the rest."""
_PAGE_SECONDS: Final = 120.0
"""For each page that is read."""

HandOff = Callable[[Json], Awaitable[None]]


async def export(service: MemoryService, call: Call, arguments: ExportInput) -> Mapping[str, Any]:
    """Write every record of the readable layers to a new file; once that is certain, remove the caller's oldest ones.

    What takes longer than a call may goes on after it: the answer has an ``export_id`` to ask for it with.

    Raises:
        Overloaded: the disk takes no more, relations moved meanwhile, or the tenant has as many exports under way as it
            may. QuotaExceeded: the tenant's files may not.
        CallError: what the store raises; no file is left then, unless the outcome is unknown.
    """
    if arguments.export_id is not None:
        return await service.exporting.follow(call, arguments.export_id, partial(_again, service, call))
    writer = _Export(service, call, arguments)
    try:
        answer = await _answer(service, call, writer, arguments.idempotency_key)
        if answer["status"] == DONE:
            return await writer.pruned(answer)
        if answer["export_id"] == writer.id:
            writer.taken = True
            service.exporting.take(writer)
            return answer
        await writer.stop()
        # an earlier call with the same key
        return await service.exporting.follow(call, answer["export_id"], partial(_again, service, call))
    finally:
        await writer.leave()


async def _answer(service: MemoryService, call: Call, writer: _Export, key: str | None) -> Json:
    scope = call.scope
    job: dict[str, Any] = {"tenant": scope.tenant, "subject": scope.subject, "layers": scope.layers}
    job["asked"] = writer.asked

    # The key is claimed first and its answer committed last: the same call again finds the first file.
    async def once(writing: Writing) -> Json:
        return await writer.run(lambda so_far: begin_in(writing.control(), writer.id, **job, answer=so_far))

    session = service.database.session(scope, deadline=call.deadline, request_id=call.request_id)
    try:
        if key is None:
            return await writer.run(lambda so_far: service.exporting.jobs.begin(writer.id, **job, answer=so_far))
        return await session.write(once, idempotency=Idempotency(key, call.tool, call.arguments_digest))
    except CallError as error:
        if error.outcome == "not_applied":
            await writer.stop()
        raise


def _again(service: MemoryService, call: Call, id_: str, job: ExportJob, turn: int) -> _Export:
    """An export of the caller's own that another process began, from its beginning."""
    whole = replace(call, scope=replace(call.scope, layers=tuple(sorted(job.layers))))
    writer = _Export(service, whole, ExportInput.model_validate(job.asked), id_, turn)
    writer.go_on()
    return writer


class _Export:
    """One export, written once however often its transaction is repeated."""

    def __init__(
        self, service: MemoryService, call: Call, arguments: ExportInput, id_: str | None = None, turn: int = 0
    ) -> None:
        self.id = id_ or new_export_id()
        self.turn = turn
        self.asked = arguments.model_dump(include={"keep", "label", "vectors"})
        self.tenant = call.scope.tenant
        self.taken = False
        self._service = service
        self._call = call
        self._arguments = arguments
        self._keep = _kept(arguments.keep, call.principal.rules, service.settings.limits)
        folder = service.settings.run.tenant_folder(self.tenant)
        self._exports = Exports(folder, call.scope.subject, call.principal.readable())
        self._until = call.deadline.sooner(call.deadline.remaining() * _PATIENCE)
        self._task: asyncio.Task[Json] | None = None
        self._called = True
        self._counted: Mapping[str, int] = {"nodes": 0, "edges": 0}
        self._dump: Dump | None = None
        self._written_file: str | None = None

    async def run(self, hand_off: HandOff) -> Json:
        """The answer; when time is up before there is one, ``hand_off`` notes a job and the answer is how far it is."""
        if self._task is None:
            await self._service.exporting.room(self.tenant)
            self._task = asyncio.create_task(self._whole())
        await asyncio.wait({self._task}, timeout=self._until.remaining())
        if self._task.done():
            return self._task.result()
        self._called = False
        so_far = self.so_far()
        await hand_off(so_far)
        return so_far

    def go_on(self) -> None:
        """Begin as a job that is noted already, after or without a call of its own."""
        self._called = False
        self._task = asyncio.create_task(self._whole())

    async def whole(self) -> Json:
        """Wait for its end; the answer."""
        if self._task is None:
            raise InternalError("an export was waited for that never began")
        return await self._task

    def so_far(self) -> Json:
        """What is told of one that is not whole yet."""
        seal = self._dump.seal if self._dump else None
        return {
            **self._figures(self._counted["nodes"], self._counted["edges"]),
            "status": RUNNING,
            "export_id": self.id,
            "size_bytes": seal.size if seal else 0,
            "records": seal.counts.nodes + seal.counts.aliases + seal.counts.edges if seal else 0,
        }

    async def pruned(self, answer: Json) -> Json:
        """Remove the oldest ones; the answer with what became of them. Of an earlier call's answer nothing changes."""
        own = self._written_file
        if own is None:
            return answer
        if answer["backup_file"] != own:  # the same call at once came first after all
            await self.stop()
            return answer
        pruned, retained = await asyncio.to_thread(self._exports.prune, self._keep, own)
        return {**answer, "pruned": pruned, "retained": retained}

    async def stop(self) -> None:
        """Nothing of this call was applied: leave no file of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._written_file is not None:
            await asyncio.to_thread(self._exports.discard, self._written_file)
            self._written_file = None

    async def leave(self) -> None:
        """The call is over: what is not whole ends, unless it was taken to go on."""
        if self._task is not None and not (self.taken or self._task.done()):
            await self.stop()

    async def _whole(self) -> Json:
        scope, vectors = self._call.scope, self._arguments.vectors
        embedding = await vectors_made_by(self._service.database.control) if vectors else None
        self._counted = (await self._opened(scope).read(COUNT_MERGED))[0]
        self._dump = dump = Dump(self._opened, self.tenant, scope.layers, vectors=vectors, embedding=embedding)
        room = await self._room()
        try:
            name = await self._write(dump, room)
            pruned, retained = await asyncio.to_thread(self._exports.beyond, self._keep, name)
        except OSError as error:
            raise Overloaded(_NO_ROOM) from error
        counts, merged = dump.seal.counts, self._counted if len(scope.layers) > 1 else None
        return {
            **self._figures(merged["nodes"] if merged else counts.nodes, merged["edges"] if merged else counts.edges),
            "backup_file": name,
            "size_bytes": dump.seal.size,
            "records": counts.nodes + counts.aliases + counts.edges,
            "pruned": pruned,
            "retained": retained,
            "sha256": dump.seal.file_sha256,
            "types": dict(sorted(dump.types.items())),
        }

    def _figures(self, nodes: int, edges: int) -> Json:
        """The answer of one that is whole, where nothing else is known of it."""
        return {
            "status": DONE,
            "export_id": None,
            "backup_file": None,
            "node_count": nodes,
            "edge_count": edges,
            "pruned": 0,
            "retained": 0,
            "sha256": None,
            "layers": [layer_name(layer) for layer in self._call.scope.layers],
            "vectors": self._arguments.vectors,
            "types": {},
        }

    async def _room(self, own: str | None = None) -> int:
        """Bytes that the tenant's files may still take, once what this export replaces is gone.

        ``own``: its file, where it stands under its name already and is one of them.

        Raises:
            QuotaExceeded: they are too many. CallError: the database does not answer.
        """
        limits = self._service.settings.ingest
        queued = await QueueStore(self._service.database.control).usage(self.tenant)
        keep = self._keep if own else self._keep - 1
        files, size = await asyncio.to_thread(self._exports.lasting, keep, own)
        if queued.files + files + (own is None) > limits.quota_files:
            raise _full("GRAPHKEEP_QUOTA_FILES", limits.quota_files, "files")
        return limits.quota_file_bytes - queued.size - size

    async def _write(self, dump: Dump, room: int) -> str:
        begun: list[Unfinished] = []
        try:
            await _to_its_end(lambda: begun.append(self._exports.begin(self._arguments.label)))
            await self._fill(begun[0], dump, room)
            await _to_its_end(begun[0].finish)
            if await self._room(begun[0].name) < 0:  # exports that were written meanwhile had the same room
                raise self._full_of_bytes()
        except BaseException:
            for unfinished in begun:
                self._exports.discard(unfinished.name)  # nobody else can have this name meanwhile
                unfinished.discard()
            raise
        self._written_file = begun[0].name
        return begun[0].name

    async def _fill(self, unfinished: Unfinished, dump: Dump, room: int) -> None:
        counted, counts = self._counted, dump.seal.counts
        total = counted["nodes"] + counted["edges"]
        moved = await moves_of(self._service.database.control, self.tenant, self._call.scope.layers)
        async for piece in dump.lines(counted):
            if dump.seal.size > room:
                raise self._full_of_bytes()
            await _to_its_end(partial(unfinished.write, piece))
            if self._called:
                await self._call.progress(min(total, counts.nodes + counts.edges), total)
        if await moved():
            raise Overloaded(MOVED_MEANWHILE)

    def _full_of_bytes(self) -> QuotaExceeded:
        limit = self._service.settings.ingest.quota_file_bytes
        return _full("GRAPHKEEP_QUOTA_FILE_BYTES", limit, "bytes of files")

    def _opened(self, scope: Scope) -> TenantSession:
        if not set(scope.layers) <= set(self._call.scope.layers):
            raise InternalError("an export asked for a layer that its caller may not read")
        request = self._call.request_id
        return self._service.database.session(scope, deadline=Deadline.after(_PAGE_SECONDS), request_id=request)


async def _to_its_end(step: Callable[[], None]) -> None:
    """Do it in a thread. Who is cut off waits until the thread is done, so as to clean up behind it."""
    doing = asyncio.ensure_future(asyncio.to_thread(step))
    try:
        await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.gather(doing, return_exceptions=True)
        raise


def _kept(asked: int | None, rules: TenantRules, limits: LimitSettings) -> int:
    """How many exports of one person stay: what the call says, within the tenant's own rule."""
    own = rules.exports_kept
    keep = asked or own or limits.exports_kept
    return keep if own is None else min(keep, own)


async def vectors_made_by(control: ControlSession) -> dict[str, Any] | None:
    """What made the vectors: {model, dimension, recipe}; None before a model was decided on."""
    made_by = await decision(control)
    return None if made_by is None else {key: getattr(made_by, key) for key in ("model", "dimension", "recipe")}


async def moves_of(control: ControlSession, data: str, layers: Iterable[str]) -> Callable[[], Awaitable[bool]]:
    """From now on: whether relations of these partitions were given other ends since now."""
    since, read = int(time.time() * 1000) - 60_000, tuple(layers)
    before = await moved_relations(control, data, read, since=since)

    async def moved() -> bool:
        return await moved_relations(control, data, read, since=since) != before

    return moved


def _full(setting: str, limit: int, what: str) -> QuotaExceeded:
    return QuotaExceeded(
        f"this tenant may have {limit} {what}, exports among them ({setting}), and nothing was kept. Keep fewer "
        "exports (`keep`), remove what is done with (graph_ingest cancel), or ask an operator for more."
    )

"""``graph_export``: what the caller may read, as a file in the tenant's own folder."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from app.context import Scope, layer_name
from app.contract import Call, Json
from app.errors import CallError, InternalError, Overloaded, QuotaExceeded
from app.memory.moving.exports import Exports, Unfinished
from app.memory.moving.schemas import ExportInput
from app.memory.service import MemoryService
from app.store.control.queue import QueueStore
from app.store.database import ControlSession, Idempotency, TenantSession, Writing
from app.store.moving.dump import Dump
from app.store.moving.queries import COUNT_MERGED
from app.store.undo import moved_relations

__all__ = ["MOVED_MEANWHILE", "export", "moves_of"]

MOVED_MEANWHILE: Final = (
    "entities were merged or taken apart while the file was written, so a relation could be missing in it. Nothing was "
    "kept: try again when no run merges."
)
_NO_ROOM: Final = "the export could not be written: the gateway's disk is full or not writable. Nothing was kept."


async def export(service: MemoryService, call: Call, arguments: ExportInput) -> Mapping[str, Any]:
    """Write every record of the readable layers to a new file; once that is certain, remove the caller's oldest ones.

    Raises:
        Overloaded: the disk takes no more, or relations moved meanwhile. QuotaExceeded: the tenant's files may not.
        CallError: what the store raises; no file is left then, unless the outcome is unknown.
    """
    scope = call.scope
    session = service.database.session(scope, deadline=call.deadline, request_id=call.request_id)
    exports = Exports(service.settings.run.tenant_folder(scope.tenant), scope.subject, call.principal.readable())
    writer = _Export(service, call, exports, arguments)
    if arguments.idempotency_key is None:
        return await writer.pruned(await writer.run(session))
    idempotency = Idempotency(arguments.idempotency_key, call.tool, call.arguments_digest)

    async def once(_: Writing) -> Json:
        return await writer.run(session)

    # The key is claimed first and its answer committed last: the same call again finds the first file.
    try:
        answer = await session.write(once, idempotency=idempotency)
    except CallError as error:
        if error.outcome == "not_applied":
            await writer.discard()
        raise
    return await writer.pruned(answer)


class _Export:
    """One export, written once however often its transaction is repeated."""

    def __init__(self, service: MemoryService, call: Call, exports: Exports, arguments: ExportInput) -> None:
        self._service = service
        self._call = call
        self._exports = exports
        self._arguments = arguments
        self._answer: Json | None = None

    async def run(self, session: TenantSession) -> Json:
        """Count and write; the answer, with what there will be to prune."""
        if self._answer is None:
            self._answer = await self._whole(session)
        return self._answer

    async def pruned(self, answer: Json) -> Json:
        """Remove the oldest ones; the answer with what became of them. Of an earlier call's answer nothing changes."""
        if self._answer is None:
            return answer
        if answer["backup_file"] != self._answer["backup_file"]:  # the same call at once came first after all
            await self.discard()
            return answer
        pruned, retained = await asyncio.to_thread(
            self._exports.prune, self._arguments.keep, self._answer["backup_file"]
        )
        return {**answer, "pruned": pruned, "retained": retained}

    async def discard(self) -> None:
        """Nothing of this call was applied: leave no file of it."""
        if self._answer is not None:
            await asyncio.to_thread(self._exports.discard, self._answer["backup_file"])

    async def _whole(self, session: TenantSession) -> Json:
        layers = session.scope.layers
        counted = (await session.read(COUNT_MERGED))[0]
        dump = Dump(self._opened, session.scope.tenant, layers)
        room = await self._room(session.scope.tenant)
        try:
            name = await self._written(dump, counted, room)
            pruned, retained = await asyncio.to_thread(self._exports.beyond, self._arguments.keep, name)
        except OSError as error:
            raise Overloaded(_NO_ROOM) from error
        seal = dump.seal
        return {
            "backup_file": name,
            "node_count": counted["nodes"] if len(layers) > 1 else seal.counts.nodes,
            "edge_count": counted["edges"] if len(layers) > 1 else seal.counts.edges,
            "size_bytes": seal.size,
            "pruned": pruned,
            "retained": retained,
            "sha256": seal.file_sha256,
            "layers": [layer_name(layer) for layer in layers],
            "types": dict(sorted(dump.types.items())),
        }

    async def _room(self, tenant: str) -> int:
        """Bytes that the tenant's files may still take, once what this export replaces is gone."""
        limits = self._service.settings.ingest
        queued = await QueueStore(self._service.database.control).usage(tenant)
        files, size = await asyncio.to_thread(self._exports.lasting, self._arguments.keep - 1)
        if queued.files + files >= limits.quota_files:
            raise _full("GRAPHKEEP_QUOTA_FILES", limits.quota_files, "files")
        return limits.quota_file_bytes - queued.size - size

    async def _written(self, dump: Dump, counted: Mapping[str, int], room: int) -> str:
        unfinished: Unfinished = await asyncio.to_thread(self._exports.begin, self._arguments.label)
        total = counted["nodes"] + counted["edges"]
        moved = await moves_of(self._service.database.control, self._call.scope.tenant, self._call.scope.layers)
        try:
            async for piece in dump.lines(counted):
                if dump.seal.size > room:
                    limit = self._service.settings.ingest.quota_file_bytes
                    raise _full("GRAPHKEEP_QUOTA_FILE_BYTES", limit, "bytes of files")
                await asyncio.to_thread(unfinished.write, piece)
                done = min(total, dump.seal.counts.nodes + dump.seal.counts.edges)
                await self._call.progress(done, total)
            if await moved():
                raise Overloaded(MOVED_MEANWHILE)
            await asyncio.to_thread(unfinished.finish)
        except BaseException:
            unfinished.discard()
            raise
        return unfinished.name

    def _opened(self, scope: Scope) -> TenantSession:
        if not set(scope.layers) <= set(self._call.scope.layers):
            raise InternalError("an export asked for a layer that its caller may not read")
        return self._service.database.session(scope, deadline=self._call.deadline, request_id=self._call.request_id)


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

"""``graph_export``: what the caller may read, as a file in the tenant's own folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from app.context import Scope, layer_name
from app.contract import Call, Json
from app.errors import InternalError, Overloaded
from app.memory.moving.exports import Exports, Unfinished
from app.memory.moving.schemas import ExportInput
from app.memory.service import MemoryService
from app.store.database import Idempotency, TenantSession, Writing
from app.store.moving.dump import Dump
from app.store.moving.queries import COUNT_MERGED

__all__ = ["export"]

_NO_ROOM: Final = "the export could not be written: the gateway's disk is full or not writable. Nothing was kept."


async def export(service: MemoryService, call: Call, arguments: ExportInput) -> Mapping[str, Any]:
    """Write every record of the readable layers to a new file; then remove the caller's oldest ones.

    Raises:
        Overloaded: the disk takes no more.
        CallError: what the store raises; no file is left then.
    """
    scope = call.scope
    session = service.database.session(scope, deadline=call.deadline, request_id=call.request_id)
    exports = Exports(service.settings.run.tenant_folder(scope.tenant), scope.subject, call.principal.readable())
    writer = _Export(service, call, exports, arguments)
    if arguments.idempotency_key is None:
        return await writer.run(session)
    idempotency = Idempotency(arguments.idempotency_key, call.tool, call.arguments_digest)

    async def once(_: Writing) -> Json:
        return await writer.run(session)

    # The key is claimed first and its answer committed last: the same call again finds the first file.
    return await session.write(once, idempotency=idempotency)


class _Export:
    """One export; what an attempt before left is removed."""

    def __init__(self, service: MemoryService, call: Call, exports: Exports, arguments: ExportInput) -> None:
        self._service = service
        self._call = call
        self._exports = exports
        self._arguments = arguments

    async def run(self, session: TenantSession) -> Json:
        """Count, write, prune; the answer."""
        layers = session.scope.layers
        counted = (await session.read(COUNT_MERGED))[0]
        dump = Dump(self._opened, session.scope.tenant, layers)
        try:
            name = await self._written(dump, counted)
            pruned, retained = await asyncio.to_thread(self._exports.prune, self._arguments.keep, name)
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

    async def _written(self, dump: Dump, counted: Mapping[str, int]) -> str:
        unfinished: Unfinished = await asyncio.to_thread(self._exports.begin, self._arguments.label)
        total = counted["nodes"] + counted["edges"]
        try:
            async for piece in dump.lines(counted):
                await asyncio.to_thread(unfinished.write, piece)
                done = min(total, dump.seal.counts.nodes + dump.seal.counts.edges)
                await self._call.progress(done, total)
            await asyncio.to_thread(unfinished.finish)
        except BaseException:
            unfinished.discard()
            raise
        return unfinished.name

    def _opened(self, scope: Scope) -> TenantSession:
        if not set(scope.layers) <= set(self._call.scope.layers):
            raise InternalError("an export asked for a layer that its caller may not read")
        return self._service.database.session(scope, deadline=self._call.deadline, request_id=self._call.request_id)

"""The ingest toolset's service: one object for its tools, its upload routes and the work beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from app.access.layers import require_operator
from app.contract import Call, Json
from app.errors import InvalidInput
from app.fetching.addresses import Resolve, Unfetchable
from app.ingest.actions import Actions
from app.ingest.fetching import Fetching, kept_address, plain_address
from app.ingest.files import Files, TooLargeFile, allowed_file
from app.ingest.intake import Incoming, Intake
from app.ingest.meta import Meta
from app.ingest.names import INLINE, file_type
from app.ingest.reach import sender
from app.ingest.reading import Reading
from app.ingest.schemas import INLINE_BYTES, IngestInput, TranscriptInput
from app.ingest.worker import Worker
from app.settings import Settings
from app.store.control.queue import QueueStore
from app.store.database import Database
from app.store.idempotency import Idempotency

__all__ = ["IngestService"]

CHUNK: Final = 256 * 1024


class IngestService:
    """Everything that takes in what people send, for all tenants. ``resolve``: as :class:`Fetching` has it."""

    def __init__(self, database: Database, settings: Settings, *, resolve: Resolve | None = None) -> None:
        self.settings = settings.ingest
        self._memory = settings.memory
        self.files = Files(settings.run.folder, limit=settings.ingest.ingest_file_bytes)
        self.store = QueueStore(database.control)
        self.worker = Worker(self.files, self.store, settings.ingest)
        arrived = self.worker.arrived
        self.intake = Intake(self.files, self.store, settings.ingest, arrived=arrived)
        self._fetching = Fetching(self.files, settings.ingest, room=self.intake.room, resolve=resolve)
        self._actions = Actions(self.files, self.store, settings.ingest, arrived=arrived)
        self._reading = Reading(self.files, self.store, characters=settings.limits.result_characters)

    async def ingest(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """``graph_ingest``."""
        actions = {
            "queue": self._queue,
            "status": self._actions.status,
            "read": self._reading.document,
            "claim": self._actions.claim,
            "complete": self._actions.complete,
            "fail": self._actions.fail,
            "retry": self._actions.retry,
            "cancel": self._actions.cancel,
        }
        return await actions[arguments.action](call, arguments)

    async def read_transcript(self, call: Call, arguments: TranscriptInput) -> Mapping[str, Any]:
        """``graph_read_transcript``."""
        own = self._memory.overlaid(call.principal.rules.behaviour or ())
        return await self._reading.transcript(call, arguments.completed(limit=own.transcript_page))

    async def _queue(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        if [arguments.file_path, arguments.content, arguments.url].count(None) != 2:
            raise InvalidInput(
                "queue takes exactly one of content (with file_name), url and file_path. Nothing was stored.",
                field="content",
            )
        key = arguments.idempotency_key
        idempotency = None if key is None else Idempotency(key, call.tool, call.arguments_digest)
        meta = arguments.meta or Meta()
        if arguments.url is not None and (before := await self.intake.before(call.scope, idempotency)) is not None:
            return _queued(before[0])
        await self.intake.room(call.scope.tenant)
        if arguments.file_path is not None:
            incoming = await self._from_path(call, arguments.file_path, meta)
        elif arguments.url is not None:
            incoming = await self._fetched(call, arguments.url, arguments.file_name, meta)
        else:
            incoming = await self._inline(call, arguments, meta)
        own = sender(call.principal)
        item = (await self.intake.accept(call.scope, [incoming], sender=own, idempotency=idempotency))[0]
        return _queued(item)

    async def _inline(self, call: Call, arguments: IngestInput, meta: Meta) -> Incoming:
        name = arguments.file_name
        if name is None or not name.lower().endswith(INLINE):
            raise InvalidInput(
                f"content needs a file_name that ends in {', '.join(INLINE)}; other files come by PUT /ingest/{{name}}."
                " Nothing was stored.",
                field="file_name",
            )
        file_type(name)
        body = (arguments.content or "").encode("utf-8", "replace")
        if len(body) > INLINE_BYTES:
            raise InvalidInput(
                "content has 2 MB at most; send a larger file by PUT /ingest/{name}. Nothing was stored.",
                field="content",
            )
        staged = await asyncio.to_thread(self.files.stage, call.scope.tenant)
        await staged.write(body)
        return Incoming(name, staged, meta)

    async def _fetched(self, call: Call, url: str, name: str | None, meta: Meta) -> Incoming:
        self._fetching.require_allowed()
        if meta.source is not None:
            raise InvalidInput("with url, meta.source is the url; leave it out. Nothing was stored.", field="meta")
        if name is not None:
            file_type(name)
        try:
            address = plain_address(url)
        except Unfetchable as error:
            raise InvalidInput(f"the document {error.reason}. Nothing was stored.", field="url") from None
        called, staged = await self._fetching.fetch(call.scope.tenant, address, name=name, deadline=call.deadline)
        return Incoming(called, staged, meta.model_copy(update={"source": kept_address(address)}))

    async def _from_path(self, call: Call, given: str, meta: Meta) -> Incoming:
        require_operator(call.principal, "file_path", "Use content with file_name, or PUT /ingest/{name}.")
        path = await asyncio.to_thread(allowed_file, given, self.settings.ingest_directories)
        file_type(path.name)
        staged = await asyncio.to_thread(self.files.stage, call.scope.tenant)
        try:
            await asyncio.to_thread(_size, path, self.files.limit)
            with path.open("rb") as file:
                while chunk := await asyncio.to_thread(file.read, CHUNK):
                    await staged.write(chunk)
        except BaseException:
            staged.discard()
            raise
        return Incoming(path.name, staged, meta)


def _queued(item: Json) -> Json:
    return {"action": "queued", "destination": f"pending/{item['file']}", **item}


def _size(path: Path, limit: int) -> None:
    if path.stat().st_size > limit:
        raise TooLargeFile(limit)

"""Resumable uploads: tus 1.0 core with creation and termination (tus.io/protocols/resumable-upload).

What has arrived lies in the tenant's ``parts`` folder, beside it what the upload is about; any replica on the same disk
goes on with it. An upload belongs to the person who began it. ``continues`` in its metadata names (by SHA-256) the file
of the same name that is here already and that it goes on: only the rest is sent then. One's own file is looked at
before those of others.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from app.access.layers import scope_for
from app.context import Principal, layer_name
from app.context import Scope as Partition
from app.edge.answers import problem
from app.edge.context import context_of
from app.errors import Conflict, InternalError, InvalidInput, NotFound
from app.ingest.files import Arrived, TooLargeFile, TooLargeTranscript, held
from app.ingest.intake import Incoming
from app.ingest.meta import Meta
from app.ingest.names import Way, file_type
from app.ingest.reach import sender, still_sending
from app.ingest.service import IngestService
from app.ingest.threads import in_thread

__all__ = ["Tus"]

VERSION: Final = "1.0.0"
OPEN: Final = 10
"""Uploads of one person that may be under way; a further one ends the one that was fed least lately."""
BUFFER: Final = 512 * 1024
_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class _Upload:
    """What an upload is about."""

    id: str
    subject: str
    layer: str
    name: str
    length: int
    sha256: str | None
    meta: str


@dataclass(frozen=True, slots=True)
class _Begun:
    """An upload under way."""

    id: str
    subject: str
    length: int
    fed_at: float


class Tus:
    """The routes."""

    def __init__(self, service: IngestService) -> None:
        self._service = service

    async def collection(self, request: Request) -> Response:
        """What is served here, or a new upload."""
        if request.method == "OPTIONS":
            return self._options()
        if (refused := _version(request)) is not None:
            return refused
        length = _number(request, "upload-length")
        said = _metadata(request.headers.get("upload-metadata", ""))
        layer = said.pop("layer", None)
        scope = scope_for(_principal(request), None if layer is None else [layer], writes=True)
        name = said.pop("filename", "")
        transcript = file_type(name).way is Way.TRANSCRIPT
        limit = self._largest(transcript)
        if length > limit:
            raise TooLargeTranscript(limit) if transcript else TooLargeFile(limit)
        continues, sha256 = said.pop("continues", None), said.pop("sha256", None)
        upload = _Upload(
            secrets.token_hex(16), scope.subject, scope.write_layer or "", name, length, sha256, _meta(said)
        )
        offset = await self._begin(scope, upload, continues, sender(_principal(request)))
        headers = {"location": f"/ingest/uploads/{upload.id}", "upload-offset": str(offset)}
        return Response(status_code=201, headers=_tus(headers))

    async def one(self, request: Request) -> Response:
        """How far an upload is, more of it, or its end."""
        if request.method == "OPTIONS":
            return self._options()
        if (refused := _version(request)) is not None:
            return refused
        principal = _principal(request)
        upload = await asyncio.to_thread(self._load, principal, request.path_params["upload"])
        scope = scope_for(principal, [layer_name(upload.layer)], writes=True)
        path = self._bytes(principal.data, upload.id)
        if request.method == "DELETE":
            await asyncio.to_thread(self._remove, principal.data, upload.id)
            return Response(status_code=204, headers=_tus())
        if request.method == "PATCH":
            return await self._patch(request, scope, upload, path)
        try:
            size = (await asyncio.to_thread(path.stat)).st_size
        except FileNotFoundError:  # it was finished or ended meanwhile
            raise _unknown() from None
        return Response(
            headers=_tus({"upload-offset": str(size), "upload-length": str(upload.length), "cache-control": "no-store"})
        )

    async def _begin(self, scope: Partition, upload: _Upload, continues: str | None, own: str | None) -> int:
        await self._service.intake.room(scope.tenant, upload.length)
        await asyncio.to_thread(self._create, scope.tenant, upload)
        try:
            await self._room_among(scope.tenant, upload)
        except BaseException:
            await asyncio.to_thread(self._remove, scope.tenant, upload.id)
            raise
        if continues is not None:
            asked: dict[str, Any] = {"first": upload.subject, "sender": own}
            item = await self._service.store.newest(scope.tenant, [upload.layer], upload.name, **asked)
            if item is not None and item.sha256 == continues.lower() and item.size <= upload.length:
                old = self._service.files.original(scope.tenant, item.id)
                return await in_thread(_copied, old, self._bytes(scope.tenant, upload.id))
        return 0

    async def _room_among(self, tenant: str, upload: _Upload) -> None:
        """Let an upload stay beside the others that are under way, and end those of its person that are too many.

        It is one of them already: of several that begin at once, each is seen by those that look after it.

        Raises:
            QuotaExceeded: all that was announced would be more than the tenant may hold; nothing was ended.
        """
        begun = await asyncio.to_thread(_begun, self._service.files.parts(tenant))
        mine = sorted((each for each in begun if each.subject == upload.subject), key=lambda each: each.fed_at)
        ended = mine[:-OPEN]
        await self._service.intake.room(tenant, sum(each.length for each in begun if each not in ended))
        for each in ended:
            await asyncio.to_thread(self._remove, tenant, each.id)

    def _create(self, tenant: str, upload: _Upload) -> None:
        path = self._bytes(tenant, upload.id)
        try:
            path.touch(0o600)
            about = path.with_suffix(".json")
            about.touch(0o600)
            about.write_bytes(orjson.dumps(asdict(upload)))
        except FileNotFoundError:
            raise _unknown() from None

    async def _patch(self, request: Request, scope: Partition, upload: _Upload, path: Path) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/offset+octet-stream":
            message = "PATCH takes application/offset+octet-stream; nothing was stored."
            return problem(request.scope, 415, "unsupported_media_type", message, headers=_tus())
        offset = _number(request, "upload-offset")
        try:
            with held(path) as descriptor:
                if descriptor is None:
                    message = "this upload is being written to by another request; nothing was stored."
                    return problem(request.scope, 423, "locked", message, headers=_tus(), retryable=True)
                size = os.fstat(descriptor).st_size
                if offset != size:
                    raise Conflict(f"this upload is at byte {size}, not {offset}; ask with HEAD. Nothing was stored.")
                size = await _appended(request, descriptor, size, upload.length)
                os.utime(path.with_suffix(".json"))  # it is kept for some days from now on
                item = await self._finished(request, scope, upload, path) if size == upload.length else None
        except FileNotFoundError:
            raise _unknown() from None
        headers = {"upload-offset": str(size)}
        if item is not None:
            headers |= {"graphkeep-item": item["id"], "graphkeep-state": item["state"]}
        return Response(status_code=204, headers=_tus(headers))

    async def _finished(self, request: Request, scope: Partition, upload: _Upload, path: Path) -> dict[str, Any]:
        digest = await in_thread(_hash, path)
        meta = Meta.model_validate_json(upload.meta)
        incoming = Incoming(upload.name, Arrived(path, upload.length, digest), meta, upload.sha256)
        try:
            standing = still_sending(context_of(request.scope), upload.layer)
            own = sender(_principal(request))
            item = (await self._service.intake.accept(scope, [incoming], sender=own, standing=standing))[0]
        except InvalidInput:
            await asyncio.to_thread(self._remove, scope.tenant, upload.id)
            raise
        await asyncio.to_thread(self._remove, scope.tenant, upload.id)
        return item

    def _bytes(self, tenant: str, upload: str) -> Path:
        return self._service.files.parts(tenant) / f"{upload}.bin"

    def _load(self, principal: Principal, upload: str) -> _Upload:
        if _ID.match(upload):
            try:
                found = _Upload(**orjson.loads(self._bytes(principal.data, upload).with_suffix(".json").read_bytes()))
            except (FileNotFoundError, ValueError, TypeError):
                raise _unknown() from None
            if found.subject == principal.subject:
                return found
        raise _unknown()

    def _remove(self, tenant: str, upload: str) -> None:
        path = self._bytes(tenant, upload)
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)

    def _largest(self, transcript: bool) -> int:
        """Bytes of a file; a transcript is read line by line and may be longer."""
        limit = self._service.files.limit
        return max(limit, self._service.settings.ingest_transcript_bytes) if transcript else limit

    def _options(self) -> Response:
        served = {
            "tus-version": VERSION,
            "tus-extension": "creation,termination",
            "tus-max-size": str(self._largest(True)),
        }
        return Response(status_code=204, headers=_tus(served))


async def _appended(request: Request, descriptor: int, size: int, length: int) -> int:
    """Write what comes behind byte ``size``; what has come stays, even if the client goes away."""
    buffer = bytearray()
    try:
        async for chunk in request.stream():
            if size + len(buffer) + len(chunk) > length:
                raise InvalidInput(f"more bytes came than Upload-Length ({length}) says; ask with HEAD and go on.")
            buffer += chunk
            if len(buffer) >= BUFFER:
                size += await asyncio.to_thread(_write, descriptor, bytes(buffer))
                buffer.clear()
    except ClientDisconnect:
        pass
    finally:
        if buffer:
            size += _write(descriptor, bytes(buffer))
    await asyncio.to_thread(os.fsync, descriptor)
    return size


def _write(descriptor: int, content: bytes) -> int:
    """Write all of it; how much that was. A disk that is almost full takes a part, and then says so."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    return len(content)


def _copied(old: Path, path: Path) -> int:
    """Let an upload begin with what is here of its file; the bytes that it has then. Blocks: for a thread."""
    try:
        with old.open("rb") as here, path.open("r+b") as begun:  # never made anew: it may have been ended meanwhile
            shutil.copyfileobj(here, begun, BUFFER)
            return begun.tell()
    except FileNotFoundError:
        return 0


def _begun(parts: Path) -> list[_Begun]:
    """The uploads under way."""
    found = []
    for about in parts.glob("*.json"):
        try:
            upload = _Upload(**orjson.loads(about.read_bytes()))
            found.append(_Begun(upload.id, upload.subject, int(upload.length), about.stat().st_mtime))
        except (OSError, ValueError, TypeError):
            continue
    return found


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _metadata(header: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, (pair.strip() for pair in header.split(","))):
        key, _, value = pair.partition(" ")
        try:
            found[key] = base64.b64decode(value.strip(), validate=True).decode()
        except (ValueError, binascii.Error):
            raise InvalidInput("Upload-Metadata is not of the form `key base64,...`. Nothing was stored.") from None
    return found


def _meta(said: Mapping[str, str]) -> str:
    """What a sender says of the file beside its name; what tus clients add of their own is passed over."""
    try:
        given = orjson.loads(said["meta"]) if "meta" in said else {}
        return Meta.model_validate(given).model_dump_json(exclude_none=True)
    except ValueError:
        raise InvalidInput("the metadata `meta` is no JSON object with what may be said of a file.") from None


def _number(request: Request, header: str) -> int:
    value = request.headers.get(header, "")
    if not (value.isascii() and value.isdigit()) or len(value) > 15:
        raise InvalidInput(f"{header} is required and is a number of bytes. Nothing was stored.")
    return int(value)


def _version(request: Request) -> Response | None:
    if request.headers.get("tus-resumable") == VERSION:
        return None
    message = f"this is tus {VERSION}; send the header Tus-Resumable. Nothing was stored."
    return problem(request.scope, 412, "tus_version", message, headers=_tus({"tus-version": VERSION}))


def _tus(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"tus-resumable": VERSION, **(more or {})}


def _principal(request: Request) -> Principal:
    principal = context_of(request.scope).principal
    if principal is None:
        raise InternalError("an upload reached its route without a principal")
    return principal


def _unknown() -> NotFound:
    return NotFound("there is no such upload, or it was ended; begin a new one.")

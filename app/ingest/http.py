"""Uploads over HTTP: ``PUT /ingest/{name}``, ``POST /ingest`` (multipart), and tus below ``/ingest/uploads``.

Whoever comes here was identified and let pass by the stages before, as for a tool's call. Refusals are raised and
written by the edge: HTTP statuses with ``{ok: false, reason, message, ...}``.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator
from typing import Any, Final

import orjson
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.layers import refuse_unreachable, scope_for
from app.context import Principal
from app.context import Scope as Partition
from app.contract import Tool
from app.edge.answers import json_answer
from app.edge.context import context_of, with_context
from app.errors import CallError, InternalError, InvalidInput, NotFound
from app.ingest import showing
from app.ingest.files import TooLargeFile
from app.ingest.intake import Incoming
from app.ingest.meta import Meta
from app.ingest.multipart import Multipart
from app.ingest.names import file_type
from app.ingest.reach import sender, still_sending
from app.ingest.service import IngestService
from app.ingest.tus import Tus

__all__ = ["PREFIX", "UploadTool", "raised", "routes"]

PREFIX: Final = "/ingest"
FILES: Final = 20
"""Files of one multipart request."""


class UploadTool:
    """Tells the stages behind which tool's rules an upload is under."""

    def __init__(self, app: ASGIApp, tool: Tool) -> None:
        self.app = app
        self._tool = tool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, unless the role can never upload.

        Raises:
            Forbidden: it cannot.
        """
        context = context_of(scope)
        if context.principal is not None:
            refuse_unreachable(self._tool, context.principal)
        await self.app(with_context(scope, context.calling(self._tool.name)), receive, send)


def raised(scope: Scope, error: CallError, tool: Tool | None = None) -> ASGIApp:
    """A refusal that the edge writes."""

    async def refused(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    return refused


def routes(service: IngestService) -> list[Route]:
    """The upload routes."""
    uploads = Uploads(service)
    tus = Tus(service)
    return [
        Route(f"{PREFIX}/uploads", tus.collection, methods=["POST", "OPTIONS"]),
        Route(f"{PREFIX}/uploads/{{upload}}", tus.one, methods=["HEAD", "PATCH", "DELETE", "OPTIONS"]),
        Route(f"{PREFIX}/{{name}}", uploads.named, methods=["PUT", "GET"]),
        Route(PREFIX, uploads.several, methods=["POST"]),
    ]


class Uploads:
    """Files that come in one request."""

    def __init__(self, service: IngestService) -> None:
        self._service = service

    async def named(self, request: Request) -> Response:
        """One file, or what is known of the newest of that name, the caller's own before those of others."""
        scope = _partition(request)
        if request.method == "GET":
            return await self._known(scope, _principal(request), request.path_params["name"])
        meta = _meta(request)
        name = request.path_params["name"]
        file_type(name)
        checksum = _checksum(request.headers)
        await self._service.intake.room(scope.tenant, _declared(request.headers, self._service.files.limit))
        staged = await asyncio.to_thread(self._service.files.stage, scope.tenant)
        try:
            async for chunk in _chunks(request):
                await staged.write(chunk)
        except BaseException:
            staged.discard()
            raise
        incoming = Incoming(name, staged, meta, checksum)
        return _answer(await self._accepted(request, scope, [incoming]), single=True)

    async def several(self, request: Request) -> Response:
        """The files of a form, all or none; its fields ``layer`` and ``meta`` (JSON) come first."""
        scope = _partition(request)
        await self._service.intake.room(scope.tenant)
        form = Multipart(request.headers.get("content-type", ""), files=FILES)
        async with form.into(lambda: self._service.files.stage(scope.tenant)):
            async for chunk in _chunks(request):
                await form.feed(chunk)
            form.end()
            meta = _meta_of_json(form.fields.get("meta", "{}"))
            if "layer" in form.fields:
                scope = scope_for(_principal(request), [form.fields["layer"]], writes=True)
            if not form.files:
                raise InvalidInput("the form has no file: send parts with a filename. Nothing was stored.")
            incoming = [Incoming(name, staged, meta) for name, staged in form.files]
            return _answer(await self._accepted(request, scope, incoming), single=False)

    async def _accepted(self, request: Request, scope: Partition, incoming: list[Incoming]) -> list[dict[str, Any]]:
        standing = still_sending(context_of(request.scope), scope.write_layer or "")
        own = sender(_principal(request))
        return await self._service.intake.accept(scope, incoming, sender=own, standing=standing)

    async def _known(self, scope: Partition, principal: Principal, name: str) -> Response:
        layers = [scope.write_layer or ""]
        asked: dict[str, Any] = {"first": scope.subject, "sender": sender(principal), "cancelled": True}
        item = await self._service.store.newest(scope.tenant, layers, name, **asked)
        if item is None:
            raise NotFound("no file of this name is here.")
        return json_answer(
            200,
            {
                "ok": True,
                **showing.queued(item),
                "sha256": item.sha256,
                "size_bytes": item.size,
                "last_at": None if item.last_at is None else showing.moment(item.last_at),
            },
        )


def _answer(items: list[dict[str, Any]], *, single: bool) -> Response:
    status = 201 if any(item["created"] for item in items) else 200
    return json_answer(status, {"ok": True, **items[0]} if single else {"ok": True, "items": items})


def _principal(request: Request) -> Principal:
    principal = context_of(request.scope).principal
    if principal is None:
        raise InternalError("an upload reached its route without a principal")
    return principal


def _partition(request: Request) -> Partition:
    """Where an upload goes: the grant's own layer, or ``?layer=``."""
    layer = request.query_params.get("layer")
    return scope_for(_principal(request), None if layer is None else [layer], writes=True)


def _meta(request: Request) -> Meta:
    given: dict[str, Any] = {key: value for key, value in request.query_params.items() if key != "layer"}
    if "topic_hints" in given:
        given["topic_hints"] = request.query_params.getlist("topic_hints")
    return _meta_of(given)


def _meta_of_json(text: str) -> Meta:
    try:
        given = orjson.loads(text)
    except ValueError:
        raise InvalidInput("meta is no JSON object. Nothing was stored.", field="meta") from None
    return _meta_of(given)


def _meta_of(given: Any) -> Meta:
    try:
        return Meta.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "meta"
        raise InvalidInput(
            f"{where}: {first['msg']}. What may be said of a file: {', '.join(Meta.model_fields)}. Nothing was stored.",
            field="meta",
        ) from None


def _declared(headers: Headers, limit: int) -> int:
    declared = headers.get("content-length", "0")
    size = int(declared) if declared.isascii() and declared.isdigit() else 0
    if size > limit:
        raise TooLargeFile(limit)
    return size


def _checksum(headers: Headers) -> str | None:
    """The SHA-256 that the sender names, hexadecimal (RFC 9530, or ``X-Content-SHA256``).

    Raises:
        InvalidInput: it cannot be read.
    """
    plain = headers.get("x-content-sha256")
    if plain is not None:
        return plain.strip()
    for name in ("repr-digest", "content-digest"):
        for part in headers.get(name, "").split(","):
            algorithm, _, value = part.strip().partition("=")
            if algorithm.lower() != "sha-256":
                continue
            try:
                return base64.b64decode(value.strip().strip(":"), validate=True).hex()
            except (ValueError, binascii.Error):
                raise InvalidInput(f"{name} is not of the form sha-256=:base64:. Nothing was stored.") from None
    return None


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    async for chunk in request.stream():
        if chunk:
            yield chunk

"""``GET /exports`` and ``GET /exports/{name}``: a caller's own export files, to keep elsewhere."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.responses import FileResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.layers import scope_for
from app.context import Principal
from app.edge.answers import json_answer, problem
from app.edge.context import context_of
from app.errors import InternalError
from app.memory.moving.exports import Exports
from app.memory.service import MemoryService

__all__ = ["EXPORTS", "ExportFiles"]

EXPORTS: Final = "/exports"
_TYPE: Final = "application/x-ndjson"


class ExportFiles:
    """Streams one file, or lists all; what others made, or holds layers that were not granted, does not exist."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one GET."""
        await (await self._answer(scope))(scope, receive, send)

    async def _answer(self, scope: Scope) -> ASGIApp:
        if scope["method"] not in {"GET", "HEAD"}:
            message = "This address takes GET only; graph_export makes exports."
            return problem(scope, 405, "method_not_allowed", message, headers={"allow": "GET, HEAD"})
        principal = context_of(scope).principal
        if principal is None:
            raise InternalError("a request came past the stages that let it in")
        exports, name = self._exports(principal), scope["path"].removeprefix(EXPORTS).strip("/")
        if not name:
            return json_answer(200, {"ok": True, "exports": await asyncio.to_thread(exports.listed)})
        path = await asyncio.to_thread(exports.find, name)
        if path is None:
            return problem(
                scope, 404, "not_found", "There is no export of yours with this name; GET /exports lists them."
            )
        headers = {"cache-control": "no-store"}
        return FileResponse(path, media_type=_TYPE, filename=name, headers=headers)

    def _exports(self, principal: Principal) -> Exports:
        readable = scope_for(principal, None, writes=False)
        return Exports(self._service.settings.run.tenant_folder(principal.data), principal.subject, readable.layers)

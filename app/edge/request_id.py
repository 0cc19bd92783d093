"""A name for each request: taken from the client when it is sane, told back, and bound to every log line."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import RequestContext
from app.edge.context import CONTEXT, LATEST, Latest

__all__ = ["HEADER", "RequestId"]

HEADER: Final = "x-request-id"
SANE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}\Z")


class RequestId:
    """Makes the :class:`RequestContext`. An id of 8 to 64 letters, digits, ``.``, ``_`` and ``-`` is kept."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the request and go on."""
        given = Headers(scope=scope).get(HEADER, "")
        request_id = given if SANE.match(given) else uuid4().hex

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = request_id
            await send(message)

        context = RequestContext(request_id=request_id, address="")
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            await self.app({**scope, CONTEXT: context, LATEST: Latest(context)}, receive, named)

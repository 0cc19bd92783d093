"""One line for each request: what was asked, what came of it, how long it took. Never a query, a body or a token.

Nor a name that a person gave: of a path only what was declared is logged (``/ingest/{name}``), of an unknown one no
more than its first part, if that is known.
"""

from __future__ import annotations

import time

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.context import LATEST
from app.edge.host import PROBES
from app.edge.metrics import route_of

__all__ = ["AccessLog"]

log = structlog.get_logger("graphkeep.access")


class AccessLog:
    """Logs when the response is over; a response that never began has status 0 (the client was gone)."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, then write the line."""
        began = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            if scope["path"] not in PROBES or status >= 500:
                self._write(scope, status, (time.perf_counter() - began) * 1000)

    @staticmethod
    def _write(scope: Scope, status: int, milliseconds: float) -> None:
        context = scope[LATEST].context
        caller = context.principal
        log.info(
            "request",
            request_id=context.request_id,
            method=scope["method"],
            path=scope[LATEST].route or _vaguely(scope["path"]),
            status=status,
            ms=round(milliseconds, 1),
            peer=context.peer,
            tool=context.tool,
            tenant=caller.tenant if caller else None,
            client=caller.client if caller else None,
        )


def _vaguely(path: str) -> str:
    """A path that no route was found for, or that was refused before: its first part alone, if that is a known one."""
    first = route_of(path)
    return f"/{first}" if path.rstrip("/") == f"/{first}" else f"/{first}/…"

"""One line for each request: what was asked, what came of it, how long it took. Never a query, a body or a token."""

from __future__ import annotations

import time
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.context import LATEST
from app.edge.host import PROBES

__all__ = ["AccessLog"]

log = structlog.get_logger("graphkeep.access")
LONGEST_PATH: Final = 200


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
            path=scope["path"][:LONGEST_PATH],
            status=status,
            ms=round(milliseconds, 1),
            peer=context.peer,
            tool=context.tool,
            tenant=caller.tenant if caller else None,
            client=caller.client if caller else None,
        )

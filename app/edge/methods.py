"""The methods of a path. MCP without sessions has only POST; a GET would be an endless stream."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.answers import problem

__all__ = ["PostOnly"]


class PostOnly:
    """405 with ``Allow: POST`` for everything else (streamable HTTP 2026-07-28, section "GET and DELETE")."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on with a POST."""
        if scope["method"] == "POST":
            await self.app(scope, receive, send)
            return
        message = "This endpoint takes POST only: it keeps no sessions and offers no stream by GET."
        await problem(scope, 405, "method_not_allowed", message, headers={"allow": "POST"})(scope, receive, send)

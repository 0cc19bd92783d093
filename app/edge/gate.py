"""Holds requests off what cannot serve them yet."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.answers import problem

__all__ = ["Gate"]


class Gate:
    """503 with Retry-After until ``is_open``; paths under ``always`` pass, since they need nothing."""

    def __init__(self, app: ASGIApp, *, is_open: Callable[[], bool], always: tuple[str, ...] = ()) -> None:
        self.app = app
        self._is_open = is_open
        self._always = always

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, or ask to come again."""
        if self._is_open() or scope["path"].startswith(self._always):
            await self.app(scope, receive, send)
            return
        message = "The gateway has not reached its database since it started; nothing was done. Try again shortly."
        answer = problem(scope, 503, "starting", message, headers={"retry-after": "2"}, retryable=True)
        await answer(scope, receive, send)

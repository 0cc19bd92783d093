"""The limits as a stage of the pipeline. Handshake, discovery and lists pass it for nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import OVERRUN_SECONDS, RequestContext
from app.contract import Tool
from app.edge.context import context_of, with_context
from app.edge.metrics import Metrics
from app.errors import CallError, DeadlineExceeded
from app.limits.limits import Limits

__all__ = ["Limit", "Refuse"]

Refuse = Callable[[Scope, CallError, Tool | None], ASGIApp]
"""The answer to a refused call, in the form of the client's protocol era."""


class Limit:
    """Lets a call through when it may run now, else answers why not."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        tool_of: Callable[[str], Tool | None],
        refuse: Refuse,
        metrics: Metrics,
    ) -> None:
        self.app = app
        self._limits = limits
        self._tool_of = tool_of
        self._refuse = refuse
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on within the limits, or refuse."""
        context = context_of(scope)
        if context.tool is None:
            await self.app(scope, receive, send)
            return
        tool = self._tool_of(context.tool)
        try:
            async with self._limits.admit(context, tool) as admitted:
                await self._run(tool, admitted, scope, receive, send)
        except CallError as error:
            self._metrics.refused.labels(error.reason).inc()
            await self._refuse(scope, error, tool)(scope, receive, send)

    async def _run(
        self, tool: Tool | None, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if tool is None or context.deadline is None:
            await self.app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        self._metrics.calls.labels(tool.name).inc()
        try:
            async with asyncio.timeout(context.deadline.remaining() + OVERRUN_SECONDS):
                await self.app(with_context(scope, context), receive, watched)
        except TimeoutError:
            if started:
                raise
            raise _stopped(tool) from None


def _stopped(tool: Tool) -> DeadlineExceeded:
    said = "The call ran past its deadline and was stopped."
    if tool.read_only:
        return DeadlineExceeded(f"{said} Ask for less, or try again.")
    return DeadlineExceeded(
        f"{said} Whether it was applied is unknown; the same call with the same idempotency_key is safe to repeat.",
        outcome="unknown",
    )

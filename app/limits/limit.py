"""The stage that every tool call passes: tokens, a slot, a deadline. Handshake, discovery and lists spend nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import Principal
from app.contract import Cost, DeadlineClass, Tool
from app.edge.context import context_of, with_context
from app.edge.metrics import Metrics
from app.errors import CallError, DeadlineExceeded, InternalError, RateLimited
from app.limits.bucket import Bucket
from app.limits.bulkhead import Bulkhead, Kind
from app.limits.deadlines import Deadlines

__all__ = ["Limit", "Refuse", "kind_of"]

OVERRUN_SECONDS: Final = 5.0
"""How long after its deadline a call may still hold its slot: a client that reads slowly must not keep it."""

Refuse = Callable[[Scope, CallError, Tool | None], ASGIApp]
"""The answer to a refused call, in the form of the client's protocol era."""


def kind_of(tool: Tool) -> Kind:
    """At which bulkhead a tool waits."""
    if tool.cost is Cost.WHOLE_GRAPH or tool.deadline is DeadlineClass.WHOLE_GRAPH:
        return Kind.WHOLE_GRAPH
    return Kind.READ if tool.read_only else Kind.WRITE


class Limit:
    """Spends by (tenant, client), never by network address: all users of a hosted connector share a few of those."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        tool_of: Callable[[str], Tool | None],
        bucket: Bucket,
        bulkhead: Bulkhead,
        deadlines: Deadlines,
        refuse: Refuse,
        metrics: Metrics,
    ) -> None:
        self.app = app
        self._tool_of = tool_of
        self._bucket = bucket
        self._bulkhead = bulkhead
        self._deadlines = deadlines
        self._refuse = refuse
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through when it may run now, else answer why not."""
        context = context_of(scope)
        if context.tool is None:
            await self.app(scope, receive, send)
            return
        if context.principal is None:
            raise InternalError("a call reached the limits without a principal")
        tool = self._tool_of(context.tool)
        try:
            await self._spend(context.principal, tool)
            if tool is None:  # the protocol says what is wrong with the name
                await self.app(scope, receive, send)
            else:
                await self._run(tool, context.principal, scope, receive, send)
        except CallError as error:
            self._metrics.refused.labels(error.reason).inc()
            await self._refuse(scope, error, tool)(scope, receive, send)

    async def _spend(self, principal: Principal, tool: Tool | None) -> None:
        cost = int(tool.cost if tool is not None else Cost.PLAIN)
        seconds = await self._bucket.spend(f"{principal.tenant}\0{principal.client}", cost)
        if seconds > 0:
            raise RateLimited(
                f"This client has used up its calls for now; nothing was done. Try again in {seconds:.1f} s.",
                retry_after_ms=max(1, round(seconds * 1000)),
            )

    async def _run(self, tool: Tool, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        deadline = self._deadlines.of(tool.deadline)
        async with self._bulkhead.slot(principal.tenant, kind_of(tool)):
            self._metrics.calls.labels(tool.name).inc()
            due = with_context(scope, context_of(scope).due(deadline))
            try:
                async with asyncio.timeout(deadline.remaining() + OVERRUN_SECONDS):
                    await self.app(due, receive, watched)
            except TimeoutError:
                if started:
                    raise
                raise DeadlineExceeded(
                    "The call ran past its deadline and was stopped.",
                    outcome="not_applied" if tool.read_only else "unknown",
                ) from None

"""The limits of downloads: each spends like a call, and few of a tenant are under way at once, apart from its calls."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.context import OVERRUN_SECONDS
from app.contract import Tool
from app.edge.context import context_of
from app.edge.metrics import Metrics
from app.errors import CallError, DeadlineExceeded
from app.limits.limits import Limits

__all__ = ["LimitDownloads"]

IDLE_SECONDS: Final = 30.0
"""How long a client may take to read on: a file may be large and a line slow, but who reads nothing holds no slot."""


class LimitDownloads:
    """Lets a download through when it may run now. ``tool`` is the one whose cost it has, and whose deadline the
    beginning of its answer; refusals are raised."""

    def __init__(self, app: ASGIApp, *, limits: Limits, tool: Tool, metrics: Metrics) -> None:
        self.app = app
        self._limits = limits
        self._tool = tool
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on within the limits.

        Raises:
            RateLimited: the bucket is empty. Overloaded: no slot became free in time. DeadlineExceeded: no answer
                began in time.
            TimeoutError: the client read nothing for a while.
        """
        try:
            async with self._limits.download(context_of(scope), self._tool):
                await self._run(scope, receive, send)
        except CallError as error:
            self._metrics.refused.labels(error.reason).inc()
            raise

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, loop = False, asyncio.get_running_loop()
        self._metrics.calls.labels(self._tool.name).inc()
        seconds = self._limits.deadlines.of(self._tool.deadline).remaining()
        try:
            async with asyncio.timeout(seconds + OVERRUN_SECONDS) as clock:

                async def watched(message: Message) -> None:
                    nonlocal started
                    started = True
                    clock.reschedule(loop.time() + IDLE_SECONDS)
                    await send(message)

                await self.app(scope, receive, watched)
        except TimeoutError:
            if started:
                raise
            raise DeadlineExceeded("The call ran past its deadline and was stopped.", outcome="not_applied") from None

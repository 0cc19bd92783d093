"""The limits of uploads: each spends like a call, and few of a tenant are under way at once, apart from its calls."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from app.contract import Tool
from app.edge.context import context_of
from app.edge.metrics import Metrics
from app.errors import CallError
from app.limits.limits import Limits

__all__ = ["LimitUploads"]


class LimitUploads:
    """Lets an upload through when it may run now. ``tool`` is the one whose cost it has; refusals are raised."""

    def __init__(self, app: ASGIApp, *, limits: Limits, tool: Tool, metrics: Metrics) -> None:
        self.app = app
        self._limits = limits
        self._tool = tool
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on within the limits.

        Raises:
            RateLimited: the bucket is empty. Overloaded: no slot became free in time.
        """
        try:
            async with self._limits.upload(context_of(scope), self._tool):
                await self.app(scope, receive, send)
        except CallError as error:
            self._metrics.refused.labels(error.reason).inc()
            raise

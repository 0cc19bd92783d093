"""Refusing early: when too much is open, or the event loop runs late, a 503 costs next to nothing."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.lifespan import beside

__all__ = ["Admission", "LoopLag"]

TICK: Final = 0.1
TOO_LATE: Final = 0.5
"""Seconds by which the loop may run late before new requests are turned away."""


class LoopLag:
    """How late the event loop runs, in seconds, as a moving mean over about half a second."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextlib.asynccontextmanager
    async def measured(self) -> AsyncIterator[LoopLag]:
        """Measure for as long as the block lasts."""
        async with beside(self._measure(), "loop lag"):
            yield self

    async def _measure(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(TICK)
            late = max(0.0, time.monotonic() - began - TICK)
            self.seconds += (late - self.seconds) * 0.3


class Admission:
    """Lets requests in while there is room. ``refuse(scope)`` is the answer to the others.

    ``exempt`` paths pass always, ``patient`` ones while there is room, however late the loop runs.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        open_requests: int,
        lag: LoopLag,
        refuse: Callable[[Scope], ASGIApp],
        exempt: frozenset[str] = frozenset(),
        patient: frozenset[str] = frozenset(),
    ) -> None:
        self.app = app
        self._room = open_requests
        self._lag = lag
        self._refuse = refuse
        self._exempt = exempt
        self._patient = patient
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["path"] in self._exempt:
            await self.app(scope, receive, send)
            return
        late = self._lag.seconds > TOO_LATE and self._open > 0 and scope["path"] not in self._patient
        if late or self._open >= self._room:
            await self._refuse(scope)(scope, receive, send)
            return
        self._open += 1
        try:
            await self.app(scope, receive, send)
        finally:
            self._open -= 1

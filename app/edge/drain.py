"""What is under way, so that stopping can end it in order.

Stopping: open streams that only wait for news end at once; calls go on until ``cut`` is called, which they see as a
client that hung up (a read stops; a write past its commit point completes).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import problem

__all__ = ["Drain", "InFlight"]

LISTENING: Final = "subscriptions/listen"
CLOSING: Final = {"retry-after": "2", "connection": "close"}
STOPPING: Final = (
    "The gateway is stopping and did not finish this request. Whether a write was applied, a second call with the same "
    "idempotency key tells."
)


class Drain:
    """The requests under way in one process."""

    def __init__(self) -> None:
        self.stopping = False
        self._requests: set[_Request] = set()

    def __len__(self) -> int:
        return len(self._requests)

    def enter(self, request: _Request) -> None:
        """Count a request; one that comes while stopping ends its stream at once."""
        self._requests.add(request)

    def leave(self, request: _Request) -> None:
        """Forget a request."""
        self._requests.discard(request)

    def stop(self) -> None:
        """Refuse to be ready, and end the streams that wait for news."""
        self.stopping = True
        for request in list(self._requests):
            if request.waits:
                request.hang_up()

    def cut(self) -> None:
        """Hang up on everything."""
        for request in list(self._requests):
            request.hang_up()


class _Request:
    """One request's ears: what it receives, until we hang up on it."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._waiting: set[asyncio.Timeout] = set()
        headers = Headers(scope=scope)
        self._call = scope["path"].rstrip("/") == "/mcp" and headers.get("mcp-method") != LISTENING
        self._streams = False
        self.over = asyncio.Event()
        self.started = False

    @property
    def waits(self) -> bool:
        """Whether it is a stream that would never end by itself."""
        return self._streams and not self._call

    def hang_up(self) -> None:
        """Let the request see a client that is gone, now if it listens and else when it does."""
        self.over.set()
        for waiting in self._waiting:
            waiting.reschedule(asyncio.get_running_loop().time())

    def answered(self, message: Message) -> None:
        """Note the kind of the answer."""
        self.started = True
        self._streams = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")

    async def receive(self) -> Message:
        """The next message, or a disconnect once we hung up."""
        if self.over.is_set():
            return {"type": "http.disconnect"}
        try:
            async with asyncio.timeout(None) as waiting:
                self._waiting.add(waiting)
                try:
                    return await self._receive()
                finally:
                    self._waiting.discard(waiting)
        except TimeoutError:
            if not self.over.is_set():
                raise
            return {"type": "http.disconnect"}


class InFlight:
    """Keeps the list of :class:`Drain`."""

    def __init__(self, app: ASGIApp, *, drain: Drain) -> None:
        self.app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, listed while it lasts."""
        request = _Request(scope, receive)

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.answered(message)
                if self._drain.stopping and request.waits:
                    request.hang_up()
            await send(message)

        self._drain.enter(request)
        try:
            with contextlib.suppress(ClientDisconnect):  # nobody is there to be told, or we hung up
                await self.app(scope, request.receive, watched)
            if request.over.is_set() and not request.started:
                await problem(scope, 503, "stopping", STOPPING, headers=CLOSING, retryable=True)(scope, receive, send)
        finally:
            self._drain.leave(request)

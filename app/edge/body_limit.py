"""How much a request may send, and how long it may take over it.

Nothing is read here: what the stages behind read is counted as it passes, so the bearer is still judged before a byte
of the body is. A declared length that is too large is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import problem

__all__ = ["SECONDS", "BodyLimit", "BodyRefused"]

DRAINED: Final = 16 * 1024 * 1024
DRAIN_SECONDS: Final = 2.0


class BodyRefused(Exception):
    """Ends the stages that were reading; the answer is written by :class:`BodyLimit`.

    ``coming``: more of the body is on its way.
    """

    def __init__(self, status: int, reason: str, message: str, *, coming: bool = True) -> None:
        super().__init__(reason)
        self.status = status
        self.coming = coming
        self.reason = reason
        self.message = message


SECONDS: Final = 20.0

IDLE_SECONDS: Final = 30.0
"""How long a body may pause: a file may be large and a line slow, but who sends nothing holds no slot."""

RATE: Final = 2048
"""Bytes that must come each second, or a byte now and then would hold a slot as nothing does."""
RATED_SECONDS: Final = 60.0
"""Seconds of waiting for a body after which its rate is judged, and again: a pause is made up for by then."""


class BodyLimit:
    """``limit_of(scope)`` is the largest body in bytes, ``seconds_of(scope)`` the time for it, from the first read."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limit_of: Callable[[Scope], int],
        seconds_of: Callable[[Scope], float] = lambda _: SECONDS,
    ) -> None:
        self.app = app
        self._limit_of = limit_of
        self._seconds_of = seconds_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on with a body that is counted and timed."""
        limit = self._limit_of(scope)
        body = _Body(receive, send, limit, self._seconds_of(scope))
        declared = Headers(scope=scope).get("content-length", "0")
        if declared.isdigit() and int(declared) > limit:
            await _refuse(scope, receive, send, _too_large(limit))
            return
        try:
            await self.app(scope, body.receive, body.send)
        except BodyRefused:
            if body.refused is None:
                raise
        except Exception:
            # Whatever a stage made of its interrupted read, the cause is the body.
            if body.refused is None:
                raise
        if body.refused is not None and not body.started:
            await _refuse(scope, receive, send, body.refused)


class _Body:
    """One request's body on its way in, and whether an answer has begun."""

    def __init__(self, receive: Receive, send: Send, limit: int, seconds: float) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._seconds = seconds
        self._until: float | None = None
        self._size = 0
        self._rated = (0.0, 0)
        """Seconds that were waited, and bytes that came, since the rate was judged."""
        self._complete = False
        self.started = False
        self.refused: BodyRefused | None = None

    async def receive(self) -> Message:
        if self.refused is not None:
            raise self.refused
        if self._complete:
            return await self._receive()
        began = time.monotonic()
        message = await self._in_time()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._size += size
            self._complete = not message.get("more_body", False)
            if self._size > self._limit:
                raise self._refusal(_too_large(self._limit))
            self._judge(time.monotonic() - began, size)
        return message

    async def send(self, message: Message) -> None:
        if self.refused is not None and not self.started:
            return
        self.started = True
        await self._send(message)

    async def _in_time(self) -> Message:
        now = time.monotonic()
        self._until = self._until or now + self._seconds
        left = self._until - now
        try:
            async with asyncio.timeout(min(left, IDLE_SECONDS)):
                return await self._receive()
        except TimeoutError:
            slow = (
                f"did not arrive within {self._seconds:g} s" if left <= IDLE_SECONDS else f"paused {IDLE_SECONDS:g} s"
            )
            raise self._refusal(_too_slow(slow, coming=False)) from None

    def _judge(self, seconds: float, size: int) -> None:
        waited, came = self._rated[0] + seconds, self._rated[1] + size
        if waited < RATED_SECONDS or self._complete:
            self._rated = (waited, came)
        elif came < RATE * waited:
            raise self._refusal(_too_slow(f"came slower than {RATE} bytes a second"))
        else:
            self._rated = (0.0, 0)

    def _refusal(self, refused: BodyRefused) -> BodyRefused:
        self.refused = refused
        return refused


def _too_slow(how: str, *, coming: bool = True) -> BodyRefused:
    message = f"The body {how}; nothing was done, but what came of an upload in parts is kept."
    return BodyRefused(408, "body_too_slow", message, coming=coming)


def _too_large(limit: int) -> BodyRefused:
    return BodyRefused(413, "body_too_large", f"The body may have {limit} bytes at most; nothing was done.")


async def _refuse(scope: Scope, receive: Receive, send: Send, refused: BodyRefused) -> None:
    """Answer, and take in a little of what is still coming.

    A connection closed on unread bytes is reset, and the client would never see the answer (RFC 9112 §9.6).
    """
    answer = problem(scope, refused.status, refused.reason, refused.message, headers={"connection": "close"})
    await send({"type": "http.response.start", "status": answer.status_code, "headers": answer.raw_headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    if refused.coming:
        await _drain(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drain(receive: Receive) -> None:
    taken = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while taken < DRAINED:
                message = await receive()
                taken += len(message.get("body", b""))
                if message["type"] != "http.request" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return

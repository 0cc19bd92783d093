"""Room for requests of whom nobody has identified yet: sign-in, tokens, discovery and pages.

They have a room of their own, so that however many of them are open, calls that show a token find theirs. When it is
full, the request whose body has been longest in coming makes room: an honest one's body is here within a moment.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import overloaded

__all__ = ["Lobby"]

CLOSING: Final = {"connection": "close"}


class Lobby:
    """Holds ``room`` requests at most; the others are answered 503."""

    def __init__(self, app: ASGIApp, *, room: int) -> None:
        self.app = app
        self._room = room
        self._visits: dict[_Visit, None] = {}
        """Those that count, the oldest first."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, if need be in the place of one that only waits for its body, or refuse it."""
        if len(self._visits) >= self._room and not self._make_room():
            await overloaded(scope, CLOSING)(scope, receive, send)
            return
        visit = _Visit(receive, send)
        self._visits[visit] = None
        try:
            await self.app(scope, visit.receive, visit.send)
        except ClientDisconnect:
            if not visit.over:
                raise
        finally:
            self._visits.pop(visit, None)
        if visit.over and not visit.started:
            await overloaded(scope, CLOSING)(scope, receive, send)

    def _make_room(self) -> bool:
        oldest = next((visit for visit in self._visits if visit.waiting is not None), None)
        if oldest is None:
            return False
        del self._visits[oldest]
        oldest.end()
        return True


class _Visit:
    """One request: whether it waits for its body now, and whether it was ended for that."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._complete = False
        self.waiting: asyncio.Timeout | None = None
        self.started = False
        self.over = False

    def end(self) -> None:
        """Let the app see a client that is gone."""
        self.over = True
        if self.waiting is not None:
            self.waiting.reschedule(asyncio.get_running_loop().time())

    async def receive(self) -> Message:
        """The next message, or a disconnect once the visit is over."""
        if self.over:
            return {"type": "http.disconnect"}
        if self._complete:
            return await self._receive()
        try:
            async with asyncio.timeout(None) as self.waiting:
                message = await self._receive()
        except TimeoutError:  # the visit was ended
            return {"type": "http.disconnect"}
        finally:
            self.waiting = None
        self._complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Pass on what the app answers."""
        self.started = True
        await self._send(message)

"""Progress of a call, told only to a client that asked for it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final

from app.contract import Progress

__all__ = ["Reported", "progress_for", "silent"]

Send = Callable[[float, float | None, str | None], Awaitable[None]]

INTERVAL: Final = 0.2
"""Shortest time between two reports, seconds (the specification asks for a rate limit)."""


async def silent(done: float, total: float | None = None, message: str | None = None) -> None:
    """Report to nobody."""


class Reported:
    """Sends reports that increase, as the specification demands, at most one per ``INTERVAL`` but always the last."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._highest = float("-inf")
        self._at = float("-inf")

    async def __call__(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report ``done`` of ``total``."""
        if done <= self._highest:
            return
        now = time.monotonic()
        if now - self._at < INTERVAL and done != total:
            return
        self._highest, self._at = done, now
        await self._send(done, total, message)


def progress_for(send: Send, *, asked: bool) -> Progress:
    """What a handler reports to; ``asked`` says whether the call carried a progress token."""
    return Reported(send) if asked else silent

"""Long work on names: in a thread, beside the loop that serves every tenant, and with an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from app.context import Deadline
from app.errors import DeadlineExceeded

__all__ = ["Clock", "in_thread"]

P = ParamSpec("P")
T = TypeVar("T")


class Clock:
    """Ends work when its time is over, or when nobody waits for it any more; ``advice`` says what to ask instead."""

    def __init__(self, deadline: Deadline, advice: str) -> None:
        self._deadline = deadline
        self._advice = advice
        self._left = False

    def check(self) -> None:
        """Go on.

        Raises:
            DeadlineExceeded: not any more.
        """
        if self._left or self._deadline.passed:
            raise DeadlineExceeded(f"comparing the names took too long; {self._advice}. Nothing was changed.")

    def leave(self) -> None:
        """Nobody waits."""
        self._left = True


async def in_thread(clock: Clock, work: Callable[Concatenate[Clock, P], T], /, *args: P.args, **named: P.kwargs) -> T:
    """What ``work`` returns, which checks the clock every few milliseconds.

    Raises:
        DeadlineExceeded: its time was over.
    """
    try:
        return await asyncio.to_thread(work, clock, *args, **named)
    finally:
        clock.leave()

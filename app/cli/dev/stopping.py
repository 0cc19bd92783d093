"""Ctrl-C and SIGTERM as one event: the first asks everything to stop in order, later ones change nothing."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

__all__ = ["Stopped", "listening", "unless_stopped"]

Answer = TypeVar("Answer")


class Stopped(Exception):
    """Asked to stop before everything had started."""


@contextmanager
def listening(said: Callable[[str], None]) -> Iterator[asyncio.Event]:
    """An event that the first signal sets."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def asked() -> None:
        said("Stopping: the gateway, Caddy, the database ..." if not stop.is_set() else "Already stopping ...")
        stop.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, asked)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Do ``work``; a signal meanwhile cancels it and waits until it has cleaned up.

    Raises:
        Stopped: the signal came first.
    """
    task = asyncio.ensure_future(work)
    waiting = asyncio.ensure_future(stop.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        return task.result()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    raise Stopped

"""The gateway as a process: its listeners, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from typing import Final

import structlog

from app.edge import logs
from app.edge.lifespan import beside
from app.edge.listeners import bound_loopback, bound_unix
from app.edge.server import Served, serve_until
from app.main import create_app
from app.settings import Settings

__all__ = ["run", "serve"]

log = structlog.get_logger("graphkeep.server")

SOFTWARE: Final = 70


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, on uvloop where there is one.

    Raises:
        StartError: the process must not start; nothing is left half-started.
    """
    if sys.platform == "win32":
        asyncio.run(serve(settings))
    else:
        import uvloop

        uvloop.run(serve(settings))


async def serve(
    settings: Settings,
    *,
    ready: Callable[[], None] | None = None,
    planned: Callable[[], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve at the loopback port, the Unix socket for Caddy, and the metrics port where one is set.

    ``ready`` is called when requests are answered, ``planned`` once what a new client's first calls run is planned, so
    that they take no longer than later ones, or is not going to be. With ``stop`` given the caller ends the process;
    without it, SIGTERM and SIGINT do, and a watchdog ends a process that does not manage to stop in its time.

    Raises:
        StartError: a port or the socket is taken, or a part cannot be opened for a reason that waiting does not mend;
            also later, when a database that was away at first turns out to be unusable.
    """
    logs.configure(settings.run.log_level)
    seconds = settings.run.stop_seconds
    app = create_app(settings)
    with contextlib.ExitStack() as stack:
        sockets = stack.enter_context(bound_loopback(settings.run.http_port, "GRAPHKEEP_HTTP_PORT"))
        sockets.append(stack.enter_context(bound_unix(settings.run.socket_path)))
        port = settings.edge.metrics_port
        metrics = stack.enter_context(bound_loopback(port, "GRAPHKEEP_METRICS_PORT")) if port is not None else []
        stopping = stop or stack.enter_context(_signals(seconds))
        async with app as services, beside(_told(services.planned, planned), "planned"):
            served = [Served(app, sockets, stop_seconds=seconds)]
            if metrics:
                served.append(Served(services.instruments.metrics.app, metrics, stop_seconds=seconds))
            unusable = services.opening.unusable
            unusable.add_done_callback(lambda _: stopping.set())
            await serve_until(stopping, served, services.instruments.drain, seconds=seconds, ready=ready)
            if unusable.done():
                unusable.result()
    log.info("stopped")


async def _told(events: Collection[asyncio.Event], who: Callable[[], None] | None) -> None:
    for event in events:
        await event.wait()
    if who is not None:
        who()


@contextlib.contextmanager
def _signals(seconds: float) -> Iterator[asyncio.Event]:
    """An event that the first SIGTERM or SIGINT sets."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    watchdog = threading.Timer(seconds, os._exit, (SOFTWARE,))
    watchdog.daemon = True

    def asked() -> None:
        if not stop.is_set():
            stop.set()
            watchdog.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        watchdog.cancel()

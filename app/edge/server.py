"""Running one application at several listeners in one process, and stopping it in order within its time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from app.edge.drain import Drain
from app.edge.wire import Wire

__all__ = ["Served", "serve_until"]

log = structlog.get_logger("graphkeep.server")

KEEP_ALIVE_SECONDS: Final = 75
CUT_SHARE: Final = 0.6
"""Part of the stopping time after which calls see their client hang up."""

CANCEL_SHARE: Final = 0.75
"""Part of it after which tasks are cancelled; the rest closes the database, the model and so on."""


class _Server(uvicorn.Server):
    """Leaves signals to the process: several servers run in it, and they stop together."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Served:
    """An app and the sockets that it answers at."""

    def __init__(self, app: ASGIApp, sockets: Sequence[socket.socket], *, stop_seconds: float) -> None:
        config = uvicorn.Config(
            app,
            loop="none",
            interface="asgi3",
            http=Wire,
            ws="none",
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=None,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            backlog=2048,
        )
        # Seconds; uvicorn takes whole ones on its command line and a float here.
        config.timeout_graceful_shutdown = stop_seconds * CANCEL_SHARE  # type: ignore[assignment]
        self._server = _Server(config)
        self._sockets = list(sockets)

    async def run(self) -> None:
        """Serve until told to stop."""
        await self._server.serve(sockets=self._sockets)

    def stop(self) -> None:
        """Accept nothing more; end when what is under way has ended."""
        self._server.should_exit = True


async def serve_until(
    stop: asyncio.Event,
    served: Sequence[Served],
    drain: Drain,
    *,
    seconds: float,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve until ``stop`` is set, then end within ``seconds``; ``ready`` is called once requests are accepted.

    Order: not ready any more and waiting streams ended; nothing new accepted; calls finish; what still runs after
    ``CUT_SHARE`` of the time sees its client hang up (a write past its commit point completes); tasks are cancelled.
    """
    running = [asyncio.create_task(one.run(), name="listener") for one in served]
    stopped = asyncio.create_task(stop.wait(), name="stop")
    if ready is not None:  # the sockets listen already: what connects now is answered
        ready()
    await asyncio.wait({stopped, *running}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    log.info("stopping", under_way=len(drain))
    drain.stop()
    for one in served:
        one.stop()
    cut = asyncio.get_running_loop().call_later(seconds * CUT_SHARE, drain.cut)
    try:
        await asyncio.gather(*running)
    finally:
        cut.cancel()
    log.info("stopped listening")

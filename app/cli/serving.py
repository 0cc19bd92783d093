"""``graphkeep serve``: the gateway, with the database it manages unless NEO4J_URI names one."""

from __future__ import annotations

from contextlib import AsyncExitStack

from app.cli.client.console import note
from app.cli.database import check_password, managed
from app.cli.dev.stopping import Stopped, listening, unless_stopped
from app.settings import Settings

__all__ = ["run"]


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        StartError: something that must hold does not; nothing is left half-started.
    """
    import uvloop

    from app import server

    if settings.store.neo4j_uri is None:
        uvloop.run(_with_database(settings))
    else:
        check_password(settings)
        server.run(settings)


async def _with_database(settings: Settings) -> None:
    from app.server import serve

    with listening(note) as stop:
        try:
            async with AsyncExitStack() as stack:
                used = await unless_stopped(stop, stack.enter_async_context(managed(settings)))
                await serve(used, stop=stop)
        except Stopped:
            return

"""How a command comes to a database: the one of NEO4J_URI, the one that a running gateway manages, or its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from pydantic import SecretStr

from app.cli.client.console import EX_CONFIG, note, require
from app.cli.dev.ground import EX_TEMPFAIL
from app.context import Deadline
from app.errors import DatabaseUnavailable, StartError
from app.settings import Settings
from app.store.database import Database
from app.store.embedded import EmbeddedServer, ServerAddress, running_server
from app.store.schema import migrate

__all__ = ["check_password", "connected", "managed", "own_server", "reachable", "running"]

_RESTARTS: Final = 5
_PATIENCE_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.25


@asynccontextmanager
async def managed(settings: Settings, progress: Callable[[str], None] = note) -> AsyncIterator[Settings]:
    """The settings with a database to use: NEO4J_URI as it is, otherwise a child process that lives inside the block.

    Raises:
        StartError: NEO4J_URI without a password (exit code 78), or the child does not start.
    """
    if settings.store.neo4j_uri is not None:
        check_password(settings)
        yield settings
        return
    require("embedded")
    server = own_server(settings)
    address = await server.start(progress)
    keeping = asyncio.ensure_future(_keep_running(server, progress))
    try:
        yield _with(settings, address)
    finally:
        keeping.cancel()
        await asyncio.wait({keeping})
        await server.stop()


def own_server(settings: Settings) -> EmbeddedServer:
    """The database that this home manages, not started."""
    return EmbeddedServer(
        settings.run.folder,
        heap=settings.store.heap,
        page_cache=settings.store.page_cache,
        engine_cache=settings.store.engine_cache,
    )


@asynccontextmanager
async def reachable(settings: Settings, progress: Callable[[str], None] = note) -> AsyncIterator[Settings]:
    """Like :func:`managed`, but the database of a gateway that runs from this home is shared."""
    shared = running(settings)
    if shared is not None:
        yield shared
        return
    async with managed(settings, progress) as own:
        yield own


def running(settings: Settings) -> Settings | None:
    """The settings with the database that a gateway of this home manages now; None if none runs or it manages none."""
    if settings.store.neo4j_uri is not None:
        return None
    address = running_server(settings.run.folder)
    return None if address is None else _with(settings, address)


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Database]:
    """A verified and migrated database for one command.

    Raises:
        StartError: it is away (exit code 75), refuses the password, is too old, or holds a foreign or newer schema.
    """
    store = settings.store
    password = store.neo4j_password.get_secret_value() if store.neo4j_password else ""
    database = await Database.connect(
        store.neo4j_uri or "", store.neo4j_user, password, store.neo4j_database, pool_size=store.pool_size
    )
    try:
        await _answering(database)
        await migrate(database)
        yield database
    finally:
        await database.close()


async def _answering(database: Database) -> None:
    """Wait for a database that is slow to answer: a busy machine, or one that has just been started."""
    until = Deadline.after(_PATIENCE_SECONDS)
    while True:
        try:
            await database.verify()
        except DatabaseUnavailable as error:
            if until.passed:
                raise StartError(
                    "The database does not answer. Check that it runs and that NEO4J_URI is right. Nothing was "
                    "changed.",
                    exit_code=EX_TEMPFAIL,
                ) from error
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def _keep_running(server: EmbeddedServer, progress: Callable[[str], None]) -> None:
    """Start the child again when it ends by itself, on the port that it had: connections find it there."""
    for _ in range(_RESTARTS):
        code = await server.ended()
        progress(f"The database ended by itself (code {code}); starting it again")
        await server.stop()
        try:
            await server.start(progress)
        except StartError as error:
            progress(f"The database does not start again: {error.message}")
            return


def check_password(settings: Settings) -> None:
    """An external database needs a password.

    Raises:
        StartError: it is missing (exit code 78).
    """
    if settings.store.neo4j_password is None:
        raise StartError(
            "NEO4J_URI is set and NEO4J_PASSWORD is not. Set the password of that database in the environment, or "
            "unset NEO4J_URI to let graphkeep run a database of its own.",
            exit_code=EX_CONFIG,
        )


def _with(settings: Settings, address: ServerAddress) -> Settings:
    found = {
        "neo4j_uri": address.uri,
        "neo4j_user": address.user,
        "neo4j_password": SecretStr(address.password),
        "neo4j_database": "neo4j",
    }
    return settings.having(store=settings.store.model_copy(update=found))

"""How a command comes to a database: the one of NEO4J_URI, the one that a running gateway manages, or its own."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from app.cli.client.console import EX_CONFIG, note, require
from app.cli.dev.ground import EX_TEMPFAIL, check_room, own_home
from app.errors import StartError
from app.settings import Settings, StoreSettings
from app.store.database import Database

__all__ = ["check_password", "connected", "managed", "reachable", "running"]

_NOTE: Final = Path("run") / "database.json"


@asynccontextmanager
async def managed(
    settings: Settings, progress: Callable[[str], None] = note, *, before: Callable[[], None] = lambda: None
) -> AsyncIterator[Settings]:
    """The settings with a database to use: NEO4J_URI as it is, otherwise a child process that lives inside the block.

    ``before`` runs when the home folder is ours and nothing was started yet; what it raises ends the start.

    Raises:
        StartError: NEO4J_URI without a password (exit code 78), the home folder is in use (75), or the child does not
            start.
    """
    if settings.store.neo4j_uri is not None:
        check_password(settings)
        before()
        yield settings
        return
    require("embedded")
    from app.store.embedded import EmbeddedServer

    home = settings.run.folder
    with own_home(home):
        check_room(home, settings.store.engine_cache)
        before()
        server = EmbeddedServer(
            home,
            heap=settings.store.heap,
            page_cache=settings.store.page_cache,
            engine_cache=settings.store.engine_cache,
        )
        told = home / _NOTE
        try:
            address = await server.start(progress)
            found = settings.store.model_copy(
                update={
                    "neo4j_uri": address.uri,
                    "neo4j_user": address.user,
                    "neo4j_password": SecretStr(address.password),
                    "neo4j_database": "neo4j",
                }
            )
            _tell(told, found)
            yield _with(settings, found)
        finally:
            told.unlink(missing_ok=True)
            await server.stop()


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
    told = _told(settings) if settings.store.neo4j_uri is None else None
    return _with(settings, told) if told is not None and _held(settings.run.folder) else None


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Database]:
    """A verified and migrated database for one command.

    Raises:
        StartError: it is away (exit code 75), refuses the password, is too old, or holds a foreign or newer schema.
    """
    from app.errors import DatabaseUnavailable
    from app.store.schema import migrate

    store = settings.store
    password = store.neo4j_password.get_secret_value() if store.neo4j_password else ""
    database = await Database.connect(
        store.neo4j_uri or "", store.neo4j_user, password, store.neo4j_database, pool_size=store.pool_size
    )
    try:
        try:
            await database.verify()
        except DatabaseUnavailable as error:
            raise StartError(
                "The database does not answer. Check that it runs and that NEO4J_URI is right. Nothing was changed.",
                exit_code=EX_TEMPFAIL,
            ) from error
        await migrate(database)
        yield database
    finally:
        await database.close()


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


def _held(home: Path) -> bool:
    try:
        with own_home(home):
            return False
    except StartError:
        return True


def _tell(path: Path, store: StoreSettings) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        password = store.neo4j_password.get_secret_value() if store.neo4j_password else ""
        json.dump({"uri": store.neo4j_uri, "user": store.neo4j_user, "password": password}, file)


def _told(settings: Settings) -> StoreSettings | None:
    try:
        found = json.loads((settings.run.folder / _NOTE).read_text(encoding="ascii"))
        return settings.store.model_copy(
            update={
                "neo4j_uri": found["uri"],
                "neo4j_user": found["user"],
                "neo4j_password": SecretStr(found["password"]),
                "neo4j_database": "neo4j",
            }
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _with(settings: Settings, store: StoreSettings) -> Settings:
    return Settings(
        run=settings.run,
        edge=settings.edge,
        store=store,
        oauth=settings.oauth,
        limits=settings.limits,
        embedding=settings.embedding,
    )

"""Starts the database, the gateway and Caddy, says that they are ready, and stops them in the opposite order."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, TypeVar

from app.access.accounts import DEFAULT_OWNER
from app.access.service import accounts_of
from app.cli.client.console import emit, note, require, say
from app.cli.database import connected, managed
from app.cli.dev.caddy import Caddy
from app.cli.dev.ground import check_ports, check_room, own_home
from app.cli.dev.stopping import Stopped, listening, unless_stopped
from app.cli.dev.welcome import Welcome, called_as
from app.cli.signin import sign_in_links
from app.context import Deadline
from app.errors import CallError
from app.settings import Settings
from app.store.control.users import User

__all__ = ["run"]

Answer = TypeVar("Answer")
_PATIENCE_SECONDS: Final = 120.0
_PLANNING_SECONDS: Final = 15.0
"""Longest time for which the welcome waits for plans: without them a first call takes seconds."""

Serve = Callable[..., Coroutine[Any, Any, None]]
"""``app.server.serve``, imported before anything is started: it takes seconds."""


def run(settings: Settings, *, owner: str | None, as_json: bool) -> None:
    """Run everything until Ctrl-C or SIGTERM.

    Raises:
        StartError: something that must hold does not; whatever had been started was stopped again.
    """
    require("server", "embedded")
    import uvloop

    from app.edge import logs
    from app.server import serve

    used = _quiet(settings)
    logs.configure(used.run.log_level)
    uvloop.run(_run(used, serve, owner=owner, as_json=as_json))


async def _run(settings: Settings, serve: Serve, *, owner: str | None, as_json: bool) -> None:
    with listening(note) as stop:
        try:
            await _live(settings, serve, stop, owner=owner, as_json=as_json)
        except Stopped:
            pass
        else:
            note("Stopped.")


async def _live(settings: Settings, serve: Serve, stop: asyncio.Event, *, owner: str | None, as_json: bool) -> None:
    home = settings.run.folder
    caddy = Caddy(home=home, port=settings.run.https_port, socket=settings.run.socket_path, progress=note)

    async with AsyncExitStack() as stack:
        stack.enter_context(own_home(home))
        check_room(home)
        await caddy.clear()
        check_ports({"GRAPHKEEP_HTTP_PORT": settings.run.http_port, "GRAPHKEEP_HTTPS_PORT": settings.run.https_port})
        used = await unless_stopped(stop, stack.enter_async_context(managed(settings)))
        welcome = await unless_stopped(stop, _welcome(used, caddy, owner))
        stack.push_async_callback(caddy.stop)
        gateway = partial(serve, used)
        await _serve(gateway, stop, caddy, lambda: emit(welcome.line()) if as_json else say(welcome.words()))


async def _welcome(settings: Settings, caddy: Caddy, owner: str | None) -> Welcome:
    """Make the first records and a fresh way in."""
    https, http = f"https://localhost:{settings.run.https_port}", f"http://localhost:{settings.run.http_port}"
    async with connected(settings) as database:
        accounts = accounts_of(settings, database)

        async def first_records() -> tuple[User, dict[str, str]]:
            user = (await accounts.bootstrap(owner or DEFAULT_OWNER)).owner
            return user, await sign_in_links(database, settings, user)

        user, links = await _patiently(first_records)
    return Welcome(
        https=https,
        http=http,
        home=settings.run.folder,
        links=links,
        owner=user.email,
        root_certificate=caddy.root_certificate,
        command=called_as(sys.argv[0]),
    )


async def _patiently(work: Callable[[], Awaitable[Answer]]) -> Answer:
    """Do ``work``, again while its failure says that this may help: a cold database on a busy machine is slow."""
    until = Deadline.after(_PATIENCE_SECONDS)
    while True:
        try:
            return await work()
        except CallError as error:
            if not error.retryable or until.passed:
                raise
            await asyncio.sleep((error.retry_after_ms or 500) / 1000)


async def _serve(gateway: Serve, stop: asyncio.Event, caddy: Caddy, announce: Callable[[], None]) -> None:
    """Serve until ``stop``; Caddy is opened when the gateway answers, and whatever fails stops the rest."""
    ready, planned = asyncio.Event(), asyncio.Event()

    async def open_to_clients() -> None:
        await ready.wait()
        await caddy.start()
        with suppress(TimeoutError):
            await asyncio.wait_for(planned.wait(), _PLANNING_SECONDS)
        announce()
        await caddy.watch()

    serving = asyncio.ensure_future(gateway(ready=ready.set, planned=planned.set, stop=stop))
    opening = asyncio.ensure_future(open_to_clients())
    await asyncio.wait({serving, opening}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    try:
        await serving
    finally:
        caddy.expect_end()
        opening.cancel()
        await asyncio.wait({opening})
    if not opening.cancelled():
        opening.result()


def _quiet(settings: Settings) -> Settings:
    """Only warnings beside the welcome, unless a level was asked for."""
    if "log_level" in settings.run.model_fields_set:
        return settings
    return settings.having(run=settings.run.model_copy(update={"log_level": "warning"}))

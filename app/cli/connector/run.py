"""``graphkeep doctor --connector URL`` as a command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.cli.client.console import emit, note, say
from app.cli.connector import network
from app.cli.connector.entering import Link, through_the_store
from app.cli.connector.life import live
from app.cli.connector.report import Report
from app.cli.connector.tokens import WayIn
from app.errors import CallError, StartError
from app.settings import Settings

__all__ = ["Options", "run"]

MARKS: Final = {"ok": "ok       ", "failed": "FAILED   ", "not tried": "not tried"}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was given beside the address."""

    signin: str | None = None
    token: str | None = None
    user: str | None = None
    authority: Path | None = None


def run(settings: Settings, url: str, options: Options, *, as_json: bool) -> int:
    """Play the life, print, and answer with the exit code: 0 if nothing failed."""
    report = asyncio.run(_examined(settings, _endpoint(url), options))
    if as_json:
        emit(report.as_json())
    else:
        _say(report)
    return 1 if report.failed else 0


def _endpoint(url: str) -> str:
    """The address of the endpoint: exactly what was given, but for a bare origin, where it is /mcp."""
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise StartError(f"{url!r} is no address; give the one that clients use: https://memory.example.org/mcp")
    return f"{parts.scheme}://{parts.netloc}/mcp" if parts.path in ("", "/") else url


async def _examined(settings: Settings, url: str, options: Options) -> Report:
    own = settings.run.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    context = network.trust(own, *([options.authority] if options.authority else []))
    async with _way_in(settings, url, options) as way_in:
        return await live(url, way_in=way_in, token=options.token, context=context)


@asynccontextmanager
async def _way_in(settings: Settings, url: str, options: Options) -> AsyncIterator[WayIn | None]:
    """The link that was given, else the store of this machine's gateway if the address is one of its own."""
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}"
    async with AsyncExitStack() as stack:
        way_in: WayIn | None = Link(options.signin) if options.signin is not None else None
        used = _reached(settings) if way_in is None and address in settings.addresses else None
        if used is not None:
            try:
                way_in = await stack.enter_async_context(through_the_store(used, address, options.user))
            except (CallError, StartError) as error:
                if options.user is not None:
                    raise
                note(f"nobody can be signed in from here: {error.message}")
        yield way_in


def _reached(settings: Settings) -> Settings | None:
    from app.cli.database import running

    return settings if settings.store.neo4j_uri is not None else running(settings)


def _say(report: Report) -> None:
    for step in report.steps:
        say(f"{MARKS[step.state]}  {step.step}: {step.detail}")
        if step.remedy:
            say(f"           {step.remedy}")
    if report.failed is not None:
        say(f"A connector fails at the step {report.failed.step!r}.")
    elif report.complete:
        say("A connector lives: every step passed.")
    else:
        say("Nothing failed, but not every step was tried.")

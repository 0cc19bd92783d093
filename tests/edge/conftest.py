"""Real servers with the real edge before a small app of the test's own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from starlette.types import ASGIApp

from app.edge.context import through
from app.edge.listeners import bound_loopback, bound_unix
from app.edge.server import Served, serve_until
from app.edge.stages import Instruments, edge
from app.settings import EdgeSettings, LimitSettings, RunSettings, Settings
from tests.ports import NO_TLS, free_port


@dataclass
class Running:
    """A server that answers, its instruments, and how to stop it."""

    settings: Settings
    port: int
    unix: Path
    instruments: Instruments
    stop: asyncio.Event
    ended: asyncio.Task[None] = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://localhost:{self.port}"

    def client(self, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, **{"timeout": 10, "trust_env": False, "verify": NO_TLS, **options})

    def proxy(self) -> httpx2.AsyncClient:
        """A client at the Unix socket, where Caddy stands."""
        transport = httpx2.AsyncHTTPTransport(uds=str(self.unix), verify=NO_TLS)
        return httpx2.AsyncClient(base_url=f"http://localhost:{self.port}", transport=transport, timeout=10)

    async def raw(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Running]]


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, folder: Path, stop_seconds: float = 4.0, **edge_settings: Any
) -> AsyncIterator[Running]:
    port = free_port()
    open_requests = edge_settings.pop("open_requests", 1000)
    settings = Settings(
        run=RunSettings(home=folder, http_port=port, stop_seconds=stop_seconds),
        edge=EdgeSettings(**{"public_urls": (f"http://localhost:{port}", "https://memory.example"), **edge_settings}),
        limits=LimitSettings(open_requests=open_requests),
    )
    instruments = Instruments()
    whole = through(*edge(settings, instruments), to=app)
    stop = asyncio.Event()
    unix = folder / "s.sock"
    with bound_loopback(port, "GRAPHKEEP_HTTP_PORT") as sockets, bound_unix(unix) as listener:
        served = Served(whole, [*sockets, listener], stop_seconds=stop_seconds)
        ended = asyncio.create_task(serve_until(stop, [served], instruments.drain, seconds=stop_seconds))
        try:
            yield Running(settings, port, unix, instruments, stop, ended)
        finally:
            stop.set()
            await asyncio.wait_for(ended, stop_seconds + 5)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    def start(app: ASGIApp, **options: Any) -> contextlib.AbstractAsyncContextManager[Running]:
        return serving(app, tmp_path, **options)

    return start


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.005)


def body_of(answer: httpx2.Response) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(answer.content)
    return found

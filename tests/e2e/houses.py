"""Gateways that are restarted under a client: two replicas in this process, or real processes that are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx2

from app.settings import EdgeSettings, RunSettings, Settings
from tests.cli.conftest import GRAPHKEEP
from tests.conftest import Server
from tests.gateway import running, settings_for
from tests.identity import SECRET_KEY
from tests.ports import NO_TLS, free_port

ADDRESS = "https://memory.test"
"""Public address of the gateway: both replicas answer for it, as behind a proxy that shares the load."""

PATIENCE = 120.0
RESTARTED = (3, 5)


def plain(socket: Path) -> httpx2.AsyncHTTPTransport:
    """To a replica, as the proxy in front reaches it."""
    return httpx2.AsyncHTTPTransport(uds=str(socket), verify=NO_TLS)


class House(Protocol):
    """Two replicas on one database."""

    settings: Settings
    generation: int

    @property
    def sockets(self) -> Sequence[Path]:
        """Where they listen."""

    async def restart(self, *, short: bool = False) -> None:
        """Stop and start both; ``short``: access tokens live for a second."""


@dataclass
class InProcess:
    """Replicas in this process, each with a home and everything that it opens of its own."""

    settings: Settings
    replicas: list[Settings]
    generation: int = 0
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, server: Server, homes: Sequence[Path]) -> AsyncIterator[InProcess]:
        replicas = [settings_for(server, home) for home in homes]
        for replica in replicas:
            replica.edge = EdgeSettings(public_urls=(ADDRESS,))
        house = cls(replicas[0], replicas)
        await house.restart()
        try:
            yield house
        finally:
            await house._stack.aclose()

    @property
    def sockets(self) -> list[Path]:
        return [replica.run.socket_path for replica in self.replicas]

    async def restart(self, *, short: bool = False) -> None:
        await self._stack.aclose()
        self._stack = contextlib.AsyncExitStack()
        self.generation += 1
        # Below what an operator may set: a test cannot wait for a minute.
        seconds = {"access_token_seconds": 1} if short else {}
        for replica in self.replicas:
            used = replica.having()
            used.oauth = replica.oauth.model_copy(update=seconds)
            await self._stack.enter_async_context(running(used, ""))


@dataclass
class Processes:
    """Replicas that are programs of their own, started as systemd starts them; the second stop is a kill.

    A start takes seconds, so they are restarted twice: between consent and token, and before the parallel refreshes.
    """

    settings: Settings
    homes: Sequence[Path]
    environment: dict[str, str]
    generation: int = 0
    _ends: int = 0
    _running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, server: Server, homes: Sequence[Path]) -> AsyncIterator[Processes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NEO4J_", "GRAPHKEEP_"))}
        shared = {
            "NEO4J_URI": server.uri,
            "NEO4J_USER": server.user,
            "NEO4J_PASSWORD": server.password,
            "GRAPHKEEP_SECRET_KEY": SECRET_KEY,
            "GRAPHKEEP_PUBLIC_URLS": ADDRESS,
            "GRAPHKEEP_EMBEDDING": "none",
            "GRAPHKEEP_PLAN_AHEAD": "false",
        }
        house = cls(settings_for(server, homes[0]), homes, {**kept, **shared})
        try:
            await house._start()
            yield house
        finally:
            await house._stop(signal.SIGTERM)

    @property
    def sockets(self) -> list[Path]:
        return [RunSettings(home=home).socket_path for home in self.homes]

    async def restart(self, *, short: bool = False) -> None:
        self._ends += 1
        if self._ends in RESTARTED:
            await self._stop(signal.SIGKILL if self.generation % 2 == 0 else signal.SIGTERM)
            await self._start()

    async def _start(self) -> None:
        self.generation += 1
        self._running = [self._started(home) for home in self.homes]
        for socket, process in zip(self.sockets, self._running, strict=True):
            await _answering(socket, process)

    def _started(self, home: Path) -> subprocess.Popen[bytes]:
        own = {"GRAPHKEEP_HOME": str(home), "GRAPHKEEP_HTTP_PORT": str(free_port())}
        log = (home / "serve.log").open("ab")
        with log:
            return subprocess.Popen([*GRAPHKEEP, "serve"], env={**self.environment, **own}, stdout=log, stderr=log)

    async def _stop(self, how: signal.Signals) -> None:
        for process in self._running:
            process.send_signal(how)
        for process in self._running:
            await asyncio.to_thread(process.wait, PATIENCE)
        self._running = []


async def _answering(socket: Path, process: subprocess.Popen[bytes]) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        httpx2.AsyncClient(transport=plain(socket), base_url="http://localhost") as client,
    ):
        while process.poll() is None:
            with contextlib.suppress(httpx2.HTTPError):
                if (await client.get("/healthz")).status_code == httpx2.codes.OK:
                    return
            await asyncio.sleep(0.1)
        raise AssertionError(f"the gateway ended with {process.returncode}")


class Alternating(httpx2.AsyncBaseTransport):
    """The proxy in front: each request goes to the other replica than the one before."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._generation = -1
        self._transports: list[httpx2.AsyncHTTPTransport] = []
        self._turn = 0
        self.spent: list[tuple[str, float]] = []
        """Path and seconds of each request."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._generation != self._house.generation:  # connections to the replicas of before are of no use
            self._generation, stale = self._house.generation, self._transports
            self._transports = [plain(socket) for socket in self._house.sockets]
            await _closed(stale)
        async with asyncio.timeout(PATIENCE):
            while True:
                response = await self._sent(request)
                if response.status_code != httpx2.codes.SERVICE_UNAVAILABLE:
                    return response
                # Refused by the edge before it was read: a machine too busy to serve, with all of this in one process.
                await response.aclose()
                await asyncio.sleep(float(response.headers.get("retry-after", "1")))

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        transport = self._transports[self._turn % len(self._transports)]
        self._turn += 1
        sent = httpx2.Request(
            request.method,
            request.url.copy_with(scheme="http"),
            headers=[*request.headers.raw, (b"X-Forwarded-Proto", b"https")],
            stream=request.stream,
            extensions=request.extensions,
        )
        began = time.perf_counter()
        response = await transport.handle_async_request(sent)
        self.spent.append((request.url.path, time.perf_counter() - began))
        return response

    async def aclose(self) -> None:
        """Every client of a life shares this: it outlives each of them."""

    async def shut(self) -> None:
        await _closed(self._transports)


async def _closed(transports: Sequence[httpx2.AsyncHTTPTransport]) -> None:
    for transport in transports:
        await transport.aclose()

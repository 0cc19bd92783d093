"""What is measured on: a fresh home with its own database, gateways as processes of their own, tenants, tokens."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil
from neo4j import AsyncDriver
from pydantic import SecretStr

from app.access.accounts import Accounts
from app.access.layers import scope_for
from app.access.service import accounts_of
from app.context import Deadline, Principal, Role
from app.contract import Call, Tool
from app.embedding.provider import Embedder
from app.ingest.service import IngestService
from app.ingest.tools import TOOLS as INGEST
from app.memory.service import MemoryService
from app.memory.tools import TOOLS
from app.protocol.progress import silent
from app.settings import EmbeddingSettings, RunSettings, Settings, StoreSettings
from app.store.database import Database
from app.store.embedded import EmbeddedServer
from app.store.schema import migrate
from bench.dataset import Dataset, TenantGraph, fill
from bench.script import RecordingDriver, RecordingEmbedder, Script, Tape, Target
from bench.wire import Connection, tool_call

__all__ = ["Gateway", "Stage", "called", "gateway", "opened", "said"]

ROOT: Final = Path(__file__).resolve().parents[1]
READY_SECONDS: Final = 180.0
_RECORDING_SECONDS: Final = 120.0
UNLIMITED: Final = {
    "GRAPHKEEP_CALLS_PER_MINUTE": "10000000",
    "GRAPHKEEP_BURST": "1000000",
    "GRAPHKEEP_CONCURRENT_READS": "64",
    "GRAPHKEEP_CONCURRENT_WRITES": "64",
}
"""Where the limiter itself is not what is measured."""


def said(line: str) -> None:
    """Tell whoever waits how far it is."""
    print(f"{datetime.now():%H:%M:%S} {line}", file=sys.stderr, flush=True)


@dataclass
class Stage:
    """The opened database with its data, and two tenants that call: the first holds as much as all others."""

    home: Path
    target: Target
    driver: AsyncDriver
    """Bare, for what is not measured."""
    graphs: list[TenantGraph]
    principal: Principal
    tokens: list[str]
    """Of the first tenant, each a client of its own."""
    noisy: str
    """Of the second tenant."""
    filled_seconds: float
    tape: Tape
    service: MemoryService
    """Whose database and model write on the tape."""
    ingest: IngestService
    """Its database does too."""
    accounts: Accounts

    async def newcomer(self, name: str) -> str:
        """A tenant of this name with nothing in it; a token of its owner."""
        tenant = await self.accounts.create_tenant(name)
        user, _ = await self.accounts.add_user("bench@example.com", tenant.name, Role.OWNER)
        return (await self.accounts.create_token(user.email, tenant.name)).text

    async def record(self, tool_name: str, arguments: Mapping[str, Any]) -> Script:
        """Run a tool here, for the first tenant, and write down what it asks of the database."""
        tool, service = next((tool, service) for tool, service in self._tools() if tool.name == tool_name)
        call = Call(
            tool=tool.name,
            request_id="bench",
            principal=self.principal,
            scope=scope_for(self.principal, None, writes=not tool.read_only),
            deadline=Deadline.after(_RECORDING_SECONDS),
            progress=silent,
        )
        self.tape.take()
        await tool.run(service, call, tool.input.model_validate(arguments))
        return self.tape.take()

    def _tools(self) -> list[tuple[Tool, Any]]:
        return [*((tool, self.service) for tool in TOOLS), *((tool, self.ingest) for tool in INGEST)]


@asynccontextmanager
async def opened(home: Path, *, tenants: int, entities: int, relations: int) -> AsyncIterator[Stage]:
    """Start the database of ``home``, make the tenants and fill in the data."""
    run = RunSettings(home=home, http_port=_free_port(), https_port=_free_port(), log_level="warning")
    store = StoreSettings()
    server = EmbeddedServer(home, heap=store.heap, page_cache=store.page_cache, engine_cache=store.engine_cache)
    address = await server.start(said)
    target = Target(address.uri, address.user, address.password)
    settings = Settings(
        run=run,
        store=store.model_copy(update={"neo4j_uri": address.uri, "neo4j_password": SecretStr(address.password)}),
        embedding=EmbeddingSettings(embedding="offline"),
    )
    driver = target.driver()
    database = Database(driver, target.database)
    embedder = Embedder(settings.embedding, home)
    try:
        said("Preparing the schema and the model")
        await migrate(database)
        await embedder.start(database)
        began = time.monotonic()
        accounts = accounts_of(settings, database)
        made = [await accounts.create_tenant(f"bench-{number}") for number in range(tenants)]
        tokens = []
        for tenant, count in ((made[0], 8), (made[1], 1)):
            user, _ = await accounts.add_user("bench@example.com", tenant.name, Role.OWNER)
            tokens.append([(await accounts.create_token(user.email, tenant.name)).text for _ in range(count)])
        said("Filling in the data")
        dataset = Dataset(tuple(tenant.data for tenant in made), entities, relations)
        graphs = await fill(driver, target.database, dataset, embedder.identity)
        tape = Tape()
        recorded: Any = RecordingDriver(driver, tape)
        watched: Any = RecordingEmbedder(embedder, tape)
        watching = Database(recorded, target.database)
        service, ingest = MemoryService(watching, watched, settings), IngestService(watching, settings)
        principal = await accounts.local_principal("bench@example.com", made[0].name)
        yield Stage(
            *(home, target, driver, graphs, principal, tokens[0], tokens[1][0]),
            time.monotonic() - began,
            *(tape, service, ingest, accounts),
        )
        await service.close()
    finally:
        await embedder.close()
        await driver.close()
        await server.stop()


@dataclass(frozen=True)
class Gateway:
    """A gateway that answers."""

    url: str
    pid: int

    def memory(self) -> float:
        """Its resident set, MiB."""
        return float(psutil.Process(self.pid).memory_info().rss) / 2**20

    def processor(self) -> float:
        """The processor time that it has taken, seconds."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@asynccontextmanager
async def gateway(stage: Stage, *, limits: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """Run ``graphkeep serve`` as a process: uvloop, httptools, one worker, its log in a file as in service."""
    port = _free_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GRAPHKEEP_")},
        "PYTHONPATH": str(ROOT),
        "GRAPHKEEP_HOME": str(stage.home),
        "GRAPHKEEP_HTTP_PORT": str(port),
        "GRAPHKEEP_HTTPS_PORT": str(_free_port()),
        "GRAPHKEEP_EMBEDDING": "offline",
        "NEO4J_URI": stage.target.uri,
        "NEO4J_USER": stage.target.user,
        "NEO4J_PASSWORD": stage.target.password,
        **limits,
    }
    path = stage.home / f"gateway-{port}.log"
    with path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", "from app.cli import main; main()", "serve"),
            cwd=stage.home,
            env=environment,
            stderr=log,
        )
    said("Starting a gateway")
    try:
        await _until_ready(f"http://localhost:{port}/readyz", path, process)
        yield Gateway(f"http://localhost:{port}/mcp", process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def called(running: Gateway, token: str, tool: str, arguments: dict[str, Any]) -> None:
    """Call a tool over a connection of its own, for what is not measured.

    Raises:
        RuntimeError: the gateway refuses.
    """
    connection = await Connection.open(running.url)
    try:
        message = await connection.call(tool_call(running.url, token, tool, arguments))
    finally:
        await connection.close()
    if not message["result"]["structuredContent"]["ok"]:
        raise RuntimeError(f"{tool} was refused: {message['result']['structuredContent']['reason']}")


async def _until_ready(url: str, log: Path, process: asyncio.subprocess.Process) -> None:
    """Wait for the model too, so that searches are whole, and for the plans, which are made beside the first calls."""
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.returncode is None:
        if b"ready: " in await asyncio.to_thread(_asked, url) and b'"planned"' in await asyncio.to_thread(
            log.read_bytes
        ):
            return
        await asyncio.sleep(0.2)
    raise RuntimeError(f"the gateway does not become ready:\n{(await asyncio.to_thread(log.read_text))[-2000:]}")


def _asked(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            body: bytes = answer.read()
    except (OSError, urllib.error.URLError):
        return b""
    return body


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

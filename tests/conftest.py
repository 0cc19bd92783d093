"""What every test may use: a real server, a migrated database, fresh tenants."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from app.context import Deadline, Scope
from app.errors import DeadlineExceeded
from app.store import integrity
from app.store.database import Database, TenantSession
from app.store.embedded import EmbeddedServer
from app.store.schema import migrate
from tests.order import ordered

if TYPE_CHECKING:
    from playwright.async_api import Browser

_OPEN: list[Database] = []

# A test database lives for minutes, most of them spent on planning what is new to it. The optimising compiler takes
# two fifths of its time for code that ends before it pays; the code cache is as large as with it.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = ordered(items)


@dataclass(frozen=True, slots=True)
class Server:
    """A Neo4j server for tests."""

    uri: str
    user: str
    password: str
    database: str = "neo4j"

    async def connect(self, *, pool_size: int = 20) -> Database:
        return await Database.connect(self.uri, self.user, self.password, self.database, pool_size=pool_size)


_USING = frozenset({"database", "neo4j_server"})
FIGURES = "figures"
CHROMIUM = "/usr/bin/chromium"


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """``show(text)``: text that stands below the results of the whole run, whichever process measured it."""
    return lambda text: record_property(FIGURES, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    shown = [
        text
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, text in report.user_properties
        if name == FIGURES
    ]
    if shown:
        terminalreporter.section("measured")
        for text in shown:
            terminalreporter.write_line(str(text))


@pytest_asyncio.fixture(scope="session")
async def neo4j_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """The server named by GRAPHKEEP_TEST_NEO4J (with GRAPHKEEP_TEST_NEO4J_PASSWORD), else one of our own."""
    named = os.environ.get("GRAPHKEEP_TEST_NEO4J")
    if named:
        yield Server(named, "neo4j", os.environ["GRAPHKEEP_TEST_NEO4J_PASSWORD"])
        return
    embedded = EmbeddedServer(tmp_path_factory.mktemp("neo4j"), engine_cache=engine_cache())
    address = await embedded.start(print)
    yield Server(address.uri, address.user, address.password)
    await embedded.stop()


def engine_cache() -> Path:
    """Where the engine's files are kept between test runs."""
    return Path(os.environ.get("GRAPHKEEP_ENGINE_CACHE", "~/.graphkeep/engine")).expanduser()


@pytest_asyncio.fixture(scope="session")
async def database(neo4j_server: Server) -> AsyncIterator[Database]:
    """A migrated database, shared by all tests: each works in tenants of its own."""
    opened = await neo4j_server.connect()
    try:
        await opened.verify()
        await _migrated(opened)
        _OPEN.append(opened)
        yield opened
        _OPEN.remove(opened)
    finally:
        await opened.close()


async def _migrated(database: Database) -> None:
    """As a gateway does it: what a cold engine on a busy machine did not end in time goes on with the next attempt."""
    for _ in range(2):
        with contextlib.suppress(DeadlineExceeded):
            await migrate(database)
            return
    await migrate(database)


@pytest_asyncio.fixture(scope="module", autouse=True)
async def _whole_graph_is_sound(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """After every module that used the database: no crossing relationship, no record without a partition."""
    yield
    if any(not _USING.isdisjoint(each.fixturenames) for each in request.session.items if each.path == request.path):
        for opened in _OPEN:
            assert await integrity.check(opened) == []


@pytest_asyncio.fixture(scope="session")
async def chrome() -> AsyncIterator[Browser]:
    """A real Chromium, started once; each test opens contexts of its own in it."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
def tenant() -> str:
    """A data id that no other test knows."""
    return "d" + secrets.token_hex(8)


@pytest.fixture
def open_session(database: Database) -> Callable[..., TenantSession]:
    """``open_session(tenant, layers=("",), write_layer="", writable=None)``; writable defaults to the write layer."""

    def opened(
        tenant: str,
        layers: Sequence[str] = ("",),
        write_layer: str | None = "",
        writable: Sequence[str] | None = None,
        *,
        seconds: float = 15.0,
        subject: str = "tester",
    ) -> TenantSession:
        if writable is None:
            writable = () if write_layer is None else (write_layer,)
        scope = Scope(tenant, tuple(layers), tuple(writable), write_layer, subject)
        return database.session(scope, deadline=Deadline.after(seconds), request_id="test")

    return opened

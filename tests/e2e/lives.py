"""Lives of connectors: the SDK's own client against two replicas of a gateway that answer in turn and are restarted.

Lives go in lockstep: when each of them has come to the end of a step, both replicas are stopped and started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from app.access.service import accounts_of
from app.cli.connector.browser import Browser
from app.context import Role
from app.oauth.clients.pinned import CLAUDE, CLAUDE_CODE
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import digest
from app.settings import EdgeSettings, RunSettings, Settings
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.database import Database
from tests.cli.conftest import GRAPHKEEP
from tests.conftest import Server
from tests.gateway import running, settings_for
from tests.identity import SECRET_KEY, fresh_email, fresh_name
from tests.ports import free_port

ADDRESS = "https://memory.test"
"""Public address of the gateway: both replicas answer for it, as behind a proxy that shares the load."""

ALLOW = ("answer", "allow")
WRITE = "memory:write"
PATIENCE = 120.0
RESTARTED = (3, 5)


NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Made once: reading the system's authorities for each transport takes longer than a request."""


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


class Lockstep:
    """Waits until every life has ended its step, and has the gateway restarted before the next one."""

    def __init__(self, lives: int, house: House) -> None:
        self._house = house
        self._arrived, self._go_on = asyncio.Barrier(lives), asyncio.Barrier(lives)

    async def next(self, *, short: bool = False) -> None:
        """A step has ended."""
        async with asyncio.timeout(PATIENCE):
            if await self._arrived.wait() == 0:
                await self._house.restart(short=short)
            await self._go_on.wait()

    async def abort(self) -> None:
        """A life has failed: the others need not wait for it."""
        await self._arrived.abort()
        await self._go_on.abort()


class Kept(TokenStorage):
    """What a client keeps on its disk."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.received: list[str] = []
        """Every refresh token that came."""

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.received.append(tokens.refresh_token or "")

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclass(frozen=True)
class Kind:
    """How a client introduces itself: by a document's address, or by registering."""

    name: str
    redirect: str
    document: str | None = None


KINDS = (
    Kind("claude.ai", str(CLAUDE["redirect_uris"][0]), str(CLAUDE["client_id"])),
    Kind("Claude Code", "http://localhost:49153/callback", str(CLAUDE_CODE["client_id"])),
    Kind("registered", "http://127.0.0.1:49152/callback"),
)


@dataclass
class Life:
    """One client, what it keeps, and the person who answers for it."""

    house: House
    kind: Kind
    browser: Browser
    transport: Alternating
    pace: Callable[[], Awaitable[None]] | None = None
    kept: Kept = field(default_factory=Kept)
    asked: int = 0
    """How often the person had to answer."""
    ticks: bool = False
    """Whether the person allows writing too."""
    durations: list[float] = field(default_factory=list)
    """Seconds from authorization request to tokens, without the restarts in between."""
    _back: dict[str, str] = field(default_factory=dict)
    _began: int = 0

    @property
    def url(self) -> str:
        return f"{ADDRESS}/mcp"

    @property
    def tokens(self) -> OAuthToken:
        assert self.kept.tokens is not None
        return self.kept.tokens

    def provider(self, *, expired: bool = False) -> OAuthClientProvider:
        """The SDK's client, begun anew with what is kept; ``expired``: it knows that its hour is over."""
        metadata = OAuthClientMetadata(
            client_name=self.kind.name, redirect_uris=[AnyUrl(self.kind.redirect)], token_endpoint_auth_method="none"
        )
        made = OAuthClientProvider(
            self.url, metadata, self.kept, self._open, self._returned, client_metadata_url=self.kind.document
        )
        if expired:
            made.context.token_expiry_time = 1.0
        return made

    async def call(
        self, tool: str, arguments: dict[str, Any], *, mode: Any = "auto", expired: bool = False
    ) -> dict[str, Any]:
        """Connect as any client does, and call a tool; again while the answer says that it may help."""
        http = httpx2.AsyncClient(auth=self.provider(expired=expired), transport=self.transport, timeout=PATIENCE)
        async with http, Client(streamable_http_client(self.url, http_client=http), mode=mode) as client:
            if self.pace is not None:
                assert tool in {tool.name for tool in (await client.list_tools()).tools}
            async with asyncio.timeout(PATIENCE):
                while True:
                    said = (await client.call_tool(tool, arguments)).structured_content or {}
                    if not said.get("retryable"):
                        return said
                    await asyncio.sleep(0.5)

    async def post(self, path: str, **form: str) -> httpx2.Response:
        """A request of the client's own, without the SDK."""
        assert self.kept.client is not None
        async with httpx2.AsyncClient(transport=self.transport, timeout=PATIENCE) as http:
            return await http.post(f"{ADDRESS}{path}", data={"client_id": self.kept.client.client_id or "", **form})

    async def works(self) -> bool:
        """Whether the access token is let through."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        headers = {
            "Authorization": f"Bearer {self.tokens.access_token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2025-11-25",
        }
        async with httpx2.AsyncClient(transport=self.transport, timeout=PATIENCE) as http:
            return (await http.post(self.url, json=body, headers=headers)).status_code == httpx2.codes.OK

    async def _pause(self) -> None:
        if self.pace is not None:
            await self.pace()

    async def _open(self, url: str) -> None:
        """The person: opens the address, signed in already, and allows what is asked."""
        self.asked += 1
        await self._pause()
        self._began = len(self.transport.spent)
        page = await self.browser.get(url)
        form = page.form(*ALLOW)
        assert form is not None, (page.url, page.status, page.text[:500], page.elsewhere)
        form.fields = [(name, value) for name, value in form.fields if value != WRITE]
        if self.ticks:
            form.fields.append(("scope", WRITE))
        await self._pause()
        back = await self.browser.submit(page, form, ALLOW)
        assert back.elsewhere.startswith(self.kind.redirect), (back.url, back.status, back.text[:500])
        self._back = {name: found[0] for name, found in parse_qs(urlsplit(back.elsewhere).query).items()}
        await self._pause()

    async def _returned(self) -> AuthorizationCodeResult:
        back = self._back
        return AuthorizationCodeResult(code=back["code"], state=back["state"], iss=back["iss"])

    def note_duration(self) -> None:
        """Add up what the last authorization took: the questions, the answer and the token."""
        spent = self.transport.spent[self._began :]
        wanted = [seconds for path, seconds in spent if path in ("/authorize", "/consent")]
        wanted += [seconds for path, seconds in spent if path == "/token"][:1]
        self.durations.append(sum(wanted))


async def begin(house: House, kind: Kind, database: Database) -> Life:
    """A client that knows nothing but an address, and a person with a tenant of their own who is signed in."""
    accounts = accounts_of(house.settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    user, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    session, now = secrets.token_urlsafe(32), time.time()
    await BrowserStore(database.control).add_session(SessionRecord(digest(session), user.id, ADDRESS, now, now + 7200))
    transport = Alternating(house)
    browser = Browser(httpx2.AsyncClient(transport=transport, timeout=PATIENCE), ADDRESS)
    browser.cookies[cookie_name(ADDRESS)] = session
    return Life(house, kind, browser, transport)


async def live(life: Life, lockstep: Lockstep, *, expiring: bool) -> None:
    """A whole life: connect, be renewed, ask for more, be ended, connect again. ``expiring``: tokens really expire."""
    relation = {"from_name": "Ada", "from_type": "Person", "relation": "USES", "to_name": "Loom", "to_type": "Object"}
    life.pace = lockstep.next
    found = await life.call("graph_entities", {})
    life.pace = None
    life.note_duration()
    assert found["ok"], found
    assert life.asked == 1
    await lockstep.next()
    assert (await life.call("graph_entities", {}, mode="legacy"))["ok"]
    await lockstep.next(short=expiring)

    if expiring:
        renewed = await life.post("/token", grant_type="refresh_token", refresh_token=life.tokens.refresh_token or "")
        await life.kept.set_tokens(OAuthToken.model_validate(renewed.json()))
        async with asyncio.timeout(PATIENCE):
            while await life.works():  # noqa: ASYNC110 (a token that expires rings no bell)
                await asyncio.sleep(0.2)
        await lockstep.next()

    before = len(life.kept.received)
    answers = await asyncio.gather(
        *(life.call("graph_entities", {}, mode=mode, expired=True) for mode in ("auto", "legacy"))
    )
    assert all(answer["ok"] for answer in answers)
    # Two refreshes in parallel with one token: both got the same successor, or the second came after the first.
    assert 1 <= len(life.kept.received) - before <= 2
    assert life.asked == 1, "a person had to answer again though only an hour was over"
    await lockstep.next()

    life.ticks = True
    written = await life.call("graph_relate", relation)
    life.note_duration()
    assert written["ok"], written
    assert life.asked == 2, "asked once for what was missing"
    await lockstep.next()

    assert (await life.post("/revoke", token=life.tokens.refresh_token or "")).status_code == httpx2.codes.OK
    async with asyncio.timeout(PATIENCE):
        while await life.works():  # noqa: ASYNC110 (within 5 s on every replica)
            await asyncio.sleep(0.2)
    await lockstep.next()
    assert "Loom" in str(await life.call("graph_query", {"entities": ["Ada"]}, mode="legacy"))
    life.note_duration()
    assert life.asked == 3


async def live_together(
    house: House, database: Database, lives: int, *, expiring: bool = True, first: int = 0
) -> list[Life]:
    """So many lives in lockstep, of every kind in turn.

    Raises:
        ExceptionGroup: what failed in any of them.
    """
    begun = [await begin(house, KINDS[(first + number) % len(KINDS)], database) for number in range(lives)]
    lockstep = Lockstep(lives, house)

    async def one(life: Life) -> None:
        try:
            await live(life, lockstep, expiring=expiring)
        except BaseException:
            await lockstep.abort()
            raise

    ended = await asyncio.gather(*(one(life) for life in begun), return_exceptions=True)
    for life in begun:
        await life.transport.shut()
    failed = [
        error for error in ended if isinstance(error, Exception) and not isinstance(error, asyncio.BrokenBarrierError)
    ]
    if failed:
        raise ExceptionGroup("lives that failed", failed)
    return begun

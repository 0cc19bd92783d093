"""Lives of connectors: the SDK's own client against two replicas of a gateway that answer in turn and are restarted.

Lives go in lockstep: when each of them has come to the end of a step, both replicas are stopped and started again.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
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
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.database import Database
from tests.e2e.houses import ADDRESS, PATIENCE, Alternating, House
from tests.identity import fresh_email, fresh_name

ALLOW = ("answer", "allow")
WRITE = "memory:write"


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

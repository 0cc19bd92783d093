"""The first connection as a person and their MCP client live it, through ``graphkeep dev`` with Caddy before it.

Both addresses, HTTPS and plain, are used from the 401 on: the SDK's own OAuth client, a real browser, both protocol
eras, and a restart. The tests follow one another on one gateway.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.async_api import Browser, BrowserContext, async_playwright
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.access.accounts import DEFAULT_OWNER
from tests.cli.conftest import Place
from tests.conftest import CHROMIUM
from tests.oauth.conftest import PASSWORD, serving

WAYS = ["https", "http"]
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


class Kept(TokenStorage):
    """What a client keeps on its disk."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.registration: OAuthClientInformationFull | None = None
        self.registrations = 0

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.registration

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.registration = client_info
        self.registrations += 1


class Agent:
    """An MCP client on this computer, and the browser that it opens."""

    def __init__(self, place: Place, address: str, browser: BrowserContext, callback: str) -> None:
        self.place = place
        self.address = address
        self.kept = Kept()
        self.asked = 0
        """How often a person had to answer."""
        self.back: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._browser = browser
        self.provider = OAuthClientProvider(
            f"{address}/mcp",
            OAuthClientMetadata(client_name="Agent of the test", redirect_uris=[AnyUrl(callback)]),
            self.kept,
            self._open,
            self._returned,
        )

    @property
    def token(self) -> str:
        assert self.kept.tokens is not None
        return self.kept.tokens.access_token

    async def _open(self, url: str) -> None:
        self.asked += 1
        page = await self._browser.new_page()
        await page.goto(url)
        if urlsplit(page.url).path == "/sign-in":
            await page.get_by_label("E-mail address").fill(DEFAULT_OWNER)
            await page.get_by_label("Password").fill(PASSWORD)
            await page.get_by_role("button", name="Sign in", exact=True).click()
        await page.wait_for_url(f"{self.address}/consent**")
        await page.get_by_role("link", name="home", exact=True).click()
        await page.get_by_role("button", name="Allow").click()
        await page.get_by_text("back at the client").wait_for()
        await page.close()

    async def _returned(self) -> AuthorizationCodeResult:
        values = await asyncio.wait_for(self.back.get(), 60)
        return AuthorizationCodeResult(code=values["code"], state=values["state"], iss=values["iss"])

    async def use(self, mode: Any, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Connect as any client does, and call one tool."""
        http = httpx2.AsyncClient(auth=self.provider, verify=trusting(self.place), trust_env=False, timeout=90)
        transport = streamable_http_client(f"{self.address}/mcp", http_client=http)
        async with http, Client(transport, mode=mode) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            assert tool in listed
            async with asyncio.timeout(120):
                while True:
                    result = await client.call_tool(tool, arguments)
                    said = result.structured_content or {}
                    if not said.get("retryable"):
                        return said
                    await asyncio.sleep(0.5)


def trusting(place: Place) -> ssl.SSLContext:
    """Trust in Caddy's root certificate and in nothing else of this machine."""
    return ssl.create_default_context(cafile=str(place.authority))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    made = Place(tmp_path_factory.mktemp("first-connection") / "home")
    made.launch()
    try:
        made.wait_until_ready()
        yield made
    finally:
        if made.process is not None:
            made.stop()


@pytest_asyncio.fixture(scope="module")
async def browser(place: Place) -> AsyncIterator[BrowserContext]:
    """A browser that knows Caddy's authority by its key, as one in whose store the root certificate was put."""
    pin = pin_of(place.authority.with_name("intermediate.crt"))
    async with async_playwright() as playwright:
        chrome: Browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", f"--ignore-certificate-errors-spki-list={pin}"],
        )
        context = await chrome.new_context()
        context.set_default_timeout(90_000)
        yield context
        await chrome.close()


def pin_of(certificate: Path) -> str:
    """SHA-256 of the public key, as Chromium takes it."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    return base64.b64encode(
        hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    ).decode()


@asynccontextmanager
async def listening(agents: dict[str, Agent]) -> AsyncIterator[int]:
    """Where the browser comes back to, one path for each agent."""

    async def callback(request: Request) -> Response:
        await agents[request.path_params["way"]].back.put(dict(request.query_params))
        return PlainTextResponse("back at the client")

    async with serving(Starlette(routes=[Route("/callback/{way}", callback)])) as port:
        yield port


@pytest_asyncio.fixture(scope="module")
async def agents(place: Place, browser: BrowserContext) -> AsyncIterator[dict[str, Agent]]:
    made: dict[str, Agent] = {}
    async with listening(made) as port:
        for way in WAYS:
            made[way] = Agent(place, place.ready[way], browser, f"http://127.0.0.1:{port}/callback/{way}")
        yield made


@pytest.fixture
def raw(place: Place) -> Iterator[httpx2.Client]:
    with httpx2.Client(verify=trusting(place), trust_env=False, timeout=60, headers=HEADERS) as client:
        yield client


async def test_the_one_time_link_signs_in_and_sets_the_password(place: Place, browser: BrowserContext) -> None:
    page = await browser.new_page()
    await page.goto(place.ready["signin"])
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_label("The same again").fill(PASSWORD)
    await page.get_by_role("button", name="Set password and sign in").click()
    await page.wait_for_url(f"{place.ready['https']}/signed-in")
    assert f"{place.ready['https']}/mcp" in await page.locator("body").inner_text()
    cookies = await browser.cookies(place.ready["https"])
    assert [cookie for cookie in cookies if cookie["name"].startswith("__Host-") and cookie["secure"]]
    await page.goto(place.ready["signin"])
    assert not await page.get_by_role("button", name="Set password and sign in").count()
    await page.close()


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_knows_only_the_address_gets_in_and_works_in_both_eras(
    agents: dict[str, Agent], way: str
) -> None:
    agent = agents[way]
    relation = {"from_name": "Ada", "from_type": "Person", "relation": "USES", "to_name": f"Address {way}"}
    kept = await agent.use("auto", "graph_relate", {**relation, "to_type": "Object"})
    assert kept["ok"], kept
    found = await agent.use("legacy", "graph_query", {"entities": ["Ada"]})
    assert f"Address {way}" in json.dumps(found)
    assert (agent.asked, agent.kept.registrations) == (1, 1)
    assert agent.kept.tokens is not None
    assert agent.kept.tokens.refresh_token


def test_a_token_of_one_address_is_refused_at_the_other(agents: dict[str, Agent], raw: httpx2.Client) -> None:
    for way, other in (WAYS, WAYS[::-1]):
        bearer = {"Authorization": f"Bearer {agents[way].token}"}
        assert raw.post(f"{agents[way].address}/mcp", json=LIST, headers=bearer).status_code == 200
        refused = raw.post(f"{agents[other].address}/mcp", json=LIST, headers=bearer)
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        assert 'error="invalid_token"' in challenge
        metadata = f'resource_metadata="{agents[other].address}/.well-known/oauth-protected-resource/mcp"'
        assert metadata in challenge


def test_a_client_of_one_address_is_unknown_at_the_other(agents: dict[str, Agent], raw: httpx2.Client) -> None:
    for way, other in (WAYS, WAYS[::-1]):
        kept = agents[way].kept
        assert kept.tokens is not None
        assert kept.registration is not None
        form = {
            "grant_type": "refresh_token",
            "refresh_token": kept.tokens.refresh_token,
            "client_id": kept.registration.client_id,
            "resource": f"{agents[other].address}/mcp",
        }
        if kept.registration.client_secret:
            form["client_secret"] = kept.registration.client_secret
        refused = raw.post(f"{agents[other].address}/token", data=form)
        assert refused.status_code in {400, 401}
        assert refused.json()["error"] in {"invalid_client", "invalid_grant", "invalid_target"}


def test_hosts_that_are_no_address_of_ours_are_told_so(place: Place, raw: httpx2.Client) -> None:
    for host in (f"127.0.0.1:{place.http}", f"[::1]:{place.http}", "evil.example", f"localhost:{place.https}"):
        for path in ("/mcp", "/register", "/.well-known/oauth-authorization-server"):
            answer = raw.post(f"{place.ready['http']}{path}", json=LIST, headers={"Host": host})
            assert answer.status_code == 421, (host, path)
            assert place.ready["https"] in answer.text


def test_what_a_client_says_of_its_way_is_not_believed(
    place: Place, agents: dict[str, Agent], raw: httpx2.Client
) -> None:
    told = {
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": f"localhost:{place.https}",
        "Forwarded": f"host=localhost:{place.https};proto=https",
        "X-Forwarded-For": "203.0.113.7",
    }
    bearer = {"Authorization": f"Bearer {agents['https'].token}"}
    # Straight at the loopback port it stays the plain address, where the token of the other one is none.
    assert raw.post(f"{place.ready['http']}/mcp", json=LIST, headers={**told, **bearer}).status_code == 401
    lies = {**told, "X-Forwarded-Proto": "http", "X-Forwarded-Host": "evil.example"}
    through_caddy = raw.get(f"{place.ready['https']}/.well-known/oauth-protected-resource/mcp", headers=lies)
    assert through_caddy.status_code == 200
    assert through_caddy.json()["resource"] == f"{place.ready['https']}/mcp"
    assert "evil.example" not in through_caddy.text


def test_the_socket_that_is_believed_is_closed_to_others(place: Place) -> None:
    socket = place.home / "run" / "gateway.sock"
    assert socket.is_socket()
    assert socket.stat().st_mode & 0o007 == 0
    assert socket.parent.stat().st_mode & 0o077 == 0


async def test_after_a_restart_tokens_work_on_and_are_refreshed_without_anyone(
    place: Place, agents: dict[str, Agent]
) -> None:
    """The hardest restart, after a kill: what is left of the gateway is no obstacle, and all data is there."""
    before = {way: agent.token for way, agent in agents.items()}
    authority, link = place.authority.read_bytes(), place.ready["signin"]
    assert place.process is not None
    place.process.kill()
    await asyncio.to_thread(place.process.communicate)
    place.launch()
    await asyncio.to_thread(place.wait_until_ready)
    assert place.authority.read_bytes() == authority
    assert place.ready["signin"] != link
    for way, agent in agents.items():
        found = await agent.use("auto", "graph_query", {"entities": ["Ada"]})
        assert f"Address {way}" in json.dumps(found)
        assert agent.token == before[way]
        agent.provider.context.token_expiry_time = 1.0  # its hour is over
        again = await agent.use("legacy", "graph_query", {"entities": ["Ada"]})
        assert f"Address {way}" in json.dumps(again)
        assert agent.token != before[way]
        assert (agent.asked, agent.kept.registrations) == (1, 1)


def test_no_token_and_no_word_of_the_memory_is_in_the_logs(place: Place, agents: dict[str, Agent]) -> None:
    secrets = [agent.token for agent in agents.values()] + [PASSWORD, "Address https", "Ada"]
    for log in (place.home / "logs").rglob("*"):
        text = log.read_text(errors="replace") if log.is_file() else ""
        assert not [secret for secret in secrets if re.search(rf"\b{re.escape(secret)}\b", text)], log

"""A real authorization server on a real port and a real database: one process, replicas, or restarted all the time."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
import pytest_asyncio
import uvicorn
from argon2 import PasswordHasher
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from app.context import RequestContext, Role
from app.edge.context import with_context
from app.oauth.login.sessions import cookie_name
from app.oauth.routes import routes
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer, issue_sign_in_link
from app.oauth.vault import Vault
from app.settings import EdgeSettings, OAuthSettings, Settings, SignInSettings
from app.store.control.browser import SessionRecord
from app.store.control.keys import Keys
from app.store.control.tenants import Tenant
from app.store.control.users import User
from app.store.database import Database
from tests.identity import sealer_of_tests
from tests.ports import NO_TLS

PASSWORD = "four plain words together"
CALLBACK = "http://127.0.0.1:49152/callback"


@pytest.fixture(autouse=True)
def _cheap_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same keys of passwords at the least cost: at their own, half of the time here would go into them."""
    monkeypatch.setattr(
        "app.oauth.login.passwords.PasswordHasher",
        partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1),
    )


@dataclass
class Gateway:
    """The server under test. ``replicas`` answer in turn; ``reborn`` makes a new process's state for each request."""

    address: str
    settings: Settings
    databases: Sequence[Database]
    reborn: bool = False
    services: list[AuthorizationServer] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self.services = [self._made(database) for database in self.databases]
        self._apps = [self._app(service) for service in self.services]

    def _made(self, database: Database) -> AuthorizationServer:
        return AuthorizationServer(database, self.settings, Vault(Keys(database.control), sealer_of_tests(Path())))

    def _app(self, service: AuthorizationServer) -> ASGIApp:
        return Starlette(routes=routes(service))

    @property
    def main(self) -> AuthorizationServer:
        return self.services[0]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        turn = self.requests % len(self.databases)
        self.requests += 1
        app = self._app(self._made(self.databases[turn])) if self.reborn else self._apps[turn]
        context = RequestContext(request_id="test", address=self.address)
        await app(with_context(scope, context), receive, send)


def free_socket() -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # without Nagle's 40 ms
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", 0))
    return listening


def settings_for(address: str, signin: SignInSettings | None = None, **oauth: Any) -> Settings:
    return Settings(
        edge=EdgeSettings(public_urls=(address,)), oauth=OAuthSettings(**oauth), signin=signin or SignInSettings()
    )


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    """Serve what ``app`` answers at the port that this yields."""
    listening = free_socket()
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", access_log=False))
    listening.listen(128)  # a request that comes before the server reads simply waits
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await task
        listening.close()


@pytest_asyncio.fixture(scope="session")
async def second_database(neo4j_server: Any, database: Database) -> AsyncIterator[Database]:
    opened = await neo4j_server.connect(pool_size=5)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def start_gateway(database: Database, second_database: Database) -> AsyncIterator[Callable[..., Any]]:
    async with AsyncExitStack() as running:

        async def start(*, replicas: int = 1, reborn: bool = False, **oauth: Any) -> Gateway:
            made: list[Gateway] = []

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                await made[0](scope, receive, send)

            port = await running.enter_async_context(serving(app))
            address = f"http://localhost:{port}"
            databases = [database, second_database][:replicas]
            made.append(Gateway(address, settings_for(address, **oauth), databases, reborn))
            return made[0]

        yield start


@pytest_asyncio.fixture
async def gateway(start_gateway: Callable[..., Any]) -> Gateway:
    started: Gateway = await start_gateway()
    return started


@dataclass
class Person:
    user: User
    tenant: Tenant
    email: str


@pytest.fixture
def make_person() -> Callable[..., Any]:
    """``await make_person(gateway, role=Role.OWNER, layers=())``: someone with a tenant of their own."""

    async def make(gateway: Gateway, *, role: Role = Role.OWNER, layers: Sequence[str] = ()) -> Person:
        services = gateway.main
        email = f"{secrets.token_hex(6)}@example.org"
        user = await services.users.create(email)
        tenant = await services.tenants.create(f"home {secrets.token_hex(6)}")
        if layers:
            tenant = await services.tenants.add_layers(tenant.id, layers) or tenant
        await services.users.put_membership(user.id, tenant.id, role)
        return Person(user, tenant, email)

    return make


def pkce() -> tuple[str, str]:
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    return verifier, challenge


def form_of(page: str) -> dict[str, list[str]]:
    """The fields of the first form of a page as a browser would send them."""
    fields: dict[str, list[str]] = {}
    first = re.search(r"<form.*?</form>", page, re.DOTALL)
    page = first[0] if first else page
    for tag in re.findall(r"<input[^>]*>", page):
        attributes = dict(re.findall(r'([a-z\-]+)="([^"]*)"', tag))
        if attributes.get("type") == "checkbox" and " checked" not in tag:
            continue
        if "name" in attributes:
            fields.setdefault(attributes["name"], []).append(attributes.get("value", ""))
    for name, body in re.findall(r'<select name="([^"]+)">(.*?)</select>', page, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', body) or re.search(r'value="([^"]*)"', body)
        if chosen:
            fields[name] = [chosen[1]]
    return fields


@dataclass
class Life:
    """A client and a browser that go through the flow with plain requests."""

    gateway: Gateway
    browser: httpx2.AsyncClient
    person: Person
    client: dict[str, Any] = field(default_factory=dict)
    verifier: str = ""
    state: str = ""

    @property
    def address(self) -> str:
        return self.gateway.address

    async def register(self, **metadata: Any) -> dict[str, Any]:
        body = {
            "client_name": "Test client",
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "none",
            **metadata,
        }
        response = await self.browser.post(f"{self.address}/register", json=body)
        assert response.status_code == 201, response.text
        self.client = response.json()
        return self.client

    def question(self, **changes: str | None) -> str:
        """The address of an authorization request; None leaves a parameter out."""
        self.verifier, challenge = pkce()
        self.state = secrets.token_urlsafe(8)
        parameters: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client["client_id"],
            "redirect_uri": self.client["redirect_uris"][0],
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": self.state,
            "resource": f"{self.address}/mcp",
            "scope": "memory:read memory:write offline_access",
            **changes,
        }
        given = {name: value for name, value in parameters.items() if value is not None}
        return f"{self.address}/authorize?{urlencode(given)}"

    async def ask(self, **changes: str | None) -> httpx2.Response:
        return await self.browser.get(self.question(**changes))

    async def sign_in(self, page: httpx2.Response, password: str = PASSWORD) -> httpx2.Response:
        fields = {**form_of(page.text), "email": [self.person.email], "password": [password]}
        return await self.browser.post(f"{self.address}/sign-in", data=fields)

    async def to_consent(self, **changes: str | None) -> httpx2.Response:
        """The consent page, signing in on the way where needed."""
        response = await self.follow(await self.ask(**changes))
        if "/sign-in" in str(response.url):
            response = await self.follow(await self.sign_in(response))
        assert response.status_code == 200, response.text
        return response

    async def follow(self, response: httpx2.Response) -> httpx2.Response:
        while response.status_code == 303 and response.headers["location"].startswith("/"):
            response = await self.browser.get(self.address + response.headers["location"])
        return response

    async def answer(self, page: httpx2.Response, answer: str = "allow", **changes: list[str]) -> httpx2.Response:
        fields = {**form_of(page.text), "answer": [answer], **changes}
        return await self.browser.post(f"{self.address}/consent", data=fields)

    async def code(self, **changes: str | None) -> str:
        response = await self.answer(await self.to_consent(**changes))
        return self.returned(response)["code"]

    def returned(self, response: httpx2.Response) -> dict[str, str]:
        """What the client receives at its redirect URI."""
        assert response.status_code == 303, response.text
        location = response.headers["location"]
        assert location.startswith(self.client["redirect_uris"][0].partition("?")[0]), location
        values = dict(parse_qsl(urlsplit(location).query))
        assert values["state"] == self.state
        assert values["iss"] == self.address
        return values

    async def token(self, **form: str | None) -> httpx2.Response:
        given = {"client_id": self.client["client_id"], **form}
        return await self.browser.post(
            f"{self.address}/token", data={name: value for name, value in given.items() if value is not None}
        )

    async def exchange(self, code: str | None, /, **changes: str | None) -> httpx2.Response:
        form: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.client["redirect_uris"][0],
            "code_verifier": self.verifier,
            "resource": f"{self.address}/mcp",
            **changes,
        }
        return await self.token(**form)

    async def refresh(self, refresh_token: str, **changes: str | None) -> httpx2.Response:
        return await self.token(grant_type="refresh_token", refresh_token=refresh_token, **changes)

    async def tokens(self, **changes: str | None) -> dict[str, Any]:
        response = await self.exchange(await self.code(**changes))
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def claims(self, access_token: str) -> dict[str, Any]:
        _, claims = (await self.gateway.main.ring()).verify(access_token)
        return claims


@pytest_asyncio.fixture
async def open_life(make_person: Callable[..., Any]) -> AsyncIterator[Callable[..., Any]]:
    browsers: list[httpx2.AsyncClient] = []

    async def opened(gateway: Gateway, person: Person | None = None, *, signed_in: bool = True, **kind: Any) -> Life:
        browser = httpx2.AsyncClient(trust_env=False, timeout=20, verify=NO_TLS)
        browsers.append(browser)
        life = Life(gateway, browser, person or await make_person(gateway, **kind))
        if signed_in:
            # A session as `sign_in` leaves it: deriving a password key for each test would cost half a minute.
            token, now = secrets.token_urlsafe(32), time.time()
            await gateway.main.browser.add_session(
                SessionRecord(digest(token), life.person.user.id, gateway.address, now, now + 600)
            )
            browser.cookies.set(cookie_name(gateway.address), token, domain="localhost.local")
        return life

    yield opened
    for browser in browsers:
        await browser.aclose()


@pytest_asyncio.fixture
async def life(gateway: Gateway, open_life: Callable[..., Any]) -> Life:
    """A registered client and a person who may consent."""
    made: Life = await open_life(gateway)
    await made.register()
    return made


async def link_for(gateway: Gateway, person: Person) -> str:
    return await issue_sign_in_link(gateway.main, person.user.id, gateway.address)

"""A console on a real port and a real database, with a tenant that has a bit of everything."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from app.access.accounts import Accounts
from app.console.routes import routes as console_routes
from app.console.service import Console
from app.context import RequestContext, Role
from app.edge.context import with_context
from app.oauth.login.sessions import cookie_name
from app.oauth.routes import routes
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.browser import SessionRecord
from app.store.control.grants import GrantRecord
from app.store.control.passkeys import Passkey
from app.store.control.tenants import Tenant
from app.store.control.users import User
from app.store.database import Database
from tests.identity import accounts_on, vault_of
from tests.oauth.conftest import serving, settings_for

Form = Mapping[str, str | list[str]]
AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


@dataclass
class Stage:
    """The gateway's pages, served. ``held`` is what every tenant seems to hold."""

    address: str
    services: AuthorizationServer
    console: Console
    client: httpx2.AsyncClient

    async def person(self, *places: tuple[Tenant, Role], name: str = "", **layers: Sequence[str]) -> Person:
        """Someone who belongs to these tenants."""
        user = await self.services.users.create(f"{name or 'someone'}.{secrets.token_hex(3)}@example.org")
        for tenant, role in places:
            await self.services.users.put_membership(user.id, tenant.id, role, **layers)
        return Person(self, user, await self.sign_in(user))

    async def sign_in(self, user: User, *, ago: float = 0.0) -> str:
        """The cookie of a session of this user."""
        token, now = secrets.token_urlsafe(32), time.time()
        record = SessionRecord(digest(token), user.id, self.address, now - ago, now + 6000, "password", AGENT)
        await self.services.browser.add_session(record)
        return token

    async def tenant(self, name: str, *layers: str) -> Tenant:
        """A tenant with layers."""
        made = await self.services.tenants.create(f"{name} {secrets.token_hex(3)}")
        return await self.services.tenants.add_layers(made.id, layers) or made

    async def operators(self) -> Tenant:
        """The operators' tenant, which all tests share."""
        return await self.services.tenants.ensure("admin", admin=True)

    async def grant(self, user: User, tenant: Tenant, name: str = "Claude", **changes: Any) -> GrantRecord:
        """A program that the user connected."""
        now = time.time()
        record = GrantRecord(
            id=f"gr-{secrets.token_hex(12)}",
            user=user.id,
            tenant=tenant.id,
            client=secrets.token_hex(32),
            client_id="gk1.test",
            client_name=name,
            host="claude.ai",
            issuer=self.address,
            asked=["memory:read", "memory:write", "ledger:read", "offline_access"],
            scopes=["memory:read", "memory:write"],
            read_layers=[""],
            write_layers=[""],
            created_at=now - 86_400 * 3,
            last_used=now - 300,
            expires_at=now + 86_400,
            write_layer="",
        )
        values = {name: getattr(record, name) for name in record.__slots__} | changes
        made = GrantRecord(**values)
        await self.services.grants.add(made)
        return made

    async def passkey(self, user: User, name: str) -> Passkey:
        """A passkey that nobody holds."""
        now = time.time()
        credential = secrets.token_urlsafe(16)
        made = Passkey(
            secrets.token_hex(32), user.id, name, "localhost", credential, "", 0, ["internal"], True, now - 90_000, now
        )
        assert await self.console.passkeys.add(made)
        return made


@dataclass
class Person:
    """Someone with a browser that is signed in, driven by plain requests."""

    stage: Stage
    user: User
    cookie: str

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": f"{cookie_name(self.stage.address)}={self.cookie}"}

    async def get(self, path: str, **query: str) -> httpx2.Response:
        """A page. A query in ``path`` stays as it is."""
        return await self.stage.client.get(path, params=query or None, headers=self.headers)

    async def send(self, path: str, form: Form, **headers: str) -> httpx2.Response:
        """A form, just as it is given."""
        return await self.stage.client.post(path, data=dict(form), headers=self.headers | headers)

    async def token(self, action: str) -> str:
        """The token that the form of ``action`` has in this browser, whether it is shown or not."""
        return (await self.stage.services.secrets()).token("csrf", self.stage.address, self.cookie, action)

    async def post(self, action: str, form: Form | None = None) -> httpx2.Response:
        """Send the form of ``action`` as its page would, even if no page shows it to this person."""
        return await self.send(action, {"csrf": await self.token(action), **(form or {})})

    async def after(self, response: httpx2.Response) -> httpx2.Response:
        """The page that a form leads on to."""
        assert response.status_code == 303, response.text
        return await self.get(response.headers["location"])


def text_of(page: httpx2.Response) -> str:
    """What a page says, without mark-up."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


@asynccontextmanager
async def open_stage(database: Database, home: Path, *, held: tuple[int, int] = (1234, 5678)) -> AsyncIterator[Stage]:
    """Serve the pages on a free port."""
    apps: list[Starlette] = []
    stages: list[Stage] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        context = RequestContext(request_id="test", address=stages[0].address)
        await apps[0](with_context(scope, context), receive, send)

    async def counted(_tenant: Tenant) -> tuple[int, int]:
        return held

    async with serving(app) as port:
        address = f"http://localhost:{port}"
        vault = vault_of(database, home)
        services = AuthorizationServer(database, settings_for(address), vault)
        console = Console(database, services, accounts_on(database, home), vault, held=counted)
        apps.append(Starlette(routes=[*routes(services), *console_routes(console)]))
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
            stages.append(Stage(address, services, console, client))
            yield stages[0]


@pytest.fixture
def accounts(stage: Stage) -> Accounts:
    return stage.console.accounts


@pytest_asyncio.fixture(scope="session")
async def stage(database: Database, tmp_path_factory: Any) -> AsyncIterator[Stage]:
    async with open_stage(database, tmp_path_factory.mktemp("console")) as opened:
        yield opened

"""A tool needs more than was granted: the client asks for exactly that, a person allows it, and the same call works."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from app.access.service_accounts import ServiceAccounts
from app.cli.connections import Connections
from app.context import Role
from app.oauth.clients.pinned import CLAUDE_CODE
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.browser import SessionRecord
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import Gateway, running, settings_for
from tests.identity import fresh_email, fresh_name, vault_of
from tests.oauth.conftest import Life, Person

READ, WRITE = "graph_search", "graph_relate"
FACT = {"from_name": "Ada", "from_type": "Person", "to_name": "Apollo", "to_type": "Project", "relation": "USES"}
SECONDS = 60
"""Patience with a busy machine; what is waited for takes 5 s at most."""


@dataclass
class Front:
    """A whole gateway, seen as the flow's helper sees one."""

    address: str
    main: AuthorizationServer
    gateway: Gateway

    async def call(self, token: str, tool: str, **arguments: Any) -> httpx2.Response:
        """One answer; a tenant so new that the gateway has not read of it, or a busy gateway, is asked again."""
        async with self.gateway.client(token) as client, asyncio.timeout(SECONDS):
            while True:
                said = await self.gateway.ask(client, "tools/call", name=tool, arguments=arguments)
                if said.status_code != 503:
                    return said
                await asyncio.sleep(float(said.headers["Retry-After"]))

    async def works(self, token: str, tool: str, **arguments: Any) -> bool:
        async with self.gateway.client(token) as client:
            return bool((await self.gateway.insist(client, tool, arguments))["ok"])

    async def ends(self, token: str) -> None:
        """Wait until the token is refused."""
        async with asyncio.timeout(SECONDS):
            while (await self.call(token, READ, query="Ada")).status_code != 401:  # noqa: ASYNC110 - as a client sees it
                await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def front(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Front]:
    home: Path = tmp_path_factory.mktemp("step-up")
    settings = settings_for(neo4j_server, home)
    async with running(settings, "none") as gateway:
        yield Front(gateway.url, AuthorizationServer(database, settings, vault_of(database, home)), gateway)


@pytest_asyncio.fixture
async def life(front: Front) -> AsyncIterator[Life]:
    """An owner who is signed in."""
    services, email = front.main, fresh_email()
    user, tenant = await services.users.create(email), await services.tenants.create(fresh_name("tenant"))
    await services.users.put_membership(user.id, tenant.id, Role.OWNER)
    token, now = secrets.token_urlsafe(32), time.time()
    await services.browser.add_session(SessionRecord(digest(token), user.id, front.address, now, now + 600))
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as browser:
        browser.cookies.set(cookie_name(front.address), token, domain="localhost.local")
        yield Life(front, browser, Person(user, tenant, email))  # type: ignore[arg-type]


async def stepped_up(front: Front, life: Life) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tokens to read, and those that came of asking for what a write was missing."""
    first = await life.tokens(scope="memory:read offline_access")
    assert await front.works(first["access_token"], READ, query="Ada")
    refused = await front.call(first["access_token"], WRITE, **FACT)
    assert refused.status_code == 403, refused.text
    header = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in header
    assert f'resource_metadata="{front.address}/.well-known/oauth-protected-resource/mcp"' in header
    asked = re.search(r' scope="([^"]*)"', header)
    assert asked is not None
    assert set(asked[1].split()) == {"memory:read", "memory:write"}
    page = await life.to_consent(scope=f"{asked[1]} offline_access")
    assert "asks for more than it may do now" in page.text
    assert page.text.count("(new)") == 1, "only what is missing is new"
    code = life.returned(await life.answer(page))["code"]
    second = (await life.exchange(code)).json()
    assert second["scope"] == "memory:read memory:write offline_access"
    return first, second


async def test_a_registered_client_asks_for_what_is_missing_and_keeps_one_grant(front: Front, life: Life) -> None:
    await life.register()
    first, second = await stepped_up(front, life)
    assert await front.works(second["access_token"], WRITE, **FACT)
    assert await front.works(second["access_token"], READ, query="Ada")
    await front.ends(first["access_token"])
    assert (await life.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
    (kept,) = await front.main.grants.of_user(life.person.user.id)
    assert set(kept.scopes) == {"memory:read", "memory:write"}
    again = (await life.refresh(second["refresh_token"])).json()
    assert await front.works(again["access_token"], WRITE, **FACT)


async def test_a_client_that_many_devices_share_takes_nothing_from_the_others(front: Front, life: Life) -> None:
    life.client = {"client_id": CLAUDE_CODE["client_id"], "redirect_uris": ["http://localhost:51234/callback"]}
    first, second = await stepped_up(front, life)
    assert await front.works(second["access_token"], WRITE, **FACT)
    assert await front.works(first["access_token"], READ, query="Ada")
    assert (await life.refresh(first["refresh_token"])).status_code == 200
    assert len(await front.main.grants.of_user(life.person.user.id)) == 2


async def test_what_a_person_does_not_allow_stays_refused(front: Front, life: Life) -> None:
    await life.register()
    await life.tokens(scope="memory:read")
    page = await life.to_consent(scope="memory:read memory:write")
    allowed = await life.answer(page, scope=["memory:read"])
    tokens = (await life.exchange(life.returned(allowed)["code"])).json()
    assert tokens["scope"] == "memory:read"
    assert (await front.call(tokens["access_token"], WRITE, **FACT)).status_code == 403


async def test_a_service_account_calls_tools_within_its_rights_until_it_is_removed(front: Front, life: Life) -> None:
    accounts, tenant = ServiceAccounts(front.main.control), life.person.tenant.id
    record, secret = await accounts.create(
        tenant, "reader", scopes=["memory:read"], read_layers=["tenant"], actor=life.person.user.id
    )
    answer = await life.browser.post(
        f"{front.address}/token", data={"grant_type": "client_credentials"}, auth=(record.id, secret)
    )
    token = answer.json()["access_token"]
    assert await front.works(token, READ, query="Ada")
    async with front.gateway.client(token) as client:
        said = await front.gateway.insist(client, WRITE, FACT)
    assert (said["ok"], said["outcome"]) == (False, "not_applied"), "it is a reader: no consent could change that"
    await accounts.remove(tenant, record.id, life.person.user.id)
    await front.ends(token)


async def test_a_rotated_key_ends_no_connection(database: Database, front: Front, life: Life) -> None:
    await life.register()
    tokens = await life.tokens(scope="memory:read")
    before = {key["id"] for key in await Connections(database, front.gateway.settings).keys()}
    after = await Connections(database, front.gateway.settings).rotate_key()
    new = after[-1]
    assert new["id"] not in before
    assert new["state"] == "next"
    async with asyncio.timeout(SECONDS):
        while new["id"] not in await published(front, life):  # noqa: ASYNC110 - as a client sees it
            await asyncio.sleep(0.1)
    assert before <= await published(front, life)
    assert await front.works(tokens["access_token"], READ, query="Ada")
    again = (await life.refresh(tokens["refresh_token"])).json()
    assert await front.works(again["access_token"], READ, query="Ada")


async def published(front: Front, life: Life) -> set[str]:
    keys = (await life.browser.get(f"{front.address}/.well-known/jwks.json")).json()["keys"]
    return {key["kid"] for key in keys}

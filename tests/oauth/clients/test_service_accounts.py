"""Programs that act for a tenant: client credentials, introspection, revocation (RFC 6749 §4.4, RFC 7662, RFC 7009)."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest_asyncio

from app.access.service_accounts import ServiceAccounts
from app.store.control.revocations import RevocationKind, Revocations
from app.store.control.tenants import TenantState
from app.store.database import Database
from tests.oauth.conftest import CALLBACK, Gateway, Life


@dataclass
class Account:
    """A program with its credentials."""

    gateway: Gateway
    browser: httpx2.AsyncClient
    accounts: ServiceAccounts
    tenant: str
    id: str
    secret: str

    async def post(self, path: str, **form: str) -> httpx2.Response:
        return await self.browser.post(f"{self.gateway.address}{path}", data=form, auth=(self.id, self.secret))

    async def token(self, **form: str) -> httpx2.Response:
        return await self.post("/token", grant_type="client_credentials", **form)

    async def active(self, token: str) -> bool:
        answer = await self.post("/introspect", token=token)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["active"])


@pytest_asyncio.fixture
async def account(life: Life, database: Database) -> AsyncIterator[Account]:
    accounts = ServiceAccounts(database.control)
    tenant = life.person.tenant.id
    record, secret = await accounts.create(
        tenant,
        "nightly job",
        scopes=["memory:read", "memory:write"],
        read_layers=["tenant", "work"],
        write_layers=["work"],
        actor=life.person.user.id,
    )
    yield Account(life.gateway, life.browser, accounts, tenant, record.id, secret)


async def test_an_account_gets_a_token_for_what_its_owner_fixed_and_nothing_to_refresh(
    account: Account, life: Life
) -> None:
    answer = await account.token(resource=f"{life.address}/mcp/")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    assert "refresh_token" not in body
    assert (body["token_type"], body["scope"]) == ("Bearer", "memory:read memory:write")
    claims = await life.claims(body["access_token"])
    assert (claims["sub"], claims["client_id"], claims["aud"]) == (account.id, account.id, f"{life.address}/mcp")
    own = claims["gk"]
    assert (own["tenant"], own["role"], own["operator"]) == (account.tenant, "member", False)
    assert (own["read"], own["write"], own["layer"]) == (["", "work"], ["work"], "work")
    (kept,) = await account.accounts.of_tenant(account.tenant)
    assert kept.used is not None


async def test_both_ways_of_sending_the_secret_work(account: Account, life: Life) -> None:
    answer = await life.browser.post(
        f"{life.address}/token",
        data={"grant_type": "client_credentials", "client_id": account.id, "client_secret": account.secret},
    )
    assert answer.status_code == 200, answer.text


async def test_an_account_may_ask_for_less_and_never_for_more(account: Account) -> None:
    assert (await account.token(scope="memory:read offline_access")).json()["scope"] == "memory:read"
    for scope in ("memory:read knowledge:read", "admin", "offline_access"):
        answer = await account.token(scope=scope)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_scope")
    other = await account.token(resource="https://other.example/mcp")
    assert other.json()["error"] == "invalid_target"


async def test_a_wrong_or_missing_secret_is_refused(account: Account, life: Life) -> None:
    form = {"grant_type": "client_credentials", "client_id": account.id}
    for wrong in ("", "x", "secret of nobody"):
        answer = await life.browser.post(f"{life.address}/token", data={**form, "client_secret": wrong})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        basic = {"Authorization": f"Basic {base64.b64encode(f'{account.id}:{wrong}'.encode()).decode()}"}
        answer = await life.browser.post(f"{life.address}/token", data=form, headers=basic)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_each_kind_of_client_keeps_to_its_grant_type(account: Account, life: Life) -> None:
    for form in ({"grant_type": "authorization_code", "code": "x"}, {"grant_type": "refresh_token"}):
        answer = await account.post("/token", **form)
        assert (answer.status_code, answer.json()["error"]) == (400, "unauthorized_client")
    assert (await life.token(grant_type="client_credentials")).json()["error"] == "unauthorized_client"
    page = await life.browser.get(
        f"{life.address}/authorize", params={"response_type": "code", "client_id": account.id, "redirect_uri": CALLBACK}
    )
    assert (page.status_code, "location" in page.headers) == (400, False)


async def test_a_removed_or_renewed_account_and_one_of_a_suspended_tenant_get_nothing(
    account: Account, life: Life, database: Database
) -> None:
    first = (await account.token()).json()["access_token"]
    assert await account.active(first)
    await life.gateway.main.tenants.set_state(account.tenant, TenantState.SUSPENDED)
    assert (await account.token()).json()["error"] == "unauthorized_client"
    assert not await account.active(first)
    await life.gateway.main.tenants.set_state(account.tenant, TenantState.ACTIVE)
    old, account.secret = account.secret, await account.accounts.renew(account.tenant, account.id, "us-owner")
    assert not await account.active(first)
    second = (await account.token()).json()["access_token"]
    assert await account.active(second)
    account.secret, new = old, account.secret
    assert (await account.token()).status_code == 401
    account.secret = new
    await account.accounts.remove(account.tenant, account.id, "us-owner")
    assert (await account.token()).status_code == 401
    grant = (await life.claims(second))["gk"]["grant"]
    revoked = {(each.kind, each.key) for each in await Revocations(database.control).current()}
    assert (RevocationKind.GRANT, grant) in revoked


async def test_introspection_shows_a_client_its_own_tokens_alone(account: Account, life: Life) -> None:
    token = (await account.token()).json()["access_token"]
    shown = (await account.post("/introspect", token=token, token_type_hint="access_token")).json()
    assert shown["active"] is True
    assert (shown["sub"], shown["iss"], shown["aud"]) == (account.id, life.address, f"{life.address}/mcp")
    assert (shown["scope"], shown["token_type"]) == ("memory:read memory:write", "Bearer")
    assert "gk" not in shown
    assert not await account.active("nothing")
    of_person = await life.tokens()
    assert not await account.active(of_person["access_token"])
    assert not await account.active(of_person["refresh_token"])


async def test_a_confidential_client_sees_its_access_and_refresh_tokens_until_the_grant_ends(
    gateway: Gateway, open_life: Callable[..., Any]
) -> None:
    life: Life = await open_life(gateway)
    await life.register(token_endpoint_auth_method="client_secret_post")
    secret = life.client["client_secret"]
    tokens = (await life.exchange(await life.code(), client_secret=secret)).json()

    async def asked(token: str) -> dict[str, Any]:
        form = {"client_id": life.client["client_id"], "client_secret": secret, "token": token}
        answer: dict[str, Any] = (await life.browser.post(f"{life.address}/introspect", data=form)).json()
        return answer

    assert (await asked(tokens["access_token"]))["sub"] == life.person.user.id
    assert (await asked(tokens["refresh_token"]))["active"] is True
    later = (await life.refresh(tokens["refresh_token"], client_secret=secret)).json()
    assert (await asked(tokens["refresh_token"]))["active"] is False, "it was used"
    await life.browser.post(
        f"{life.address}/revoke",
        data={"client_id": life.client["client_id"], "client_secret": secret, "token": later["access_token"]},
    )
    assert await asked(later["access_token"]) == {"active": False}
    assert await asked(later["refresh_token"]) == {"active": False}


async def test_who_cannot_prove_themselves_asks_about_nothing(life: Life) -> None:
    tokens = await life.tokens()
    for form in ({"client_id": life.client["client_id"]}, {}, {"client_id": "nobody"}):
        answer = await life.browser.post(f"{life.address}/introspect", data={**form, "token": tokens["access_token"]})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
        assert answer.headers["cache-control"] == "no-store"


async def test_an_account_gives_back_one_token_and_keeps_its_others(account: Account, life: Life) -> None:
    first, second = [(await account.token()).json()["access_token"] for _ in range(2)]
    assert (await account.post("/revoke", token=first)).status_code == 200
    assert not await account.active(first)
    assert await account.active(second)
    of_person = await life.tokens()
    assert (await account.post("/revoke", token=of_person["refresh_token"])).status_code == 200
    assert (await account.post("/revoke", token=of_person["access_token"])).status_code == 200
    assert (await life.refresh(of_person["refresh_token"])).status_code == 200

"""The whole life of a connection: a real browser, the SDK's own client, replicas, restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.async_api import Browser
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from app.context import Role
from tests.browser import inspect
from tests.oauth.conftest import PASSWORD, Gateway, Life, form_of, link_for, serving


@asynccontextmanager
async def client_callback() -> AsyncIterator[tuple[str, asyncio.Queue[dict[str, str]]]]:
    """A program on this computer that waits for the browser to come back."""
    received: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def callback(request: Request) -> Response:
        await received.put(dict(request.query_params))
        return PlainTextResponse("back at the client")

    async with serving(Starlette(routes=[Route("/callback", callback)])) as port:
        yield f"http://127.0.0.1:{port}/callback", received


async def test_a_person_signs_in_by_link_sets_a_password_and_consents_in_a_real_browser(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], chrome: Browser
) -> None:
    life: Life = await open_life(await start_gateway(), signed_in=False, layers=("work", "project:atlas"))
    services = life.gateway.main
    second = await services.tenants.create(f"family {life.person.user.id[-6:]}")
    await services.users.put_membership(life.person.user.id, second.id, Role.MEMBER)
    page = await (await chrome.new_context()).new_page()
    problems: list[str] = []
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    async with client_callback() as (callback, received):
        await life.register(client_name="Claude Code", redirect_uris=[callback])
        await page.goto(await link_for(life.gateway, life.person))
        await inspect(page, "link")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.get_by_label("The same again").fill(PASSWORD)
        await page.get_by_role("button", name="Set password and sign in").click()
        await page.wait_for_url(f"{life.address}/signed-in")
        await inspect(page, "signed-in")
        await page.get_by_role("button", name="Sign out", exact=True).click()
        await page.wait_for_url(f"{life.address}/sign-in")
        await page.goto(life.question(scope=None))
        assert urlsplit(page.url).path == "/sign-in"
        await inspect(page, "sign-in")
        await page.get_by_label("E-mail address").fill(life.person.email)
        await page.get_by_label("Password").fill("not this one, surely")
        await page.keyboard.press("Enter")
        await page.get_by_role("alert").wait_for()
        await inspect(page, "sign-in-refused")
        await page.get_by_label("Password").fill(PASSWORD)
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{life.address}/consent**")
        await page.get_by_role("link", name=life.person.tenant.name).click()
        await page.wait_for_url("**tenant=**")
        await page.get_by_text("Name a new layer").click()
        await inspect(page, "consent")
        await page.get_by_label("Ledger: change").uncheck()
        await page.get_by_label("Change layer: Every layer, later ones too").uncheck()
        await page.get_by_label("Change layer: work").check()
        await page.get_by_label("New memories go to").select_option("work")
        await page.get_by_role("button", name="Allow").click()
        await page.wait_for_url(f"{callback}**")
        values = await received.get()
        await page.goto(f"{life.address}/authorize?client_id=unknown")
        await inspect(page, "message")
    assert not [line for line in problems if "Content Security Policy" in line]
    assert (values["state"], values["iss"]) == (life.state, life.address)
    tokens = (await life.exchange(values["code"])).json()
    claims = await life.claims(tokens["access_token"])
    assert "ledger:write" not in claims["scope"].split()
    assert (claims["gk"]["read"], claims["gk"]["write"], claims["gk"]["layer"]) == (["*"], ["work"], "work")


async def test_the_pages_work_by_keyboard_alone_and_without_script(life: Life, chrome: Browser) -> None:
    context = await chrome.new_context(java_script_enabled=False)
    cookie = dict(life.browser.cookies)
    name, value = next(iter(cookie.items()))
    await context.add_cookies([{"name": name, "value": value, "url": life.address}])
    page = await context.new_page()
    async with client_callback() as (callback, received):
        await life.register(redirect_uris=[callback])
        await page.goto(life.question())
        allow = page.get_by_role("button", name="Allow")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await page.locator("button:focus").count():
                break
        assert await allow.is_visible()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{callback}**")
        assert (await received.get())["code"]


@pytest.mark.parametrize("way", ["restarted between every two requests", "two replicas in turn", "both"])
async def test_the_flow_needs_nothing_that_a_process_remembers(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], way: str
) -> None:
    replicas = 1 if way.startswith("restarted") else 2
    gateway: Gateway = await start_gateway(replicas=replicas, reborn=way != "two replicas in turn")
    life: Life = await open_life(gateway, signed_in=False)
    await life.register()
    page = await life.browser.get(await link_for(gateway, life.person))
    form = {**form_of(page.text), "password": PASSWORD, "again": PASSWORD}
    await life.browser.post(f"{life.address}/sign-in/link", data=form)
    tokens = await life.tokens()
    for _ in range(3):
        answer = await life.refresh(tokens["refresh_token"])
        assert answer.status_code == 200, answer.text
        tokens = answer.json()
    assert (await life.claims(tokens["access_token"]))["aud"] == f"{life.address}/mcp"


class Kept(TokenStorage):
    """What the SDK's client keeps."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def test_the_sdks_own_client_discovers_registers_consents_and_calls(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    gateway: Gateway = await start_gateway()
    life: Life = await open_life(gateway)

    async def resource(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer":
            where = f"{gateway.address}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{where}", scope="memory:read memory:write"'
            return JSONResponse({}, 401, headers={"WWW-Authenticate": challenge})
        return JSONResponse(await life.claims(token))

    gateway._apps[0].routes.append(Route("/mcp", resource, methods=["POST"]))
    came_back: dict[str, str] = {}

    async def open_browser(url: str) -> None:
        life.client = {"redirect_uris": ["http://localhost:3030/callback"]}
        life.state = parse_qs(urlsplit(url).query)["state"][0]
        page = await life.follow(await life.browser.get(url))
        came_back.update(life.returned(await life.answer(page)))

    async def wait_for_callback() -> Any:
        from mcp.client.auth import AuthorizationCodeResult

        return AuthorizationCodeResult(code=came_back["code"], state=came_back["state"], iss=came_back["iss"])

    provider = OAuthClientProvider(
        f"{gateway.address}/mcp",
        OAuthClientMetadata(client_name="SDK", redirect_uris=[AnyUrl("http://localhost:3030/callback")]),
        Kept(),
        open_browser,
        wait_for_callback,
    )
    async with httpx2.AsyncClient(auth=provider, trust_env=False) as client:
        claims = (await client.post(f"{gateway.address}/mcp", json={})).json()
    assert claims["aud"] == f"{gateway.address}/mcp"
    assert set(claims["scope"].split()) == {"memory:read", "memory:write"}

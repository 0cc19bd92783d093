"""Every page of the console in a real Chromium: two widths, two schemes, axe, and nothing wider than the screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, ViewportSize

from app.access.accounts import Accounts
from app.console.routes import TABLE
from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.store.control.tenants import Tenant
from tests import browser
from tests.console.conftest import Person, Stage
from tests.console.test_rights import name_of, path_of

SIZES = browser.SIZES | {"phone": ViewportSize(width=390, height=780)}


@dataclass
class Scene:
    """A person who is everything, a tenant that has something of everything, and a browser that is signed in."""

    stage: Stage
    person: Person
    tenant: Tenant
    parts: dict[str, str]
    browser: Browser
    page: Page


async def signed_in(browser: Browser, person: Person, **options: Any) -> Page:
    context = await browser.new_context(**options)
    address = person.stage.address
    await context.add_cookies([{"name": cookie_name(address), "value": person.cookie, "url": address}])
    return await context.new_page()


@pytest_asyncio.fixture(scope="module")
async def scene(stage: Stage, chrome: Browser) -> AsyncIterator[Scene]:
    tenant = await stage.tenant("a house with a long name that wraps", "work", "project:a-rather-long-name-of-a-layer")
    others, operators = await stage.tenant("research"), await stage.operators()
    person = await stage.person((tenant, Role.OWNER), (others, Role.MEMBER), (operators, Role.OWNER), name="ida")
    other = await stage.person((tenant, Role.MEMBER), name="somebody-with-quite-a-long-address")
    accounts: Accounts = stage.console.accounts
    grant = await stage.grant(person.user, tenant, "A program with a name that is as long as names may be, about")
    await stage.grant(other.user, tenant, "Cursor", host="cursor:")
    await stage.passkey(person.user, "iPhone")
    await stage.sign_in(person.user, ago=90_000)
    await accounts.create_token(person.user, tenant)
    await accounts.create_token(other.user, tenant, scopes=["memory:read"])
    await stage.console.service_accounts.create(
        tenant.id, "nightly", scopes=["memory:read"], read_layers=["tenant"], actor=person.user.id
    )
    await stage.console.invitations.invite(
        tenant.id, Role.MEMBER, email=None, actor=person.user.id, address=stage.address
    )
    parts = {"tenant": tenant.id, "subject": tenant.id, "user": other.user.id, "grant": grant.id}
    page = await signed_in(chrome, person)
    yield Scene(stage, person, tenant, parts, chrome, page)
    await page.context.close()


@pytest.mark.parametrize(
    "entry", [entry for entry in TABLE if entry.method == "GET" and "{handle}" not in entry.path], ids=name_of
)
async def test_a_page_is_readable_by_everyone_at_every_size(scene: Scene, entry: Any) -> None:
    answer = await scene.page.goto(scene.stage.address + path_of(entry, **scene.parts))
    assert answer is not None
    assert answer.status == 200
    for box in await scene.page.locator("main details").all():  # what is behind a button counts too
        await box.evaluate("box => box.open = true")
    await browser.inspect(scene.page, entry.path.strip("/").replace("/", "-"), SIZES)


async def test_what_is_shown_once_and_what_is_refused_are_readable_too(scene: Scene) -> None:
    shown = await scene.person.post("/console/security/codes")
    await scene.page.goto(scene.stage.address + shown.headers["location"])
    await browser.inspect(scene.page, "shown-codes", SIZES)
    await scene.page.goto(f"{scene.stage.address}/console/t/{scene.tenant.id}/members/us-unknown")
    await browser.inspect(scene.page, "refused", SIZES)


async def test_an_owner_invites_changes_and_removes_with_keys_alone_and_without_script(scene: Scene) -> None:
    member = await scene.stage.person((scene.tenant, Role.MEMBER), name="kai")
    page = await signed_in(scene.browser, scene.person, java_script_enabled=False, viewport=SIZES["phone"])
    await page.goto(f"{scene.stage.address}/console")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")  # skips to the page
    assert page.url.endswith("#page")
    await page.get_by_text("Menu", exact=True).press("Enter")
    await page.get_by_role("navigation", name="Console menu").get_by_role("link", name="Manage").first.press("Enter")
    await page.get_by_role("heading", name="Members").wait_for()
    await page.get_by_role("link", name=f"Change {member.user.email}").press("Enter")
    await page.get_by_role("radio", name="Reader").press("Space")
    await page.get_by_role("checkbox", name="Read layer: work").press("Space")
    await page.get_by_role("button", name="Save").press("Enter")
    await page.get_by_role("status").wait_for()
    held = await scene.stage.services.users.membership(member.user.id, scene.tenant.id)
    assert held is not None
    assert (held.role, "work" in held.read_layers) == (Role.READER, True)
    await page.get_by_role("link", name=f"Change {member.user.email}").click()
    await page.locator("summary", has_text="Remove").press("Enter")
    await page.get_by_role("button", name=f"Remove {member.user.email} for good").press("Enter")
    await page.get_by_role("status").wait_for()
    assert await scene.stage.services.users.membership(member.user.id, scene.tenant.id) is None
    await page.context.close()


async def test_a_token_made_in_the_browser_is_shown_once(scene: Scene) -> None:
    page = await signed_in(scene.browser, scene.person)
    await page.goto(f"{scene.stage.address}/console/tokens")
    await page.get_by_role("link", name="Make a token").click()
    await page.get_by_role("link", name=scene.tenant.name).click()
    await page.get_by_label("Memory: change").uncheck()
    await page.get_by_label("Valid for").select_option("7 days")
    await page.get_by_role("button", name="Make the token").click()
    await page.get_by_role("heading", name="Your new token").wait_for()
    assert (await page.locator("code.secret").inner_text()).startswith("ey")
    await page.reload()
    await page.get_by_role("heading", name="Shown already").wait_for()
    await page.context.close()


async def test_a_passkey_is_added_in_the_browser_and_renamed(scene: Scene) -> None:
    page = await signed_in(scene.browser, scene.person)
    await browser.authenticator(await page.context.new_cdp_session(page))
    await page.goto(f"{scene.stage.address}/console/security")
    await page.get_by_label("Name of this passkey").fill("my laptop")
    await page.get_by_role("button", name="Add a passkey").click()
    await page.get_by_text("my laptop", exact=True).wait_for()
    await page.locator("summary", has_text="Rename").last.click()
    await page.get_by_label("New name").last.fill("old laptop")
    await page.get_by_role("button", name="Rename my laptop now").click()
    await page.get_by_text("old laptop", exact=True).wait_for()
    await page.context.close()


async def test_signing_out_in_the_browser_ends_the_session(scene: Scene) -> None:
    leaving = Person(scene.stage, scene.person.user, await scene.stage.sign_in(scene.person.user))
    page = await signed_in(scene.browser, leaving)
    await page.goto(f"{scene.stage.address}/console/tenants")
    await page.get_by_role("banner").get_by_role("button", name="Sign out").click()
    await page.wait_for_url("**/sign-in**")
    await page.goto(f"{scene.stage.address}/console/tenants")
    assert "/sign-in" in page.url
    await page.context.close()

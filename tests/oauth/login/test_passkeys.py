"""Passkeys in a real Chromium with a virtual authenticator, and what a copied or replayed answer is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import Browser, CDPSession, Page

from app.context import Role
from app.oauth.login.invitations import Invitations
from app.oauth.login.passkeys import possible
from app.oauth.login.recovery import RecoveryCodes
from app.store.database import Database
from app.store.statement import statement
from tests.browser import authenticator
from tests.oauth.conftest import Gateway, Life, form_of, link_for

WIND_ON = statement(
    "tests.wind_passkey_on",
    "MATCH (p:_Passkey {user: $user}) SET p.sign_count = 1000",
    writes=True,
    control=True,
)


@pytest.fixture
async def stranger(start_gateway: Callable[..., Any], open_life: Callable[..., Any]) -> Life:
    made: Life = await open_life(await start_gateway(replicas=2), signed_in=False)
    return made


async def device(chrome: Browser, *, verifies: bool = True) -> tuple[Page, CDPSession, str, list[str]]:
    """A browser with a platform authenticator; what its console complains of is collected."""
    page = await (await chrome.new_context()).new_page()
    page.set_default_timeout(60_000)
    problems: list[str] = []
    page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
    session = await page.context.new_cdp_session(page)
    return page, session, await authenticator(session, verifies=verifies), problems


async def press(page: Page, name: str) -> None:
    await page.get_by_role("button", name=name).click()


async def enrolled(page: Page, life: Life) -> None:
    await page.goto(await link_for(life.gateway, life.person))
    await press(page, "Make a passkey and sign in")
    await page.wait_for_url(f"{life.address}/signed-in")


async def signed_out(page: Page, life: Life) -> None:
    await page.context.clear_cookies()
    await page.goto(f"{life.address}/sign-in")


async def test_a_link_makes_a_passkey_that_signs_in_and_adds_another_on_any_replica(
    stranger: Life, chrome: Browser
) -> None:
    page, session, held, problems = await device(chrome)
    await enrolled(page, stranger)
    (kept,) = await stranger.gateway.main.passkeys.of_user(stranger.person.user.id)
    assert (kept.rp_id, kept.user) == ("localhost", stranger.person.user.id)
    await signed_out(page, stranger)
    await press(page, "Sign in with a passkey")
    await page.wait_for_url(f"{stranger.address}/signed-in")
    assert stranger.person.email in await page.content()
    (used,) = await stranger.gateway.main.passkeys.of_user(stranger.person.user.id)
    assert used.sign_count > kept.sign_count
    assert used.used_at is not None
    assert problems == []  # the content policy lets the script work, and nothing tried more
    await page.get_by_label("Name of this passkey").fill("Same device")
    await press(page, "Add a passkey")
    await page.get_by_text("This device has a passkey for this account already.").wait_for()
    await session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": held})
    await authenticator(session)
    await page.get_by_label("Name of this passkey").fill("Another device")
    async with page.expect_navigation():
        await press(page, "Add a passkey")
    names = [each.name for each in await stranger.gateway.main.passkeys.of_user(stranger.person.user.id)]
    assert names == ["Passkey", "Another device"]
    await page.context.close()


async def test_a_copy_of_a_passkey_and_an_unverified_person_are_refused(
    stranger: Life, chrome: Browser, database: Database
) -> None:
    page, session, held, _ = await device(chrome)
    await enrolled(page, stranger)
    user = stranger.person.user.id
    await signed_out(page, stranger)
    await session.send("WebAuthn.setUserVerified", {"authenticatorId": held, "isUserVerified": False})
    await press(page, "Sign in with a passkey")
    await page.get_by_text("No passkey was used").wait_for()
    await session.send("WebAuthn.setUserVerified", {"authenticatorId": held, "isUserVerified": True})
    await database.control.write(lambda writing: writing.run(WIND_ON, user=user))
    await press(page, "Sign in with a passkey")
    await page.get_by_text("there may be a copy of it").wait_for()
    await page.goto(f"{stranger.address}/signed-in")
    assert page.url.endswith("/sign-in")
    await stranger.gateway.main.passkeys.remove(user, (await stranger.gateway.main.passkeys.of_user(user))[0].id)
    await press(page, "Sign in with a passkey")
    await page.get_by_text("does not know that passkey").wait_for()
    await page.context.close()


async def test_an_answer_counts_once_in_one_browser_at_one_address(
    stranger: Life, chrome: Browser, start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    page, _, _, _ = await device(chrome)
    await enrolled(page, stranger)
    await signed_out(page, stranger)
    sent: list[dict[str, str]] = []

    async def keep(route: Any) -> None:
        sent.append(dict(pair.split("=", 1) for pair in route.request.post_data.split("&")))
        await route.fulfill(status=200, body="kept")

    await page.route("**/sign-in/passkey", keep)
    await press(page, "Sign in with a passkey")
    await page.get_by_text("kept").wait_for()
    cookies = {each["name"]: each["value"] for each in await page.context.cookies(stranger.address)}
    body = "&".join(f"{name}={value}" for name, value in sent[0].items())
    head = {"Content-Type": "application/x-www-form-urlencoded"}

    async def post(address: str, given: dict[str, str], text: str = body) -> int:
        stranger.browser.cookies.clear()
        cookie = "; ".join(f"{name}={value}" for name, value in given.items())
        answer = await stranger.browser.post(
            f"{address}/sign-in/passkey", content=text, headers={**head, "Cookie": cookie}
        )
        return answer.status_code

    other: Life = await open_life(stranger.gateway, signed_in=False)
    form = form_of((await other.browser.get(f"{stranger.address}/sign-in")).text)
    theirs = body.replace(f"csrf={sent[0]['csrf']}", f"csrf={form['csrf'][0]}")
    assert await post(stranger.address, dict(other.browser.cookies), theirs) == 401  # of another browser
    elsewhere: Gateway = await start_gateway()
    away: Life = await open_life(elsewhere, signed_in=False)
    form = form_of((await away.browser.get(f"{elsewhere.address}/sign-in")).text)
    theirs = body.replace(f"csrf={sent[0]['csrf']}", f"csrf={form['csrf'][0]}")
    assert await post(elsewhere.address, dict(away.browser.cookies), theirs) == 401  # at another address
    assert await post(stranger.address, cookies) == 303
    assert await post(stranger.address, cookies) == 401  # again
    await page.context.close()


@pytest.mark.parametrize(
    "credential",
    [
        "",
        "{",
        "[]",
        "[" * 20_000,
        "null",
        '{"id":"x"}',
        json.dumps({"id": "eA", "rawId": "eA", "type": "public-key", "response": {}}),
    ],
)
async def test_a_malformed_answer_is_refused_in_words(stranger: Life, credential: str) -> None:
    form = form_of((await stranger.browser.get(f"{stranger.address}/sign-in")).text)
    answer = await stranger.browser.post(
        f"{stranger.address}/sign-in/passkey", data={"csrf": form["csrf"], "credential": credential}
    )
    assert answer.status_code == 401


async def test_an_invited_person_joins_with_a_passkey(stranger: Life, chrome: Browser) -> None:
    services = stranger.gateway.main
    link = await Invitations(services).invite(stranger.person.tenant.id, Role.MEMBER, address=stranger.address)
    page, _, _, problems = await device(chrome)
    await page.goto(link)
    email = f"new-{stranger.person.email}"
    await page.get_by_label("E-mail address").last.fill(email)
    await press(page, "Join with a passkey instead")
    await page.wait_for_url(f"{stranger.address}/signed-in")
    assert stranger.person.tenant.name in await page.content()
    user = await services.users.by_email(email)
    assert user is not None
    assert len(await services.passkeys.of_user(user.id)) == 1
    assert problems == []
    await signed_out(page, stranger)
    await press(page, "Sign in with a passkey")
    await page.wait_for_url(f"{stranger.address}/signed-in")
    await page.context.close()


async def test_the_page_of_recovery_codes_shows_ten_once(stranger: Life, chrome: Browser) -> None:
    page, _, _, _ = await device(chrome)
    await enrolled(page, stranger)
    await press(page, "Make recovery codes")
    shown = await page.locator("ol code").all_text_contents()
    assert len(set(shown)) == 10
    assert await RecoveryCodes(stranger.gateway.main).left(stranger.person.user.id) == 10
    await page.context.close()


async def test_an_old_session_adds_no_passkey(life: Life) -> None:
    answer = await life.browser.post(f"{life.address}/passkeys", data={"csrf": "guessed"})
    assert answer.status_code == 403


def test_passkeys_need_a_name_and_a_safe_way() -> None:
    assert possible("https://memory.example.org")
    assert possible("http://localhost:8080")
    for address in ("http://127.0.0.1:8080", "https://[::1]:8443", "https://192.0.2.1", "http://memory.example.org"):
        assert not possible(address)

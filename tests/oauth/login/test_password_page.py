"""Signing in: passwords, limits, one-time links, cookies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from app.errors import InvalidInput
from app.oauth.login.attempts import PER_ACCOUNT
from app.oauth.login.passwords import Passwords, check_password
from app.oauth.login.sessions import cookie_name
from app.oauth.service import issue_sign_in_link
from app.store.control.passwords import PasswordStore
from app.store.database import Database
from app.store.statement import statement
from tests.oauth.conftest import PASSWORD, Gateway, Life, form_of, link_for

ALL_TEXT = statement(
    "tests.read_browser_records",
    "MATCH (s:_Session|_SignInLink|_Code|_RefreshToken|_PendingAuthorization) RETURN s.id AS id",
    control=True,
)
FORGET_BUDGET = statement("tests.forget_attempts", "MATCH (a:_SignInAttempts) DELETE a", writes=True, control=True)


@pytest.fixture(autouse=True)
async def _fresh_budget(database: Database) -> None:
    await database.control.write(lambda writing: writing.run(FORGET_BUDGET))


@pytest.fixture
async def stranger(gateway: Gateway, open_life: Callable[..., Any]) -> Life:
    made: Life = await open_life(gateway, signed_in=False)
    await made.register()
    return made


async def open_link(life: Life, link: str, **fields: str) -> Any:
    page = await life.browser.get(link)
    return await life.browser.post(f"{life.address}/sign-in/link", data={**form_of(page.text), **fields})


async def test_a_link_signs_in_once_and_sets_the_password(stranger: Life) -> None:
    link = await link_for(stranger.gateway, stranger.person)
    assert (await stranger.browser.get(link)).status_code == 200
    assert (await stranger.browser.get(link)).status_code == 200  # a preview does not use it up
    landed = await open_link(stranger, link, password=PASSWORD, again=PASSWORD)
    assert landed.headers["location"] == "/signed-in"
    assert stranger.person.email in (await stranger.follow(landed)).text
    assert (await stranger.browser.get(link)).status_code == 400
    stranger.browser.cookies.clear()
    assert await stranger.code()  # with the password now


async def test_of_two_uses_of_one_link_at_once_one_counts(stranger: Life) -> None:
    link = await link_for(stranger.gateway, stranger.person)
    page = form_of((await stranger.browser.get(link)).text)
    form = {**page, "password": PASSWORD, "again": PASSWORD}
    answers = await asyncio.gather(
        *(stranger.browser.post(f"{stranger.address}/sign-in/link", data=form) for _ in range(3))
    )
    assert sorted(answer.status_code for answer in answers) == [303, 400, 400]


async def test_a_poor_password_is_asked_for_again_and_the_link_still_works(stranger: Life) -> None:
    link = await link_for(stranger.gateway, stranger.person)
    poor = [("", ""), ("short", "short"), (PASSWORD, PASSWORD + "x"), ("aaaaaaaaaaaaaaaa",) * 2]
    for password, again in poor:
        assert (await open_link(stranger, link, password=password, again=again)).status_code == 400, password
    assert (await open_link(stranger, link, password=PASSWORD, again=PASSWORD)).status_code == 303


async def test_a_link_is_for_one_address(start_gateway: Callable[..., Any], stranger: Life) -> None:
    other = await start_gateway()
    link = await link_for(stranger.gateway, stranger.person)
    assert (await stranger.browser.get(link.replace(stranger.address, other.address))).status_code == 400
    with pytest.raises(LookupError):
        await issue_sign_in_link(other.main, stranger.person.user.id, stranger.address)
    with pytest.raises(LookupError):
        await issue_sign_in_link(other.main, "us-nobody", other.address)


async def test_a_new_password_signs_every_other_browser_out(stranger: Life, open_life: Callable[..., Any]) -> None:
    elsewhere: Life = await open_life(stranger.gateway, stranger.person)
    assert (await elsewhere.browser.get(f"{stranger.address}/signed-in")).status_code == 200
    await open_link(stranger, await link_for(stranger.gateway, stranger.person), password=PASSWORD, again=PASSWORD)
    assert (await elsewhere.browser.get(f"{stranger.address}/signed-in")).status_code == 303


async def test_wrong_passwords_say_the_same_for_known_and_unknown_accounts(stranger: Life) -> None:
    page = await stranger.browser.get(f"{stranger.address}/sign-in")
    answers = []
    for email in (stranger.person.email, "nobody@example.org"):
        fields = {**form_of(page.text), "email": email, "password": "wrong wrong wrong"}
        answer = await stranger.browser.post(f"{stranger.address}/sign-in", data=fields)
        assert answer.status_code == 401
        answers.append(re.sub(r'data-options="[^"]*"', "", answer.text.replace(email, "")))
    assert answers[0] == answers[1]


async def test_an_account_can_be_tried_only_so_often_whoever_tries(stranger: Life) -> None:
    services = stranger.gateway.main
    await services.passwords.set(stranger.person.user.id, PASSWORD)
    page = await stranger.browser.get(f"{stranger.address}/sign-in")
    for _ in range(PER_ACCOUNT):
        answer = await stranger.sign_in(page, "wrong wrong wrong")
        assert answer.status_code == 401
    assert (await stranger.sign_in(page)).status_code == 429  # the right one too
    link = await link_for(stranger.gateway, stranger.person)
    assert (await open_link(stranger, link)).status_code == 303  # the person is not locked out


async def test_signing_in_gives_a_new_cookie(stranger: Life) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    page = await stranger.browser.get(f"{stranger.address}/sign-in")
    planted = dict(stranger.browser.cookies)[cookie_name(stranger.address)]
    answer = await stranger.sign_in(page)
    cookie = answer.headers["set-cookie"]
    assert planted not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert "Path=/" in cookie


def test_cookies_of_two_addresses_of_one_host_differ_and_https_ones_are_bound_to_it() -> None:
    one, two = cookie_name("http://localhost:8080"), cookie_name("https://localhost:8443")
    assert one[-8:] != two[-8:]
    assert int(one[-8:], 16) >= 0
    assert two.startswith("__Host-")


@pytest.mark.parametrize(
    "request_", ["https://evil.example", "//evil.example", "x&tenant=1", "a/../b", "\r\nLocation: x"]
)
async def test_signing_in_leads_nowhere_else(stranger: Life, request_: str) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    page = await stranger.browser.get(f"{stranger.address}/sign-in", params={"request": request_})
    fields = {**form_of(page.text), "email": stranger.person.email, "password": PASSWORD, "request": request_}
    answer = await stranger.browser.post(f"{stranger.address}/sign-in", data=fields)
    assert answer.headers["location"] == "/signed-in"


async def test_forms_need_their_token(stranger: Life) -> None:
    for path in ("/sign-in", "/sign-in/link", "/sign-out"):
        answer = await stranger.browser.post(f"{stranger.address}{path}", data={"token": "x", "csrf": "x"})
        assert answer.status_code == 403


async def test_signing_out_ends_the_session(life: Life) -> None:
    page = await life.browser.get(f"{life.address}/signed-in")
    before = dict(life.browser.cookies)
    await life.browser.post(f"{life.address}/sign-out", data=form_of(page.text))
    life.browser.cookies.update(before)
    assert (await life.browser.get(f"{life.address}/signed-in")).headers["location"] == "/sign-in"


async def test_prompt_login_asks_again(life: Life) -> None:
    page = await life.follow(await life.ask(prompt="login"))
    assert "/sign-in" in str(page.url)


async def test_only_hashes_are_stored(life: Life, database: Database) -> None:
    code = await life.code()
    tokens = (await life.exchange(code)).json()
    stored = {row["id"] for row in await database.control.read(ALL_TEXT)}
    assert not stored & {code, tokens["refresh_token"], *dict(life.browser.cookies).values()}
    assert all(len(key) == 64 for key in stored)


async def test_what_is_kept_of_a_password_costs_who_guesses_it(
    gateway: Gateway, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 9106 §4, for little memory: 64 MiB, three passes, four lanes."""
    monkeypatch.undo()  # the cost that it has outside of these tests
    kept = await Passwords(PasswordStore(database.control), gateway.main.attempts).hashed(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=65536,t=3,p=4$")


def test_a_password_needs_length_not_tricks() -> None:
    assert check_password(PASSWORD, "a@example.org") == PASSWORD
    for poor in ("short", "x" * 300, "somebody@example.org", "abababababababab"):
        with pytest.raises(InvalidInput):
            check_password(poor, "somebody@example.org")

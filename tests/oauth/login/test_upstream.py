"""Signing in with a provider elsewhere: a real one, and what must not come of it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
import pytest_asyncio
from pydantic import SecretStr

from app.oauth.login.sessions import cookie_name
from app.oauth.login.upstream import Upstream
from app.oauth.login.vouching import NotVouched, Unreachable
from app.settings import SignInSettings
from tests.oauth.conftest import PASSWORD, Gateway, Life, link_for
from tests.oauth.login.test_password_page import open_link
from tests.oauth.provider import SECRET, running_provider, signed_in_there

ALLOWED = ("*@example.org", "one@example.com")


@pytest_asyncio.fixture(scope="module")
async def issuer() -> AsyncIterator[str]:
    async with running_provider() as running:
        yield running


@pytest.fixture
async def gateway(start_gateway: Callable[..., Any], issuer: str) -> Gateway:
    signin = SignInSettings(
        oidc_issuer=issuer,
        oidc_client_id="gateway",
        oidc_client_secret=SecretStr(SECRET),
        oidc_label="Example",
        allowed_emails=ALLOWED,
    )
    started: Gateway = await start_gateway(replicas=2, signin=signin)
    return started


@pytest.fixture
async def stranger(gateway: Gateway, open_life: Callable[..., Any]) -> Life:
    made: Life = await open_life(gateway, signed_in=False)
    return made


def account(email: str, subject: str = "", verified: str = "true") -> str:
    return f"{subject or secrets.token_hex(6)}|{email}|{verified}"


def fresh(domain: str = "example.org") -> str:
    return f"{secrets.token_hex(6)}@{domain}"


async def come(life: Life, issuer: str, who: str, query: str = "") -> Any:
    """Sign in with the provider as ``who``: the gateway's answer to what the provider sent the browser back with."""
    question = await life.browser.get(f"{life.address}/sign-in/provider{query}")
    assert question.status_code == 303, question.text
    back = await signed_in_there(life.browser, question, issuer, who)
    assert back.startswith(f"{life.address}/sign-in/provider/callback?")
    answer = await life.browser.get(back)
    # Who signs in as somebody else there has another browser there.
    life.browser.cookies.delete("_session", domain="localhost.local", path="/")
    return answer


async def signed_in_as(life: Life) -> str | None:
    """Subject of whoever is signed in with this browser."""
    page = await life.browser.get(f"{life.address}/signed-in")
    if page.status_code == 303:
        return None
    email = page.text.partition("as <strong>")[2].partition("</strong>")[0]
    user = await life.gateway.main.users.by_email(email)
    assert user is not None, page.text
    return user.id


async def test_the_question_carries_pkce_a_nonce_and_a_state_that_says_nothing(stranger: Life) -> None:
    page = await stranger.browser.get(f"{stranger.address}/sign-in", params={"request": "x" * 43})
    assert f"/sign-in/provider?request={'x' * 43}" in page.text
    assert "Sign in with Example" in page.text
    answer = await stranger.browser.get(f"{stranger.address}/sign-in/provider?request={'x' * 43}")
    asked = dict(parse_qsl(urlsplit(answer.headers["location"]).query))
    assert asked["code_challenge_method"] == "S256"
    assert asked["redirect_uri"] == f"{stranger.address}/sign-in/provider/callback"
    assert set(asked["scope"].split()) == {"openid", "email"}
    assert len(asked["nonce"]) == 43
    assert "x" * 20 not in asked["state"]


async def test_whoever_is_on_the_list_gets_an_account_and_keeps_it_when_the_address_changes(
    stranger: Life, issuer: str
) -> None:
    email, subject = fresh(), secrets.token_hex(6)
    answer = await come(stranger, issuer, account(email, subject))
    assert answer.headers["location"] == "/signed-in"
    first = await signed_in_as(stranger)
    user = await stranger.gateway.main.users.by_email(email)
    assert user is not None
    assert user.id == first
    stranger.browser.cookies.clear()
    answer = await come(stranger, issuer, account(fresh(), subject))
    assert answer.headers["location"] == "/signed-in"
    assert await signed_in_as(stranger) == first


async def test_signing_in_leads_on_to_the_program_that_asked(stranger: Life, issuer: str) -> None:
    await stranger.register()
    page = await stranger.follow(await stranger.ask())
    handle = dict(parse_qsl(page.url.query.decode()))["request"]
    answer = await come(stranger, issuer, account(fresh()), f"?request={handle}")
    assert answer.headers["location"] == f"/consent?request={handle}"
    for elsewhere in ("https://evil.example", "//evil.example", "/console/../x"):
        stranger.browser.cookies.clear()
        answer = await come(stranger, issuer, account(fresh()), "?" + urlencode({"request": elsewhere}))
        assert answer.headers["location"] == "/signed-in"


@pytest.mark.parametrize("who", ["someone@example.com|true", "someone@example.org|false", "|true"])
async def test_an_address_that_is_unverified_or_not_on_the_list_is_refused(
    stranger: Life, issuer: str, who: str
) -> None:
    email, _, verified = who.partition("|")
    answer = await come(stranger, issuer, account(email, verified=verified))
    assert answer.status_code == 403
    assert await signed_in_as(stranger) is None
    assert await stranger.gateway.main.users.by_email(email) is None


async def test_an_account_that_waits_to_be_used_is_the_one_of_its_verified_address(stranger: Life, issuer: str) -> None:
    assert (await come(stranger, issuer, account(stranger.person.email, verified="false"))).status_code == 403
    await come(stranger, issuer, account(stranger.person.email.upper()))
    assert await signed_in_as(stranger) == stranger.person.user.id


async def test_an_account_that_somebody_uses_is_not_taken_over_by_its_address(stranger: Life, issuer: str) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    answer = await come(stranger, issuer, account(stranger.person.email))
    assert answer.status_code == 403
    assert "Sign in that way" in answer.text
    assert await signed_in_as(stranger) is None


async def test_whoever_uses_an_account_connects_it_and_signs_in_with_the_provider_then(
    stranger: Life, issuer: str
) -> None:
    await open_link(stranger, await link_for(stranger.gateway, stranger.person), password=PASSWORD, again=PASSWORD)
    page = await stranger.browser.get(f"{stranger.address}/signed-in")
    query = page.text.partition('href="/sign-in/provider')[2].partition('"')[0].replace("&amp;", "&")
    who = account("one@example.com")
    assert (await come(stranger, issuer, who, query)).headers["location"] == "/signed-in"
    stranger.browser.cookies.clear()
    await come(stranger, issuer, who)
    assert await signed_in_as(stranger) == stranger.person.user.id


async def test_a_foreign_page_connects_nothing(life: Life, issuer: str) -> None:
    answer = await life.browser.get(f"{life.address}/sign-in/provider?connect=guessed")
    assert answer.status_code == 403


async def test_an_identity_belongs_to_one_account(stranger: Life, issuer: str, open_life: Callable[..., Any]) -> None:
    who = account(fresh())
    await come(stranger, issuer, who)
    other: Life = await open_life(stranger.gateway)
    page = await other.browser.get(f"{other.address}/signed-in")
    query = page.text.partition('href="/sign-in/provider')[2].partition('"')[0].replace("&amp;", "&")
    assert (await come(other, issuer, who, query)).status_code == 403


async def test_an_answer_counts_once_in_one_browser_from_one_issuer(
    stranger: Life, issuer: str, open_life: Callable[..., Any]
) -> None:
    question = await stranger.browser.get(f"{stranger.address}/sign-in/provider")
    back = await signed_in_there(stranger.browser, question, issuer, account(fresh()))
    victim: Life = await open_life(stranger.gateway, signed_in=False)
    await victim.browser.get(f"{victim.address}/sign-in")
    assert (await victim.browser.get(back)).status_code == 400  # login CSRF
    mixed_up = back.replace(f"iss={urlencode({'x': issuer})[2:]}", "iss=https%3A%2F%2Fevil.example")
    assert mixed_up != back
    assert (await stranger.browser.get(mixed_up)).status_code == 401
    without = back.partition("&iss=")[0]
    assert (await stranger.browser.get(without)).status_code == 401
    name = cookie_name(stranger.address)
    before = stranger.browser.cookies.get(name) or ""
    assert (await stranger.browser.get(back)).status_code == 303
    stranger.browser.cookies.set(name, before, domain="localhost.local")
    assert (await stranger.browser.get(back)).status_code == 401


async def test_an_answer_to_another_question_is_refused(issuer: str, stranger: Life) -> None:
    upstream = Upstream(issuer, "public-gateway", None, label="", scopes="email")
    callback = f"{stranger.address}/sign-in/provider/callback"
    verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(16)
    for wrong in ({"nonce": "another"}, {"verifier": secrets.token_urlsafe(48)}, {}):
        stranger.browser.cookies.clear()
        where = await upstream.question(callback, state="s", nonce=nonce, verifier=verifier)
        back = await signed_in_there(stranger.browser, await stranger.browser.get(where), issuer, account(fresh()))
        code = dict(parse_qsl(urlsplit(back).query))["code"]
        given = {"nonce": nonce, "verifier": verifier, **wrong}
        if wrong:
            with pytest.raises(NotVouched):
                await upstream.redeem(code, callback, **given)
        else:
            assert (await upstream.redeem(code, callback, **given)).verified


async def test_a_person_who_declines_there_is_told_so(stranger: Life) -> None:
    question = await stranger.browser.get(f"{stranger.address}/sign-in/provider")
    asked = dict(parse_qsl(urlsplit(question.headers["location"]).query))
    issuer = question.headers["location"].partition("/auth")[0]
    query = urlencode({"error": "access_denied", "state": asked["state"], "iss": issuer})
    answer = await stranger.browser.get(f"{stranger.address}/sign-in/provider/callback?{query}")
    assert answer.status_code == 401
    assert "did not sign you in" in answer.text


async def test_a_provider_that_is_away_or_another_leaves_the_other_ways(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], issuer: str
) -> None:
    for elsewhere in ("http://localhost:9", f"{issuer}/"):  # nobody there; another spelling of the issuer
        signin = SignInSettings(oidc_issuer=elsewhere, oidc_client_id="gateway", allowed_emails=("*",))
        life: Life = await open_life(await start_gateway(signin=signin), signed_in=False)
        assert (await life.browser.get(f"{life.address}/sign-in/provider")).status_code == 502
        assert (await life.browser.get(f"{life.address}/sign-in")).status_code == 200
    with pytest.raises(Unreachable):
        await Upstream("http://localhost:9", "x", None, label="", scopes="").check_sender(None)

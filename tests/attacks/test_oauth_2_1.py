"""The attacks of OAuth 2.1, section 7 (security considerations), against a running gateway."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import httpx2
import pytest

from app.oauth.login.sessions import cookie_name
from tests.attacks.conftest import House
from tests.oauth.conftest import CALLBACK, PASSWORD, Life, form_of

SCRIPT = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{7*7}}"
SPLITTING = [
    "\r\nSet-Cookie: planted=1",
    "\nSet-Cookie: planted=1",
    "\r\n\r\n<script>",
    "\x00",
    "\u560a\u560dSet-Cookie: x=1",
]
MACHINES = ("/token", "/revoke", "/introspect")
FORM = "application/x-www-form-urlencoded"


async def confidential(house: House, method: str = "client_secret_post") -> Life:
    life = await house.life()
    await life.register(token_endpoint_auth_method=method)
    return life


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{quote(user)}:{quote(password)}".encode()).decode()}


def proofs(one: Life, other: Life) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Form and headers with which nobody proves to be ``one``."""
    client, secret = one.client["client_id"], one.client["client_secret"]
    foreign = other.client["client_secret"]
    return [
        ({"client_id": client}, {}),
        ({"client_id": client, "client_secret": ""}, {}),
        ({"client_id": client, "client_secret": foreign}, {}),
        ({"client_id": client, "client_secret": secret[:-1]}, {}),
        ({"client_id": client, "client_secret": secret.swapcase()}, {}),
        ({"client_id": client, "client_secret": secret + "\x00"}, {}),
        ({"client_id": client + " ", "client_secret": secret}, {}),
        ({}, basic(client, foreign)),
        ({}, basic(client, "")),
        ({}, {"Authorization": "Basic !!!"}),
        ({}, {"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode()}),
        ({}, {"Authorization": f"Bearer {secret}"}),
        ({"client_id": other.client["client_id"], "client_secret": foreign}, basic(client, secret)),
    ]


async def test_a_client_is_proven_by_its_own_secret_in_the_body_or_header_alone(house: House) -> None:
    """Client authentication: another's secret, a part of it, two at once, or one in the address prove nothing."""
    one, other = await confidential(house), await confidential(house)
    for path in MACHINES:
        for form, headers in proofs(one, other):
            fields = {"grant_type": "refresh_token", "refresh_token": "x", "token": "x", **form}
            refused = await one.browser.post(f"{one.address}{path}", data=fields, headers=headers)
            assert refused.status_code in (400, 401), (path, form, refused.text)
            assert refused.json()["error"] in ("invalid_client", "invalid_request"), (path, form, refused.text)
        query = urlencode({"client_id": one.client["client_id"], "client_secret": one.client["client_secret"]})
        refused = await one.browser.post(f"{one.address}{path}?{query}", data={"grant_type": "x", "token": "x"})
        assert refused.status_code in (400, 401), refused.text


async def test_a_registered_name_is_a_name_and_nothing_more(house: House) -> None:
    """Client impersonation: who calls itself Claude on this computer is shown as a program that nobody vouches for."""
    life = await house.life()
    await life.register(client_name="Claude", client_uri="https://claude.ai")
    page = await life.to_consent()
    assert "127.0.0.1" in page.text
    for disguise in (
        "Claude\u202eevil",
        "Cl\u200baude",
        "Claude\u0000",
        "Claude\r\nVerified: yes",
        "\ufeffClaude",
        "x" * 101,
    ):
        body = {"client_name": disguise, "redirect_uris": [CALLBACK]}
        refused = await life.browser.post(f"{life.address}/register", json=body)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_client_metadata"), repr(disguise)


async def test_what_one_holds_cannot_be_guessed(house: House) -> None:
    """Credentials-guessing: every secret that a client or browser holds is 256 random bits, and none like another."""
    held: list[str] = []
    for _ in range(3):
        life = await confidential(house)
        code = await life.code()
        tokens = (await life.exchange(code, client_secret=life.client["client_secret"])).json()
        question = (await life.ask()).headers["location"].partition("request=")[2]
        held += [code, tokens["refresh_token"], question, life.client["client_secret"]]
    page = await (await house.life(signed_in=False)).browser.get(f"{house.addresses[0]}/sign-in")
    held += [page.cookies[cookie_name(house.addresses[0])]]
    assert len({each[:8] for each in held}) == len(held)
    assert all(len(base64.urlsafe_b64decode(each + "=")) >= 32 for each in held)


async def test_a_wrong_password_counts_for_one_account_and_not_for_its_own_browser(house: House) -> None:
    """Credentials-guessing: a stranger is stopped, the owner's own browser is not, and nobody else is."""
    owner = await house.life(signed_in=False)
    await house.services.main.passwords.set(owner.person.user.id, PASSWORD)
    assert (await owner.sign_in(await owner.browser.get(f"{owner.address}/sign-in"))).status_code == 303
    stranger = await house.life(owner.person, signed_in=False)
    page = await stranger.browser.get(f"{stranger.address}/sign-in")
    answers = [(await stranger.sign_in(page, f"wrong {number}")).status_code for number in range(12)]
    assert answers[-1] == 429
    assert set(answers) == {401, 429}
    assert (await stranger.sign_in(page)).status_code == 429
    page = await owner.browser.get(f"{owner.address}/sign-in")
    assert (await owner.sign_in(page)).status_code == 303


async def test_a_foreign_browser_answers_no_question(house: House) -> None:
    """Cross-site request forgery: neither consent nor sign-in can be sent for somebody else."""
    attacker, victim = await house.life(), await house.life()
    await attacker.register()
    page = await attacker.to_consent()
    sent = {**form_of(page.text), "answer": ["allow"]}
    for headers in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": attacker.address}):
        refused = await victim.browser.post(f"{victim.address}/consent", data=sent, headers=headers)
        assert (refused.status_code, "location" in refused.headers) == (403, False)
    await house.services.main.passwords.set(attacker.person.user.id, PASSWORD)
    form = await (await house.life(signed_in=False)).browser.get(f"{victim.address}/sign-in")
    fields = {**form_of(form.text), "email": attacker.person.email, "password": PASSWORD}
    before = dict(victim.browser.cookies)
    refused = await victim.browser.post(f"{victim.address}/sign-in", data=fields)
    assert (refused.status_code, dict(victim.browser.cookies)) == (403, before)  # nobody is signed in as the attacker


async def test_a_planted_cookie_is_never_signed_in(house: House) -> None:
    """Session fixation: what an attacker chose is neither kept at signing in nor taken for a session."""
    life = await house.life(signed_in=False)
    await house.services.main.passwords.set(life.person.user.id, PASSWORD)
    name, planted = cookie_name(life.address), secrets.token_urlsafe(32)
    life.browser.cookies.set(name, planted, domain="localhost.local")
    signed = await life.sign_in(await life.browser.get(f"{life.address}/sign-in"))
    assert signed.status_code == 303
    assert planted not in signed.headers["set-cookie"]
    attacker = httpx2.AsyncClient(trust_env=False, cookies={name: planted})
    async with attacker:
        assert (await attacker.get(f"{life.address}/signed-in")).headers["location"] == "/sign-in"


async def test_nothing_that_was_sent_becomes_markup(house: House) -> None:
    """Injection and input validation: names and parameters are shown as text, errors repeat nothing."""
    life = await house.life()
    await life.register(client_name=SCRIPT)
    shown = [await life.to_consent()]
    for name in (
        "client_id",
        "redirect_uri",
        "state",
        "scope",
        "code_challenge",
        "resource",
        "request",
        "response_type",
    ):
        shown.append(await life.browser.get(life.question(**{name: SCRIPT})))  # noqa: PERF401 - one question at a time
    for path in ("/sign-in", "/consent", "/invitation", "/sign-in/link", "/sign-in/recovery", "/console", "/nowhere"):
        query = dict.fromkeys(("request", "token", "tenant", "said"), SCRIPT)
        answer = await life.browser.get(f"{life.address}{path}", params=query, headers={"Accept": "text/html"})
        shown.append(answer)
    page = await life.browser.get(f"{life.address}/sign-in")
    fields = {**form_of(page.text), "email": SCRIPT, "password": SCRIPT, "request": SCRIPT}
    shown.append(await life.browser.post(f"{life.address}/sign-in", data=fields))
    for answer in shown:
        assert "<script>alert" not in answer.text, answer.url
        assert "<img src=x" not in answer.text, answer.url
        assert "49&" not in answer.text, answer.url
    assert "{{7*7}}" in shown[0].text


async def test_no_header_is_split(house: House, raw: Callable[..., Any]) -> None:
    """Injection: line breaks in what is sent back stay inside the one address."""
    life = await house.life()
    await life.register()
    for each in SPLITTING:
        for name in ("state", "scope", "resource", "prompt"):
            answer = await life.ask(**{name: f"x{each}"})
            assert "planted" not in answer.cookies, (name, each)
            assert "\n" not in answer.headers.get("location", ""), (name, each)
        answer = await life.browser.get(f"{life.address}/sign-in", params={"request": f"/console{each}"})
        assert "planted" not in answer.cookies
    target = life.question().removeprefix(life.address).encode()
    for broken in (b"\r\nSet-Cookie: planted=1", b"\nX: y", b"\x00", b" x", b"\xff"):
        said = await raw(life.address, b"GET " + target + broken + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"et-Cookie: planted" not in said
        assert said[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 303", b"HTTP/1.1 421", b""), said[:80]


@pytest.mark.parametrize("path", ["/token", "/revoke", "/introspect", "/register", "/consent", "/sign-in"])
async def test_whatever_is_oversized_or_malformed_is_refused_in_words(house: House, path: str) -> None:
    """Injection and input validation: bodies of every wrong size, form and encoding."""
    machine = path in ("/token", "/revoke", "/introspect", "/register")
    life = await house.life()
    bodies = [
        (FORM, b"a=" + b"x" * 70_000),
        (FORM, b"&".join(b"a%d=1" % number for number in range(300))),
        (FORM, b"client_id=%ff%fe&token=%c3%28&grant_type=refresh_token"),
        (FORM, b"\xff\xfe\x00"),
        (FORM, b"token=x&token=y&client_id=x&client_id=y&grant_type=a&grant_type=b&csrf=1&csrf=2&request=1&request=2"),
        (FORM, b"%00=%00&token=%00&client_id=%00&grant_type=%00&csrf=%00&request=%00"),
        (FORM, b"client_id=%ED%A0%80&token=%ED%A0%80&grant_type=authorization_code&code=%ED%A0%80"),
        (FORM, b""),
        (FORM + "; charset=utf-16", b"\xff\xfet\x00"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--x--"),
        ("application/json", b'{"grant_type": "authorization_code"'),
        ("application/json", b"[" * 30_000),
        ("application/json", b'{"redirect_uris": ' + b"[" * 900 + b"]" * 900 + b"}"),
        ("application/json", b'{"redirect_uris": ["\\ud800"], "client_name": "\\udfff"}'),
        ("application/json", b'{"redirect_uris": NaN, "scope": 1e999, "a": ' + b"9" * 5000 + b"}"),
        ("application/json", b'{"redirect_uris": {}, "grant_types": {"a": 1}, "client_name": [], "scope": {}}'),
        ("application/json", b'{"redirect_uris": ["' + CALLBACK.encode() + b'"], "token_endpoint_auth_method": []}'),
        ("text/plain", b"grant_type=authorization_code"),
        ("", b"grant_type=authorization_code"),
        ("a" * 5000, b"x"),
    ]
    for kind, body in bodies:
        answer = await life.browser.post(f"{life.address}{path}", content=body, headers={"Content-Type": kind})
        assert answer.status_code in (400, 401, 403, 413, 415), (kind[:40], body[:60], answer.status_code, answer.text)
        if machine and answer.status_code != 413:
            assert answer.json()["error"] in {
                "invalid_request",
                "invalid_client",
                "invalid_client_metadata",
                "invalid_redirect_uri",
                "unsupported_grant_type",
            }, answer.text
        assert "no-store" in answer.headers["cache-control"]


async def test_a_stranger_learns_nothing_about_a_token(house: House) -> None:
    """Access tokens: introspection says the same of another client's token as of none; a public client may not ask."""
    _, tokens = await house.connected()
    stranger = await confidential(house)
    own = {"client_id": stranger.client["client_id"], "client_secret": stranger.client["client_secret"]}
    for token in (tokens["access_token"], tokens["refresh_token"], house.gateway.token, "made up", "a.b.c"):
        answer = await stranger.browser.post(f"{stranger.address}/introspect", data={**own, "token": token})
        assert (answer.status_code, answer.json()) == (200, {"active": False})
    public = await house.life()
    await public.register()
    form = {"client_id": public.client["client_id"], "token": tokens["access_token"]}
    for asked in (form, {"token": tokens["access_token"]}):
        answer = await public.browser.post(f"{public.address}/introspect", data=asked)
        assert (answer.status_code, answer.json()["error"]) in {(401, "invalid_client"), (400, "invalid_request")}

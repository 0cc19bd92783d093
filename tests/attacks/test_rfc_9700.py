"""The attacks of RFC 9700 (Best Current Practice for OAuth 2.0 Security), section 4, against a running gateway."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.attacks.conftest import House
from tests.oauth.clients.test_redirect import CLAUDE, TRICKS
from tests.oauth.conftest import CALLBACK, PASSWORD, Life, form_of, link_for, pkce

LOOPBACK_TRICKS = [
    "http://localhost.evil.example:49152/callback",
    "http://127.0.0.1.evil.example:49152/callback",
    "http://127.0.0.1:49152@evil.example/callback",
    "http://evil.example#@127.0.0.1:49152/callback",
    "http://evil.example\\@127.0.0.1:49152/callback",
    "http://127.0.0.1:49152\\@evil.example/callback",
    "http://127.0.0.1:49152/callback/../../evil",
    "http://127.0.0.1:49152/callback/%2e%2e/evil",
    "http://127.0.0.1:49152/%63allback",
    "http://127.0.0.1:49152/Callback",
    "http://127.0.0.1:49152//callback",
    "http://127.0.0.1:49152/callback?next=https://evil.example",
    "http://127.0.0.1:49152/callback;x",
    "http://127.0.0.1:49152/callback%00",
    "http://127.0.0.1:49152/callback\x00",
    "http://127.0.0.1:49152/callback\r\nLocation: https://evil.example",
    "http://127.0.0.1:49152/callback ",
    "http://127.1:49152/callback",
    "http://0x7f000001:49152/callback",
    "http://localhost:49152/callback",
    "http://[::1]:49152/callback",
    "https://127.0.0.1:49152/callback",
    "HTTP://127.0.0.1:49152/callback",
    "http://１２７.0.0.1:49152/callback",
    "http://127.0.0.1:99999/callback",
    "http://127.0.0.1:-1/callback",
    "//127.0.0.1:49152/callback",
    "javascript://127.0.0.1:49152/callback%0aalert(1)",
]

LEADS_AWAY = [
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/console//evil.example",
    "/console/..//evil.example",
    "/console/../authorize?client_id=x",
    "/console\r\nLocation: https://evil.example",
    "/console@evil.example",
    "/console?next=https://evil.example",
    "/sign-out",
    "invitation.https://evil.example",
    "invitation." + "x" * 43 + "&x=https://evil.example",
    "x" * 43 + "\n",
    "x" * 43 + "/../../evil",
    "javascript:alert(1)",
]


async def test_no_trick_with_a_redirect_uri_is_registered_or_redirected_to(house: House) -> None:
    """§4.1: the address is compared byte for byte, and judged again whoever registered it."""
    life = await house.life()
    client = await life.register(redirect_uris=[CLAUDE])
    for trick in TRICKS:
        refused = await life.browser.post(f"{life.address}/register", json={"redirect_uris": [trick]})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri"), trick
    near = [
        f"{CLAUDE}/",
        f"{CLAUDE}?x=1",
        f"{CLAUDE}%20",
        f"{CLAUDE}/..",
        CLAUDE.upper(),
        CLAUDE.replace("/api", "//api"),
    ]
    for trick in [*filter(None, TRICKS), *near, *LOOPBACK_TRICKS]:
        page = await life.browser.get(life.question(redirect_uri=trick, client_id=client["client_id"]))
        assert (page.status_code, "location" in page.headers) == (400, False), trick
        assert "evil.example" not in page.text, trick


async def test_no_trick_with_a_loopback_address_leads_off_this_computer(house: House) -> None:
    """§4.1.3, §4.1.1: of a loopback address only the port may differ."""
    life = await house.life()
    await life.register(redirect_uris=[CALLBACK])
    for trick in LOOPBACK_TRICKS:
        page = await life.browser.get(life.question(redirect_uri=trick))
        assert (page.status_code, "location" in page.headers) == (400, False), trick
    assert (await life.ask(redirect_uri=CALLBACK.replace("49152", "1"))).status_code == 303


async def test_nothing_of_a_code_leaves_by_a_referrer_or_stays_with_a_page(house: House) -> None:
    """§4.2, §4.3: pages name nobody they were asked from, load nothing from elsewhere and are never kept."""
    life = await house.life()
    await life.register(redirect_uris=[CLAUDE], client_uri="https://evil.example/a", client_name="<img src=//evil>")
    page = await life.to_consent()
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    loaded = re.findall(r"<(?:img|script|link|iframe|object|embed|source)\b[^>]*?(?:src|href)=\"([^\"]*)\"", page.text)
    assert all(each.startswith(("/oauth/", "data:,")) for each in loaded), loaded
    assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_an_answer_names_its_issuer_at_each_address(house: House) -> None:
    """§4.4: a client that asked elsewhere sees from `iss` who answers, in errors too."""
    for address in house.addresses:
        life = await house.life(address=address)
        await life.register()
        published = await life.browser.get(f"{address}/.well-known/oauth-authorization-server")
        allowed = life.returned(await life.answer(await life.to_consent()))
        refused = life.returned(await life.answer(await life.to_consent(), "refuse"))
        wrong = life.returned(await life.ask(response_type="token"))
        assert {allowed["iss"], refused["iss"], wrong["iss"]} == {published.json()["issuer"]} == {address}


async def test_a_code_of_one_address_is_worth_nothing_at_the_other_and_stays_good(house: House) -> None:
    """§4.4: a client that two issuers know by one id gives neither what the other one gave."""
    life = await house.life()
    life.client = {"client_id": house.publisher.publish("/mixed.json", redirect_uris=[CALLBACK])}
    life.client["redirect_uris"] = [CALLBACK]
    code = await life.code()
    here, there = house.addresses
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": life.verifier}
    form["client_id"] = life.client["client_id"]
    for resource in (f"{here}/mcp", f"{there}/mcp", ""):
        refused = await life.browser.post(f"{there}/token", data={**form, "resource": resource})
        assert (refused.status_code, refused.json()["error"]) in {(400, "invalid_grant"), (400, "invalid_target")}
    tokens = (await life.exchange(code)).json()
    moved = {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"], "client_id": form["client_id"]}
    refused = await life.browser.post(f"{there}/token", data=moved)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert (await life.refresh(tokens["refresh_token"])).status_code == 200


async def test_an_injected_code_is_not_redeemed_by_another_session_or_client(house: House) -> None:
    """§4.5: whoever lays hands on a code has neither its verifier nor its client."""
    shared = house.publisher.publish("/shared.json", redirect_uris=[CALLBACK])
    victim, attacker = await house.life(), await house.life()
    victim.client = attacker.client = {"client_id": shared, "redirect_uris": [CALLBACK]}
    await attacker.to_consent()  # the attacker's own session, whose verifier will be sent along
    refused = await attacker.exchange(await victim.code())
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    code = await victim.code()
    other = await house.life()
    await other.register()
    refused = await other.exchange(code, code_verifier=victim.verifier)
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    assert (await victim.exchange(code)).status_code == 200  # another client's attempt used nothing up


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
        {"code_challenge_method": "S256 "},
        {"code_challenge_method": "S512"},
        {"code_challenge": ""},
        {"code_challenge": "A" * 42},
        {"code_challenge": "A" * 44},
        {"code_challenge": "A" * 43 + "="},
        {"code_challenge": "A" * 42 + "+"},
        {"code_challenge": "A" * 43 + "\n"},
        {"code_challenge": None, "code_challenge_method": None},
    ],
    ids=str,
)
async def test_a_request_without_s256_gets_no_code(house: House, changes: dict[str, Any]) -> None:
    """§4.8: there is no way down to `plain` or to nothing."""
    life = await _registered(house)
    assert life.returned(await life.ask(**changes))["error"] == "invalid_request"


async def test_a_code_is_given_for_its_verifier_alone(house: House) -> None:
    """§4.8.2: not for none, for the challenge itself, or for another spelling."""
    life = await _registered(house)
    code = await life.code()
    for absent in (None, ""):
        refused = await life.exchange(code, code_verifier=absent)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
    twice = {"grant_type": "authorization_code", "code": code, "client_id": life.client["client_id"]}
    answer = await life.browser.post(
        f"{life.address}/token", data={**twice, "code_verifier": [life.verifier, life.verifier]}
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert (await life.exchange(code)).status_code == 200  # what was malformed used nothing up
    for spelt in (
        lambda right, challenge: challenge,
        lambda right, challenge: right + "=",
        lambda right, challenge: right[:-1],
        lambda right, challenge: right + "\x00",
        lambda right, challenge: "é" * 43,
        lambda right, challenge: pkce()[0],
    ):
        code = await life.code()
        challenge = challenge_of(life.verifier)
        refused = await life.exchange(code, code_verifier=spelt(life.verifier, challenge))
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
        again = await life.exchange(code)
        assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")  # one guess at a verifier


async def test_a_token_is_for_the_one_resource_that_it_names(house: House) -> None:
    """§4.9, §4.10: of two addresses, and for the same person and client, each takes its own tokens alone."""
    person = await house.person()
    client = house.publisher.publish("/audience.json", redirect_uris=[CALLBACK])
    here, there = house.addresses
    tokens = {}
    for address in house.addresses:
        life = await house.life(person, address=address)
        life.client = {"client_id": client, "redirect_uris": [CALLBACK]}
        tokens[address] = (await life.tokens())["access_token"]
    assert [await house.works(tokens[here], at) for at in (here, there)] == [True, False]
    assert [await house.works(tokens[there], at) for at in (here, there)] == [False, True]


async def test_a_resource_of_somebody_else_yields_no_token(house: House) -> None:
    """§4.10.2: neither asking nor exchanging can widen or move the audience."""
    life = await _registered(house)
    other = house.addresses[1]
    for resource in (f"{other}/mcp", "https://evil.example/mcp", f"{life.address}/mcp/../admin", f"{life.address}/MCP"):
        assert life.returned(await life.ask(resource=resource))["error"] == "invalid_target"
        code = await life.code()
        refused = await life.exchange(code, resource=resource)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_target")
        answer = await life.exchange(code, resource=None)
        assert (await life.claims(answer.json()["access_token"]))["aud"] == f"{life.address}/mcp"


async def test_no_continuation_leads_off_this_gateway(house: House) -> None:
    """§4.11: wherever a page is told to go on to, it stays with its own pages."""
    life = await house.life(signed_in=False)
    await house.services.main.passwords.set(life.person.user.id, PASSWORD)
    for way in LEADS_AWAY:
        for path in ("/sign-in", "/sign-in/recovery", "/sign-in/provider"):
            page = await life.browser.get(f"{life.address}{path}", params={"request": way})
            assert "evil.example" not in page.headers.get("location", "")
            assert "evil.example" not in page.text, (path, way)
        for path, name in (("/consent", "request"), ("/invitation", "token"), ("/sign-in/link", "token")):
            page = await life.browser.get(f"{life.address}{path}", params={name: way})
            assert _stays(page), (path, way)
        page = await life.browser.get(f"{life.address}/console", params={"next": way, "return_to": way, "url": way})
        assert _stays(page), way
    for way in LEADS_AWAY[:3]:
        life.browser.cookies.clear()
        page = await life.browser.get(f"{life.address}/sign-in")
        fields = {**form_of(page.text), "email": life.person.email, "password": PASSWORD, "request": way}
        answer = await life.browser.post(f"{life.address}/sign-in", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, "/signed-in"), way


async def test_every_form_is_answered_with_303(house: House) -> None:
    """§4.12: a browser must not send its form, with a password in it, on to the client."""
    life = await house.life(signed_in=False)
    await life.register()
    await house.services.main.passwords.set(life.person.user.id, PASSWORD)
    asked = await life.follow(await life.ask())
    signed = await life.sign_in(asked)
    answered = await life.answer(await life.follow(signed))
    page = await life.browser.get(f"{life.address}/signed-in")
    left = await life.browser.post(f"{life.address}/sign-out", data=form_of(page.text))
    link = await life.browser.get(await link_for(life.gateway, life.person))
    used = await life.browser.post(f"{life.address}/sign-in/link", data=form_of(link.text))
    assert [each.status_code for each in (signed, answered, left)] == [303, 303, 303]
    assert used.status_code in (303, 400)


async def test_a_stolen_refresh_token_serves_no_other_client_and_ends_nothing(house: House) -> None:
    """§4.14: with it alone a thief neither gets tokens nor signs the person out."""
    victim, tokens = await house.connected()
    thief = await _registered(house)
    for form in ({}, {"client_id": victim.client["client_id"] + "x"}):
        refused = await thief.refresh(tokens["refresh_token"], **form)
        assert (refused.status_code, refused.json()["error"]) in {(400, "invalid_grant"), (401, "invalid_client")}
    revoked = await thief.browser.post(
        f"{thief.address}/revoke", data={"token": tokens["refresh_token"], "client_id": thief.client["client_id"]}
    )
    assert revoked.status_code == 200  # RFC 7009 §2.2: it says nothing of whose token it was
    assert (await victim.refresh(tokens["refresh_token"])).status_code == 200


async def test_no_client_chooses_its_own_name_for_a_subject(house: House) -> None:
    """§4.15: ids of clients are made here, so none can be that of a person."""
    life = await house.life()
    for asked in (life.person.user.id, "us-1", life.person.email, ""):
        body = {"client_id": asked, "sub": asked, "redirect_uris": [CALLBACK], "client_secret": "mine"}
        given = (await life.browser.post(f"{life.address}/register", json=body)).json()
        assert given["client_id"].startswith("gk1.")
        assert "client_secret" not in given


async def test_every_page_refuses_to_be_framed(house: House) -> None:
    """§4.16: the answers to bad requests too."""
    life = await house.life()
    await life.register()
    paths = [
        "/authorize",
        "/authorize?client_id=x",
        "/consent",
        "/consent?request=x",
        "/sign-in",
        "/sign-in/link",
        "/sign-in/link?token=x",
        "/sign-in/provider",
        "/sign-in/recovery",
        "/invitation?token=x",
        "/signed-in",
        "/console",
        "/console/programs",
        "/console/tokens/new",
        "/console/t/unknown/members",
        "/console/gateway/tenants",
        "/nowhere",
    ]
    asked = [await life.browser.get(f"{life.address}{path}", headers={"Accept": "text/html"}) for path in paths]
    pages = [await life.to_consent(), *asked]
    for page in pages:
        assert page.headers["x-frame-options"] == "DENY", page.url
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"], page.url
        assert page.headers["x-content-type-options"] == "nosniff", page.url


@pytest.mark.parametrize(
    "changes",
    [
        {"response_mode": "web_message"},
        {"response_mode": "form_post"},
        {"response_mode": "fragment"},
        {"response_mode": "query.jwt"},
        {"response_type": "token"},
        {"response_type": "code token"},
        {"response_type": "code id_token"},
        {"response_type": "none"},
        {"response_type": "code code"},
    ],
    ids=str,
)
async def test_no_other_way_of_answering_is_offered(house: House, changes: dict[str, str]) -> None:
    """§4.17, §2.1.2: nothing is posted between windows, and no token comes from the authorization endpoint."""
    life = await _registered(house)
    answer = life.returned(await life.ask(**changes))
    assert answer["error"] in {"invalid_request", "unsupported_response_type"}
    assert not {"code", "access_token", "id_token"} & answer.keys()


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _stays(page: httpx2.Response) -> bool:
    where = page.headers.get("location", "/")
    return where.startswith("/") and not where.startswith(("//", "/\\")) and "evil" not in urlsplit(where).path


async def _registered(house: House) -> Life:
    life = await house.life()
    await life.register()
    return life

"""Spoiled requests at the pages below ``/sign-in``: links, recovery codes, passkeys, those who vouch elsewhere.

What a passkey brings is nested (a form's field, JSON, base64url, CBOR), so it is spoiled at each of its depths.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import html
import json
import re
import secrets
from collections import Counter
from typing import Any

import cbor2
import httpx2
import pytest
from hypothesis import strategies as st

from app.oauth.login.sessions import cookie_name
from tests.attacks.conftest import House, told
from tests.attacks.shots import FORM, JSON, Known, Shot, encoded, noise, spoiled
from tests.attacks.test_fuzz import FEW, FORGET_BUDGET, each_of, fire, judge
from tests.oauth.conftest import form_of, link_for

TOGETHER, EXAMPLES, SOAK_EXAMPLES = 10, 25, 500
GET_ALONE = ("/sign-in/provider", "/sign-in/provider/callback")
SHOWN = ("/sign-in/link", "/sign-in/recovery")


def text_of(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def credential(page: str, kind: str, address: str) -> str:
    """What a browser would bring for the passkey that the page asks for (WebAuthn §5.1), made for another site."""
    options = re.search(rf'data-passkey="{kind}" data-options="([^"]*)"', page)
    assert options is not None, page
    challenge = json.loads(html.unescape(options[1]))["challenge"]
    said = {"type": f"webauthn.{kind}", "challenge": challenge, "origin": address, "crossOrigin": False}
    response: dict[str, Any] = {"clientDataJSON": text_of(json.dumps(said).encode())}
    key_id, head = secrets.token_bytes(16), secrets.token_bytes(32)
    if kind == "get":
        response |= {"authenticatorData": text_of(head + b"\x05\0\0\0\x01"), "signature": text_of(head)}
    else:
        key = cbor2.dumps({1: 2, 3: -7, -1: 1, -2: head, -3: head})
        data = head + b"\x45\0\0\0\x01" + bytes(16) + b"\0\x10" + key_id + key
        response |= {"attestationObject": text_of(cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data}))}
    return json.dumps({"id": text_of(key_id), "rawId": text_of(key_id), "type": "public-key", "response": response})


async def known(house: House) -> Known:
    """The forms of a stranger's browser. Nothing right among them signs anybody in, so they are good to the end."""
    life = await house.life(signed_in=False)
    link = await link_for(life.gateway, life.person)
    pages = [
        (await life.browser.get(url)).text
        for url in (link, *(f"{life.address}/sign-in{at}" for at in ("/recovery", "")))
    ]
    linked, front = pages[0], pages[2]
    csrf_of_link, csrf_of_recovery, csrf = (form_of(page)["csrf"][0] for page in pages)
    token, goal, mark = link.partition("token=")[2], secrets.token_urlsafe(32), cookie_name(life.address)
    right = {
        "/sign-in/link": [
            {"token": token, "csrf": csrf_of_link, "password": "some plain words", "again": "other plain words"},
            {"token": token, "csrf": csrf_of_link, "credential": credential(linked, "create", life.address)},
        ],
        "/sign-in/recovery": [
            {"csrf": csrf_of_recovery, "email": life.person.email, "code": "aaaa-bbbb", "request": goal}
        ],
        "/sign-in/passkey": [{"csrf": csrf, "credential": credential(front, "get", life.address), "request": goal}],
        "/sign-in/access": [{"csrf": csrf, "request": goal}],
        "/sign-in/provider": [{"request": goal}, {"request": goal, "connect": csrf}],
        "/sign-in/provider/callback": [{"state": goal, "code": token, "iss": life.address}],
    }
    return Known(right, dict.fromkeys(right, f"{mark}={life.browser.cookies[mark]}"))


@st.composite
def credentials(draw: st.DrawFn, right: str) -> str:
    """One value of a credential replaced, or some bytes below its base64url."""
    made = json.loads(right)
    inner = draw(st.sampled_from((made, made["response"], made["response"])))
    name = draw(st.sampled_from(sorted(inner)))
    try:
        raw = base64.urlsafe_b64decode(inner[name] + "==")
    except (TypeError, binascii.Error):
        raw = b""
    if raw and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(raw) - 1))
        inner[name] = text_of(raw[:at] + draw(st.binary(max_size=8)) + raw[at + draw(st.integers(0, 4)) :])
    else:
        inner[name] = draw(JSON)
    return json.dumps(made)


@st.composite
def shots(draw: st.DrawFn, known: Known) -> Shot:
    """One request at one of the pages; of those where a passkey may be brought, most bring a spoiled one."""
    path = draw(st.sampled_from(sorted(known.right)))
    said = {"Cookie": known.cookies[path]}
    if draw(st.integers(0, 9)) == 0:
        return draw(noise(path, said))
    holders = [fields for fields in known.right[path] if "credential" in fields]
    if draw(st.integers(0, 3)) and holders:
        fields = draw(st.sampled_from(holders))
        spoilt = {**fields, "credential": draw(credentials(fields["credential"]))}
        return Shot("POST", path, body=encoded([*spoilt.items()]).encode(), headers={"Content-Type": FORM, **said})
    pairs = draw(spoiled(known, path))
    if path in GET_ALONE or (path in SHOWN and draw(st.booleans())):
        return Shot("GET", path, query=encoded(pairs), headers=said)
    return Shot("POST", path, body=encoded(pairs).encode(), headers={"Content-Type": FORM, **said})


async def storm(house: House, capfd: pytest.CaptureFixture[str], *, examples: int, derandomize: bool) -> None:
    await house.database.control.write(lambda writing: writing.run(FORGET_BUDGET))
    right = await known(house)
    before, answered, tried = await house.records(), Counter[tuple[str, int]](), 0
    async with httpx2.AsyncClient(base_url=house.addresses[0], trust_env=False, timeout=120) as client:

        async def all_of(drawn: list[Shot]) -> None:
            nonlocal tried
            answers = await asyncio.gather(*(fire(client, shot) for shot in drawn))
            client.cookies.clear()
            for shot, answer in zip(drawn, answers, strict=True):
                judge(shot, answer)
                answered[shot.path, answer.status_code] += 1
                tried += (shot.path, shot.method) == ("/sign-in/recovery", "POST")

        volleys = st.lists(shots(right), min_size=TOGETHER, max_size=TOGETHER)
        await each_of(volleys, all_of, examples=examples, derandomize=derandomize)
        link = encoded([*right.right["/sign-in/link"][0].items()][:1])
        assert (await client.get(f"/sign-in/link?{link}")).status_code == 200, "nobody used the link up"
    assert answered.total() >= examples * TOGETHER
    # Each page was reached behind its form's token: what is refused there is what it is about, not a stale form.
    assert {
        ("/sign-in/link", 400),
        ("/sign-in/recovery", 401),
        ("/sign-in/passkey", 401),
        ("/sign-in/access", 401),
    } <= set(answered), answered
    grown = {label: n - before.get(label, 0) for label, n in (await house.records()).items()}
    assert grown.pop("_Audit", 0) <= tried + FEW
    assert grown.pop("_SignInAttempts", 0) <= tried + 1
    assert all(n <= 0 for n in grown.values()), grown
    reasons = Counter(line["reason"] for line in told(capfd) if line.get("event") == "passkey_refused")
    assert {"InvalidJSONStructure", "InvalidRegistrationResponse"} <= set(reasons), reasons


async def test_hundreds_of_spoiled_requests_at_the_ways_in_let_nobody_in(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    await storm(house, capfd, examples=EXAMPLES, derandomize=True)


@pytest.mark.soak
async def test_five_thousand_spoiled_requests_at_the_ways_in_let_nobody_in(
    house: House, capfd: pytest.CaptureFixture[str]
) -> None:
    await storm(house, capfd, examples=SOAK_EXAMPLES, derandomize=False)

"""The attacks of the MCP security best practices, and of its authorization specification, against a running gateway."""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc.jwk import RSAKey

from app.access.service_accounts import ServiceAccounts
from tests.attacks.conftest import House, trap
from tests.gateway import message_of
from tests.oauth.conftest import CALLBACK

METADATA_ADDRESSES = (
    "logo_uri",
    "client_uri",
    "policy_uri",
    "tos_uri",
    "jwks_uri",
    "sector_identifier_uri",
    "initiate_login_uri",
    "backchannel_logout_uri",
    "backchannel_client_notification_endpoint",
    "request_object_signing_alg",
    "software_statement",
    "registration_client_uri",
)

NAMES = ("localtest.me", "127.0.0.1.nip.io", "metadata.google.internal")
"""Public names of addresses that are not public."""


def part(value: object) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read(token: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    header, claims, signature = token.split(".")
    opened = [json.loads(base64.urlsafe_b64decode(each + "==")) for each in (header, claims)]
    return opened[0], opened[1], signature


def signed(header: Mapping[str, Any], claims: Mapping[str, Any], key: RSAKey) -> str:
    """By hand: a library refuses to write what an attacker would."""
    signing = f"{part(header)}.{part(claims)}"
    return f"{signing}.{part(key.private_key.sign(signing.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def forged(token: str, published: Mapping[str, Any], port: int) -> Iterator[tuple[str, str]]:
    """A good token, made over in every way that a careless reader would take."""
    header, claims, signature = read(token)
    for algorithm in ("none", "None", "NONE", "nOnE", ""):
        yield f"alg {algorithm}", f"{part({**header, 'alg': algorithm})}.{part(claims)}."
        yield f"alg {algorithm}, signed", f"{part({**header, 'alg': algorithm})}.{part(claims)}.{signature}"
    public = RSAKey.import_key(dict(published))
    pem = public.as_pem(private=False)
    der = serialization.load_pem_public_key(pem).public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for name, secret in {
        "pem": pem,
        "der": der,
        "jwk": json.dumps(published).encode(),
        "n": published["n"].encode(),
    }.items():
        signing = f"{part({**header, 'alg': 'HS256'})}.{part(claims)}"
        yield (
            f"HS256 with the public key as {name}",
            f"{signing}.{part(hmac.digest(secret, signing.encode(), 'sha256'))}",
        )
    own = RSAKey.generate_key(2048)
    mine = own.as_dict(private=False)
    elsewhere = f"http://127.0.0.1:{port}/keys.json"
    for name, extra in {
        "own key, right kid": {},
        "embedded jwk": {"jwk": mine},
        "jku": {"jku": elsewhere},
        "x5u": {"x5u": elsewhere},
        "crit": {"crit": ["exp"], "exp": claims["exp"]},
    }.items():
        yield name, signed({**header, **extra}, claims, own)
    for kid in ("../../../../dev/null", "' OR 1=1 --", elsewhere, "", "*", "\x00", mine.get("kid", "x")):
        yield f"kid {kid!r}", signed({**header, "kid": kid}, claims, own)
        empty = f"{part({**header, 'alg': 'HS256', 'kid': kid})}.{part(claims)}"
        yield f"kid {kid!r}, empty key", f"{empty}.{part(hmac.digest(b'', empty.encode(), 'sha256'))}"
    for changed in (
        {"exp": int(time.time()) + 10**6},
        {"sub": "us-other"},
        {"aud": "x"},
        {"gk": {**claims["gk"], "role": "owner"}},
    ):
        yield f"claims {sorted(changed)}", f"{part(header)}.{part({**claims, **changed, 'jti': 'other'})}.{signature}"
    for typ in ("JWT", "id+jwt", "logout+jwt", None):
        yield f"typ {typ}", f"{part({**header, 'typ': typ})}.{part(claims)}.{signature}"
    yield "no signature", token.rpartition(".")[0] + "."
    yield "two signatures", f"{token}.{signature}"
    yield "encrypted form", f"{token}.{signature}.{signature}"
    yield "other alphabet", token.replace("-", "+").replace("_", "/") + "=="
    yield (
        "JSON form",
        json.dumps({"payload": part(claims), "signature": signature, "protected": part(header)}).replace(" ", ""),
    )


async def test_every_client_is_asked_for_anew(house: House) -> None:
    """Confused deputy: that a person consented once answers no later question, of that client or of one alike."""
    life = await house.life()
    await life.register(client_name="Helper")
    for _ in range(2):
        page = await life.to_consent()
        assert page.status_code == 200
        assert life.returned(await life.answer(page))["code"]
    attacker = await house.life(life.person)
    attacker.browser.cookies.update(life.browser.cookies)
    await attacker.register(client_name="Helper")
    for changes in ({}, {"prompt": "consent"}, {"prompt": "login consent"}):
        asked = await attacker.follow(await attacker.ask(**changes))
        assert asked.status_code == 200
        assert str(asked.url).startswith((f"{life.address}/consent?", f"{life.address}/sign-in?"))
    assert attacker.returned(await attacker.ask(prompt="none"))["error"] == "interaction_required"


async def test_no_made_over_token_opens_the_resource(house: House) -> None:
    """Token passthrough and forgery: no algorithm, key, type or form but our own, and no address is asked for keys."""
    life, tokens = await house.connected()
    token = tokens["access_token"]
    assert await house.works(token)
    published = (await life.browser.get(f"{life.address}/.well-known/jwks.json")).json()["keys"]
    key = next(each for each in published if each["kid"] == read(token)[0]["kid"])
    async with trap() as (port, callers):
        for name, made in forged(token, key, port):
            answer = await house.resource(made)
            assert answer.status_code == 401, name
            assert 'error="invalid_token"' in answer.headers["www-authenticate"], name
        assert callers == []
    assert await house.works(token)


async def test_each_credential_opens_its_own_door_alone(house: House) -> None:
    """Token passthrough: codes, refresh tokens, secrets and cookies are no access tokens, nor the reverse."""
    life = await house.life()
    await life.register(token_endpoint_auth_method="client_secret_post")
    secret = life.client["client_secret"]
    tokens = (await life.exchange(await life.code(), client_secret=secret)).json()
    code = await life.code()
    question = (await life.ask()).headers["location"].partition("request=")[2]
    cookie = next(iter(dict(life.browser.cookies).values()))
    for other in (code, tokens["refresh_token"], secret, life.client["client_id"], question, cookie):
        assert (await house.resource(other)).status_code == 401
    for bearer in (tokens["access_token"], house.gateway.token, cookie, question, secret):
        as_refresh = await life.refresh(bearer, client_secret=secret)
        assert as_refresh.json()["error"] == "invalid_grant"
        as_code = await life.exchange(bearer, client_secret=secret)
        assert as_code.json()["error"] == "invalid_grant"
        as_secret = await life.refresh(tokens["refresh_token"], client_secret=bearer + "x")
        assert as_secret.json()["error"] == "invalid_client"
        as_proof = await life.refresh(
            tokens["refresh_token"],
            client_assertion=bearer,
            client_assertion_type="urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        )
        assert as_proof.json()["error"] in ("invalid_client", "invalid_request")
    assert (await life.refresh(tokens["refresh_token"], client_secret=secret)).status_code == 200


def inside(port: int) -> Iterator[str]:
    """Addresses within the network, in every spelling that some parser resolves."""
    for host in (
        "127.0.0.1", "localhost", "127.1", "127.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "0",
        "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[64:ff9b::7f00:1]",
        "localhost.", "LOCALHOST", "127.0.0.1.", "１２７.0.0.1", "127。0。0。1", *NAMES,
        "169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1", "100.64.0.1",
        "user@127.0.0.1", "claude.ai@127.0.0.1", "127.0.0.1\\@claude.ai", "claude.ai%40127.0.0.1", "127.0.0.1%00.ai",
    ):  # fmt: skip
        yield f"https://{host}:{port}/client.json"
        yield f"https://{host}/client.json"
    yield f"http://127.0.0.1:{port}/client.json"
    yield f"https:/127.0.0.1:{port}/client.json"
    yield f"https://127.0.0.1:{port}/../client.json"
    yield f"gopher://127.0.0.1:{port}/_x"
    yield f"file://127.0.0.1:{port}/etc/passwd"
    yield f"https://claude.ai:{port}/client.json"
    yield f"https://claude.ai/client.json#@127.0.0.1:{port}"


async def test_no_client_id_makes_the_gateway_call_its_own_network(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSRF by the address of a client document: nothing is called, and of names alone is anything looked up.

    The names are answered here, so that each leads inside whatever network the tests run in.
    """
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *more, **how: resolve("127.0.0.1" if host in NAMES else host, *more, **how)
    )
    names = {f"https://{name}/client.json" for name in NAMES}
    life = await house.life()
    life.client = {"client_id": "", "redirect_uris": [CALLBACK]}
    async with trap() as (port, callers):
        for url in inside(port):
            page = await life.browser.get(life.question(client_id=url))
            assert (page.status_code, "location" in page.headers) == (400, False), url
            # Whatever is no name at port 443 is refused for how it is written, before anybody asks where it leads.
            assert ("an address that is not public" in page.text) is (url in names), (url, page.text)
        assert callers == []


@pytest.mark.parametrize("way", ["registered", "document"])
async def test_no_address_within_the_metadata_is_called_or_shown(house: House, way: str) -> None:
    """SSRF by the metadata: none of its addresses is fetched by the gateway, nor by the browser that shows the page."""
    life = await house.life()
    async with trap() as (port, callers):
        inside = dict.fromkeys(METADATA_ADDRESSES, f"http://127.0.0.1:{port}/x")
        inside |= {
            "request_uris": [f"http://127.0.0.1:{port}/x"],
            "post_logout_redirect_uris": [f"http://127.0.0.1:{port}/x"],
        }
        inside |= {"contacts": [f"x@127.0.0.1:{port}"], "logo_uri#de": f"http://127.0.0.1:{port}/x"}
        if way == "registered":
            await life.register(**inside)
        else:
            url = house.publisher.publish("/addresses.json", redirect_uris=[CALLBACK], **inside)
            life.client = {"client_id": url, "redirect_uris": [CALLBACK]}
        page = await life.to_consent()
        loaded = re.findall(r"""(?:src|srcset|poster|data|background|url\()=?["'(]?([^"'\s)>]*)""", page.text)
        assert not [each for each in loaded if str(port) in each]
        tokens = (await life.exchange(life.returned(await life.answer(page))["code"])).json()
        assert (await life.refresh(tokens["refresh_token"])).status_code == 200
        assert callers == []


async def test_keys_at_an_address_are_not_fetched_for_a_proof(house: House) -> None:
    """SSRF by `jwks_uri`, and by the headers of a proof that the client signs."""
    life = await house.life()
    key = RSAKey.generate_key(2048)
    async with trap() as (port, callers):
        elsewhere = f"http://127.0.0.1:{port}/keys.json"
        url = house.publisher.publish(
            "/signing.json",
            redirect_uris=[CALLBACK],
            token_endpoint_auth_method="private_key_jwt",
            jwks_uri=elsewhere,
        )
        life.client = {"client_id": url, "redirect_uris": [CALLBACK]}
        assert (await life.ask()).status_code == 400
        good = house.publisher.publish(
            "/keys-inside.json",
            redirect_uris=[CALLBACK],
            token_endpoint_auth_method="private_key_jwt",
            jwks={"keys": [{**RSAKey.generate_key(2048).as_dict(private=False), "kid": "a"}]},
        )
        now = int(time.time())
        claims = {"iss": good, "sub": good, "aud": life.address, "exp": now + 60, "jti": secrets.token_hex(8)}
        for extra in ({"jku": elsewhere}, {"x5u": elsewhere}, {"jwk": key.as_dict(private=False)}, {"kid": elsewhere}):
            form = {
                "grant_type": "refresh_token",
                "refresh_token": "x",
                "client_id": good,
                "client_assertion": signed({"alg": "RS256", **extra}, claims, key),
                "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            }
            refused = await life.browser.post(f"{life.address}/token", data=form)
            assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert callers == []


@pytest.mark.parametrize(
    "scope", ["*", "all", "admin", "memory:*", "memory:read admin", "MEMORY:WRITE", "memory:write\x00"]
)
async def test_no_scope_gives_more_than_the_person_may_and_ticked(house: House, scope: str) -> None:
    """Scope minimisation: wildcards mean nothing, and operating is never given to whoever is no operator."""
    life = await house.life()
    await life.register()
    asked = await life.follow(await life.ask(scope=scope))
    if asked.status_code == 303:
        assert life.returned(asked)["error"] == "invalid_scope"
        return
    answer = await life.answer(asked, scope=["admin", "memory:write", "*"])
    if answer.status_code == 303:
        tokens = (await life.exchange(life.returned(answer)["code"])).json()
        assert not {"admin", "*", "memory:write"} & set(tokens["scope"].split())


async def test_a_token_reaches_its_own_tenant_whatever_else_is_said(house: House) -> None:
    """Session hijacking and foreign tenants: no header, cookie, session id or `_meta` moves a token to another one."""
    ours, tokens = await house.connected(scope="memory:read memory:write")
    theirs, foreign = await house.connected(scope="memory:read memory:write")
    word = "quincunx" + secrets.token_hex(4)
    gateway = house.gateway
    relation = {"from_type": "Person", "relation": "PREFERS", "to_type": "Preference"}
    async with gateway.client(foreign["access_token"], timeout=120) as client:
        assert await house.works(foreign["access_token"])
        kept = await gateway.insist(client, "graph_relate", {**relation, "from_name": "Eve", "to_name": word})
        assert kept["ok"], kept
    tenant = theirs.person.tenant
    names = ("X-Tenant", "X-Tenant-Id", "X-User-Id", "X-Forwarded-User", "Mcp-Session-Id", "X-Graphkeep-Tenant")
    said = dict.fromkeys(names, tenant.id)
    cookies = "; ".join(f"{name}={value}" for name, value in dict(theirs.browser.cookies).items())
    assert await house.works(tokens["access_token"])
    async with gateway.client(tokens["access_token"], timeout=120) as client:
        client.headers.update({**said, "Cookie": cookies})
        for meta in ({}, {"tenant": tenant.id, "user": theirs.person.user.id, "subject": theirs.person.user.id}):
            params = {"name": "graph_search", "arguments": {"query": word}, "_meta": meta}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            answer = await client.post(f"/mcp?tenant={tenant.id}&user={theirs.person.user.id}", json=body)
            assert answer.status_code == 200, answer.text
            assert message_of(answer)["result"]["structuredContent"]["seeds"] == []
        for name in ("tenant", "tenant_id", "layer", "layers", "read_layers"):
            refused = await gateway.call(client, "graph_search", {"query": word, name: tenant.id}, era="2025-11-25")
            assert not refused["ok"], refused
    async with gateway.client(foreign["access_token"], timeout=120) as client:
        found = await gateway.insist(client, "graph_search", {"query": word})
        assert word in json.dumps(found["seeds"])
    assert ours.person.tenant.id != tenant.id


async def test_an_owner_changes_nothing_of_another_tenant_through_the_own_pages(house: House) -> None:
    """Foreign tenants: ids of another tenant under one's own address are as unknown as ones that never were."""
    owner, victim = await house.life(), await house.life()
    services, accounts = house.services.main, ServiceAccounts(house.database.control)
    account, _ = await accounts.create(
        victim.person.tenant.id,
        "nightly",
        scopes=["memory:read"],
        read_layers=["tenant"],
        actor=victim.person.user.id,
    )
    await victim.register()
    tokens = await victim.tokens()
    grant = (await victim.claims(tokens["access_token"]))["gk"]["grant"]
    mine, theirs = owner.person.tenant.id, victim.person.tenant.id
    ids = {"user": victim.person.user.id, "account": account.id, "grant": grant}
    secret = await services.secrets()
    cookie = next(iter(dict(owner.browser.cookies).values()))
    for path in (
        "/t/{tenant}/members/{user}",
        "/t/{tenant}/members/{user}/remove",
        "/t/{tenant}/services/{account}/renew",
        "/t/{tenant}/services/{account}/remove",
        "/t/{tenant}/connections/{grant}/disconnect",
        "/programs/{grant}",
        "/programs/{grant}/disconnect",
    ):
        for tenant in (mine, theirs):
            action = "/console" + path.format(tenant=tenant, **ids)
            form = {
                "csrf": secret.token("csrf", owner.address, cookie, action),
                "role": "reader",
                "read": "",
                "name": "x",
            }
            refused = await owner.browser.post(f"{owner.address}{action}", data=form)
            assert refused.status_code == 404, (action, refused.status_code)
    assert [each.id for each in await accounts.of_tenant(theirs)] == [account.id]
    assert (await victim.refresh(tokens["refresh_token"])).status_code == 200

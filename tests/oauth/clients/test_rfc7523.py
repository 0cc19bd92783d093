"""Clients that sign: the proof is theirs, for this gateway, short-lived, and counts once."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from app.oauth.clients.keys import read_keys
from app.oauth.clients.rfc7523 import KIND
from tests.oauth.conftest import Life
from tests.oauth.publisher import Publisher

KEY = ECKey.generate_key("P-256", parameters={"kid": "one"}, private=True)
OTHER = ECKey.generate_key("P-256", parameters={"kid": "two"}, private=True)


@pytest_asyncio.fixture
async def signing(start_gateway: Callable[..., Any], open_life: Callable[..., Any], publisher: Publisher) -> Life:
    """A client whose document holds a key, and a person who connects it."""
    life: Life = await open_life(await start_gateway(client_document_hosts=(publisher.host,)))
    url = publisher.publish(
        "/signing", token_endpoint_auth_method="private_key_jwt", jwks={"keys": [KEY.as_dict(private=False)]}
    )
    life.client = {"client_id": url, "redirect_uris": ["http://127.0.0.1:50123/callback"]}
    life.verifier = "v" * 43  # for codes that do not exist
    return life


def proof(life: Life, key: ECKey = KEY, /, alg: str = "ES256", **changes: Any) -> dict[str, str]:
    now = int(time.time())
    claims = {
        "iss": life.client["client_id"],
        "sub": life.client["client_id"],
        "aud": life.address,
        "exp": now + 60,
        "iat": now,
        "jti": secrets.token_hex(8),
        **changes,
    }
    kept = {name: value for name, value in claims.items() if value is not None}
    header = {"alg": alg, "typ": "JWT", "kid": key.kid}
    text = jws.serialize_compact(header, json.dumps(kept).encode(), key, algorithms=[alg])
    return {"client_assertion": text, "client_assertion_type": KIND}


async def test_a_client_that_signs_gets_tokens_and_refreshes_them(signing: Life) -> None:
    tokens = await signing.exchange(await signing.code(), **proof(signing))
    assert tokens.status_code == 200, tokens.text
    # The id may be left to the proof (RFC 7521 §4.2); an endpoint's address is an audience too (RFC 7523 §3).
    again = await signing.refresh(
        tokens.json()["refresh_token"], client_id=None, **proof(signing, aud=[f"{signing.address}/token"])
    )
    assert again.status_code == 200, again.text
    shown = await signing.browser.post(
        f"{signing.address}/introspect", data={"token": again.json()["access_token"], **proof(signing)}
    )
    assert shown.json()["active"] is True


async def test_a_proof_counts_once(signing: Life) -> None:
    once = proof(signing)
    assert (await signing.exchange("unknown code", **once)).json()["error"] == "invalid_grant"
    again = await signing.exchange("unknown code", **once)
    assert (again.status_code, again.json()["error"]) == (401, "invalid_client")
    assert "used before" in again.json()["error_description"]


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "https://other.example"},
        {"aud": None},
        {"aud": []},
        {"iss": "https://claude.ai/oauth/mcp-oauth-client-metadata"},
        {"sub": "somebody"},
        {"exp": None},
        {"exp": 1},
        {"exp": 4102444800},
        {"exp": "soon"},
        {"nbf": 4102444800},
        {"iat": 4102444800},
        {"jti": None},
        {"jti": ""},
        {"jti": "x" * 257},
    ],
)
async def test_a_proof_for_something_else_is_refused(signing: Life, changes: dict[str, Any]) -> None:
    answer = await signing.exchange("unknown code", **proof(signing, **changes))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_no_other_proof_will_do(signing: Life) -> None:
    hand = proof(signing, OTHER)
    named = proof(signing, ECKey.import_key({**OTHER.as_dict(private=True), "kid": "one"}))
    half = {"client_assertion": proof(signing)["client_assertion"]}
    kind = {**proof(signing), "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"}
    rubbish = [{**proof(signing), "client_assertion": text} for text in ("x", "a.b.c", "..", "é", "a" * 9000)]
    none = {**proof(signing), "client_assertion": "eyJhbGciOiJub25lIn0." + "e30" + "."}
    for given in (hand, named, half, kind, *rubbish, none, {}, {"client_secret": "guess"}):
        answer = await signing.exchange("unknown code", **given)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), given
    both = await signing.exchange("unknown code", client_secret="x", **proof(signing))
    assert (both.status_code, both.json()["error"]) == (400, "invalid_request")


async def test_a_client_without_keys_proves_nothing_by_signing(life: Life) -> None:
    answer = await life.exchange("unknown code", **proof(life))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_new_keys_are_found_once_the_copy_is_a_minute_old(
    signing: Life, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await signing.exchange("unknown code", **proof(signing))).json()["error"] == "invalid_grant"
    publisher.documents["/signing"]["jwks"] = {"keys": [OTHER.as_dict(private=False)]}
    assert (await signing.exchange("unknown code", **proof(signing, OTHER))).json()["error"] == "invalid_client"
    assert publisher.asked["/signing"] == 1, "a stranger's proofs do not make the gateway fetch"
    later = time.time() + 61
    monkeypatch.setattr(signing.gateway.main.documents, "_clock", lambda: later)
    assert (await signing.exchange("unknown code", **proof(signing, OTHER))).json()["error"] == "invalid_grant"
    assert (await signing.exchange("unknown code", **proof(signing))).json()["error"] == "invalid_client"


async def test_a_key_taken_out_of_the_document_ends_with_the_copy(
    signing: Life, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await signing.exchange("unknown code", **proof(signing))).json()["error"] == "invalid_grant"
    publisher.documents["/signing"]["jwks"] = {"keys": [OTHER.as_dict(private=False)]}
    later = time.time() + 25 * 3600
    monkeypatch.setattr(signing.gateway.main.documents, "_clock", lambda: later)
    assert (await signing.exchange("unknown code", **proof(signing))).json()["error"] == "invalid_client"
    assert (await signing.exchange("unknown code", **proof(signing, OTHER))).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    "keys",
    [
        None,
        [],
        {},
        {"keys": []},
        {"keys": ["x"]},
        {"keys": [KEY.as_dict(private=False)] * 11},
        {"keys": [KEY.as_dict(private=True)]},
        {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]},
        {"keys": [{"kty": ["EC"]}]},
        {"keys": [{"kty": "EC", "crv": "P-256K", "x": "AA", "y": "AA"}]},
        {"keys": [ECKey.generate_key("P-384", private=True).as_dict(private=False)]},
        {"keys": [{"kty": "RSA", "n": "A" * 171, "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": "A" * 701, "e": "AQAB"}]},
        {"keys": [{"kty": "RSA", "n": "A" * 400, "e": "A" * 300}]},
        {"keys": [{"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}]},
        {"keys": [{**KEY.as_dict(private=False), "x": 1}]},
    ],
)
def test_keys_that_are_none_or_too_large_or_private_are_refused(keys: object) -> None:
    with pytest.raises(ValueError, match="key"):
        read_keys(keys)


async def test_a_key_named_with_half_a_character_is_no_trouble(signing: Life, publisher: Publisher) -> None:
    publisher.documents["/signing"]["jwks"] = {"keys": [{**KEY.as_dict(private=False), "kid": "\ud800"}]}
    answer = await signing.exchange("unknown code", **proof(signing))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


def test_public_keys_are_read_without_what_else_stands_beside_them() -> None:
    rsa = RSAKey.generate_key(2048, parameters={"kid": "r"}, private=True).as_dict(private=False)
    kept = read_keys({"keys": [{**rsa, "x5u": "https://evil.example/", "use": "sig", "alg": "RS256"}]})
    assert set(kept[0]) == {"kty", "kid", "n", "e", "use", "alg"}

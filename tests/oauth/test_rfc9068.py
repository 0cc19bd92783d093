from __future__ import annotations

from typing import Any

import pytest

from app.context import Role
from app.errors import InvalidInput
from app.oauth.jwks import KeyRing, new_signing_key
from app.oauth.personal import mint_personal_token
from app.oauth.rfc9068 import issuer_of, mint_access_token, read_grant, resource_of
from tests.identity import ADDRESS, a_grant

RING = KeyRing([new_signing_key()])
GRANT = a_grant(scopes=["memory:write", "memory:read"], read=["", "a"], write=["a"], write_layer="a", grant_id="gr-1")


def access_token(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    given: dict[str, Any] = {
        "address": ADDRESS,
        "subject": "us-1",
        "client": "client-1",
        "tenant": "tn-1",
        "role": Role.MEMBER,
        "operator": False,
        "grant": GRANT,
        "seconds": 3600,
        "now": 1000.5,
        **changes,
    }
    return RING.verify(mint_access_token(RING, **given).text)


def test_an_access_token_has_the_claims_of_rfc_9068_and_what_was_granted() -> None:
    header, claims = access_token()
    assert header["typ"] == "at+jwt"
    jti = claims.pop("jti")
    assert len(jti) >= 20
    assert claims == {
        "iss": "https://memory.example.com",
        "aud": "https://memory.example.com/mcp",
        "sub": "us-1",
        "client_id": "client-1",
        "scope": "memory:read memory:write",
        "iat": 1000,
        "exp": 4600,
        "gk": {
            "tenant": "tn-1",
            "role": "member",
            "operator": False,
            "grant": "gr-1",
            "read": ["", "a"],
            "write": ["a"],
            "layer": "a",
            "at": 1000500,
        },
    }


def test_the_grant_comes_back_from_the_claims() -> None:
    _, claims = access_token()
    assert read_grant(claims) == GRANT


@pytest.mark.parametrize(
    ("path", "value"),
    [("read", "abc"), ("write", [1]), ("layer", 1), ("grant", None), ("read", None), ("write", {"a": 1})],
)
def test_a_grant_of_another_shape_is_refused(path: str, value: object) -> None:
    _, claims = access_token()
    claims["gk"][path] = value
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_grant(claims)


def test_two_tokens_of_one_grant_have_ids_of_their_own() -> None:
    assert access_token()[1]["jti"] != access_token()[1]["jti"]


def test_issuer_and_resource_never_end_in_a_slash() -> None:
    assert issuer_of("https://h/") == issuer_of("https://h") == "https://h"
    assert resource_of("https://h/") == resource_of("https://h") == "https://h/mcp"


def personal(days: int) -> tuple[dict[str, Any], dict[str, Any]]:
    issued = mint_personal_token(
        RING,
        gateway="urn:graphkeep:gateway:1",
        subject="us-1",
        tenant="tn-1",
        role=Role.OWNER,
        operator=False,
        grant=GRANT,
        days=days,
        now=1000.0,
    )
    return RING.verify(issued.text)


def test_a_personal_token_is_for_the_gateway_and_is_its_own_grant() -> None:
    header, claims = personal(90)
    assert header["typ"] == "gk-pat+jwt"
    assert claims["iss"] == claims["aud"] == "urn:graphkeep:gateway:1"
    assert claims["exp"] - claims["iat"] == 90 * 86400
    assert claims["gk"]["grant"] == claims["jti"]
    assert claims["client_id"] == f"token:{claims['jti']}"


@pytest.mark.parametrize("days", [0, -1, 366])
def test_a_personal_token_lives_at_most_a_year(days: int) -> None:
    personal(365)
    with pytest.raises(InvalidInput, match="1 to 365 days"):
        personal(days)

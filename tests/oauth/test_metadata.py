"""RFC 8414 and RFC 9728 documents, and the key set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.oauth.rfc9728 import is_resource
from tests.oauth.conftest import Life


async def test_the_authorization_server_describes_itself(life: Life) -> None:
    known = f"{life.address}/.well-known/oauth-authorization-server"
    answer = await life.browser.get(known)
    assert (await life.browser.get(f"{known}/mcp")).content == answer.content
    document = answer.json()
    assert document["issuer"] == life.address
    for name in ("authorization", "token", "registration", "revocation", "introspection"):
        assert document[f"{name}_endpoint"].startswith(f"{life.address}/")
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert set(document["token_endpoint_auth_methods_supported"]) == {
        "none",
        "client_secret_basic",
        "client_secret_post",
        "private_key_jwt",
    }
    assert "none" not in document["introspection_endpoint_auth_methods_supported"]
    assert document["client_id_metadata_document_supported"] is True
    assert document["grant_types_supported"] == ["authorization_code", "refresh_token", "client_credentials"]
    assert "offline_access" in document["scopes_supported"]
    assert document["authorization_response_iss_parameter_supported"] is True
    assert answer.headers["access-control-allow-origin"] == "*"


async def test_the_resource_is_published_byte_for_byte(life: Life) -> None:
    known = f"{life.address}/.well-known/oauth-protected-resource"
    answer = await life.browser.get(known)
    assert (await life.browser.get(f"{known}/mcp")).content == answer.content
    document = answer.json()
    assert document["resource"] == f"{life.address}/mcp"
    assert document["authorization_servers"] == [life.address]
    assert "offline_access" not in document["scopes_supported"]
    assert "admin" not in document["scopes_supported"]


async def test_there_is_no_half_openid_document(life: Life) -> None:
    for path in ("/.well-known/openid-configuration", "/.well-known/openid-configuration/mcp"):
        assert (await life.browser.get(life.address + path)).status_code == 404


async def test_every_address_that_the_documents_name_answers(life: Life) -> None:
    document = (await life.browser.get(f"{life.address}/.well-known/oauth-authorization-server")).json()
    keys = (await life.browser.get(document["jwks_uri"])).json()["keys"]
    assert {(key["kty"], key["alg"], key["use"]) for key in keys} == {("RSA", "RS256", "sig")}
    assert not {"d", "p", "q"} & set(keys[0])
    for name in ("token", "registration", "revocation"):
        assert (await life.browser.post(document[f"{name}_endpoint"])).status_code == 400
    assert (await life.browser.get(document["authorization_endpoint"])).status_code == 400


async def test_a_page_of_any_origin_may_ask(life: Life) -> None:
    for path in ("/token", "/register", "/.well-known/oauth-protected-resource/mcp"):
        answer = await life.browser.options(f"{life.address}{path}", headers={"Origin": "http://localhost:6274"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (204, "*")


@pytest.mark.parametrize(
    ("presented", "same"),
    [
        ("https://gw.example/mcp", True),
        ("https://gw.example/mcp/", True),
        ("HTTPS://GW.example/mcp", True),
        ("https://gw.example/mcp//", False),
        ("https://gw.example/MCP", False),
        ("https://gw.example", False),
        ("https://gw.example/mcp#x", False),
        ("https://gw.example/mcp?x", False),
        ("https://gw.example.evil/mcp", False),
        ("http://gw.example/mcp", False),
        ("", False),
    ],
)
def test_a_resource_has_two_spellings_and_no_more(presented: str, same: bool) -> None:
    assert is_resource("https://gw.example", presented) is same


async def test_a_client_of_one_address_is_unknown_at_another(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    one, other = await start_gateway(), await start_gateway()
    life: Life = await open_life(one)
    await life.register()
    tokens = await life.tokens()
    life.gateway = other
    refused = await life.refresh(tokens["refresh_token"])
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    assert (await life.ask(redirect_uri=None)).status_code == 400

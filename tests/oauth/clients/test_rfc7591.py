"""Registration: an id that is the metadata itself, and nothing stored."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from app.errors import OAuthError
from app.oauth.clients.client import Client
from app.oauth.clients.redirect import RedirectPolicy
from app.oauth.clients.rfc7591 import client_secret, read_client, register
from app.oauth.secrets import Secrets
from app.store.database import Database
from app.store.statement import statement
from tests.oauth.conftest import CALLBACK, Life

SECRETS = Secrets(b"k" * 32)
ADDRESS = "https://gw.example"
POLICY = RedirectPolicy(["https://claude.ai", "cursor://"])

STORED = statement("tests.what_consent_stores", "MATCH (c:_Client|_Grant|_Code) RETURN c.id AS id", control=True)


def registered(**metadata: Any) -> Client:
    return register({"redirect_uris": [CALLBACK], **metadata}, address=ADDRESS, policy=POLICY, secrets=SECRETS)


def test_the_id_holds_the_metadata() -> None:
    client = registered(
        client_name="Claude – 日本", application_type="native", scope="memory:read", client_uri="https://claude.ai"
    )
    again = read_client(client.id, address=ADDRESS, secrets=SECRETS)
    assert again == client
    assert len(client.id) <= 1024


def test_two_registrations_alike_are_two_clients_with_two_secrets() -> None:
    one, two = (registered(token_endpoint_auth_method="client_secret_post") for _ in range(2))
    assert one.id != two.id
    assert client_secret(one.id, SECRETS) != client_secret(two.id, SECRETS)


def test_an_id_of_another_gateway_address_or_hand_is_unknown() -> None:
    client = registered()
    assert read_client(client.id, address="https://other.example", secrets=SECRETS) is None
    assert read_client(client.id, address=ADDRESS, secrets=Secrets(b"x" * 32)) is None
    prefix, body, mac = client.id.split(".")
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    forged = base64.urlsafe_b64encode(raw[:-1] + bytes([raw[-1] ^ 1])).decode().rstrip("=")
    for text in (
        f"{prefix}.{forged}.{mac}",
        f"{prefix}.{body}.{mac[:-1]}",
        f"{prefix}.{body}",
        client.id + "A",
        "gk1..",
        "",
    ):
        assert read_client(text, address=ADDRESS, secrets=SECRETS) is None


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"redirect_uris": []}, "invalid_redirect_uri"),
        ({"redirect_uris": None}, "invalid_redirect_uri"),
        ({"redirect_uris": "https://claude.ai/x"}, "invalid_redirect_uri"),
        ({"redirect_uris": [1]}, "invalid_redirect_uri"),
        ({"redirect_uris": [CALLBACK] * 11}, "invalid_redirect_uri"),
        ({"redirect_uris": [CALLBACK, "https://claude.ai.evil/x"]}, "invalid_redirect_uri"),
        ({"redirect_uris": ["https://example.org/x"]}, "invalid_redirect_uri"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "invalid_client_metadata"),
        ({"token_endpoint_auth_method": ["none"]}, "invalid_client_metadata"),
        ({"application_type": "toaster"}, "invalid_client_metadata"),
        ({"response_types": ["token"]}, "invalid_client_metadata"),
        ({"response_types": "code"}, "invalid_client_metadata"),
        ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
        ({"client_name": 7}, "invalid_client_metadata"),
        ({"client_name": "Cl\u202eaude"}, "invalid_client_metadata"),
        ({"client_name": "a\nb"}, "invalid_client_metadata"),
        ({"client_name": "x" * 101}, "invalid_client_metadata"),
        ({"client_uri": "javascript:alert(1)"}, "invalid_client_metadata"),
        ({"client_uri": "http://["}, "invalid_client_metadata"),
        ({"scope": "".join(map(chr, range(0x4E00, 0x4E00 + 900)))}, "invalid_client_metadata"),
    ],
)
def test_metadata_that_breaks_a_rule_is_refused(metadata: dict[str, Any], error: str) -> None:
    with pytest.raises(OAuthError) as refused:
        registered(**metadata)
    assert refused.value.error == error


def test_what_the_hosted_connector_sends_is_accepted() -> None:
    client = registered(
        client_name="Claude",
        client_uri="https://claude.ai",
        redirect_uris=["https://claude.ai/api/mcp/auth_callback"],
        grant_types=["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    assert (client.application_type, client.confidential) == ("web", False)


async def test_the_answer_is_complete_and_never_stored(life: Life) -> None:
    answer = await life.browser.post(
        f"{life.address}/register",
        json={
            "redirect_uris": [CALLBACK],
            "token_endpoint_auth_method": "client_secret_basic",
            "application_type": "native",
        },
    )
    body = answer.json()
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    assert body["client_secret"]
    assert body["client_secret_expires_at"] == 0
    assert body["client_id_issued_at"] <= time.time()
    assert body["application_type"] == "native"


async def test_a_body_that_is_no_object_is_refused(life: Life) -> None:
    headers = {"Content-Type": "application/json"}
    for body in (b"", b"[]", b"nope", b'"x"', b"[" * 60_000, b"\xff"):
        answer = await life.browser.post(f"{life.address}/register", content=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_client_metadata"), body[:9]


async def test_a_flood_of_registrations_stores_nothing(life: Life, database: Database) -> None:
    async def stored() -> set[str]:
        return {row["id"] for row in await database.control.read(STORED)}

    before = await stored()
    for number in range(200):
        await life.register(client_name=f"Flood {number}")
    assert await stored() - before == set()  # what has expired may have been swept meanwhile
    await life.code()
    assert len(await stored() - before) == 3  # the client, its grant, its code
    json.dumps(life.client)

"""Faults 1, 9 and 12: what is advertised is served, and nobody is anyone but their token."""

from __future__ import annotations

import asyncio
import json

import pytest

from app.store.database import Database
from tests.gateway import LEGACY, MODERN, Gateway, message_of, owner_token


async def test_whoever_advertises_client_id_documents_also_serves_public_clients(gateway: Gateway) -> None:
    async with gateway.client() as client:
        metadata = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert "none" in metadata["token_endpoint_auth_methods_supported"]
        assert metadata["code_challenge_methods_supported"] == ["S256"]
        registered = await client.post(
            metadata["registration_endpoint"],
            json={"redirect_uris": ["http://localhost/callback"], "token_endpoint_auth_method": "none"},
        )
        assert registered.status_code == 201
        assert "client_secret" not in registered.json()
        if metadata.get("client_id_metadata_document_supported"):
            # What is advertised has to work: an unknown document is an error of the client, told as one.
            answer = await client.get(
                metadata["authorization_endpoint"], params={"client_id": "https://client.invalid/metadata.json"}
            )
            assert answer.status_code == 400


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("name", ["user_id", "user", "tenant", "tenant_id", "group_id", "subject"])
async def test_a_user_or_tenant_among_the_arguments_is_refused(gateway: Gateway, era: str, name: str) -> None:
    async with gateway.client() as client:
        for tool, arguments in (("graph_stats", {}), ("graph_search", {"query": "x"}), ("graph_entities", {})):
            said = await gateway.insist(client, tool, {**arguments, name: "someone"}, era=era)
            assert said["reason"] == "invalid_input", said
            assert name in said["message"]


async def test_two_tenants_on_one_connection_and_one_session_id_each_see_their_own(
    gateway: Gateway, database: Database
) -> None:
    tokens = [await owner_token(gateway.settings, database) for _ in range(2)]
    names = ["Charlie likes tea", "Charlie likes mate"]
    async with gateway.client(timeout=120) as client:
        for token, name in zip(tokens, names, strict=True):
            client.headers["Authorization"] = f"Bearer {token}"
            relation = {"from_type": "Person", "relation": "PREFERS", "to_type": "Preference"}
            kept = await gateway.insist(
                client, "graph_relate", {**relation, "from_name": "Charlie", "to_name": name, "evidence": name}
            )
            assert kept["ok"], kept

        async def asked(number: int) -> None:
            token, own, other = tokens[number % 2], names[number % 2], names[1 - number % 2]
            headers = {"Mcp-Session-Id": "the same for both", "Authorization": f"Bearer {token}"}
            params = {"name": "graph_search", "arguments": {"query": "What does Charlie like?"}}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            while (said := await client.post("/mcp", json=body, headers=headers)).status_code == 503:
                assert other not in said.text
                await asyncio.sleep(float(said.headers["Retry-After"]))  # as clients do on a busy machine
            answer = message_of(said)
            assert answer["id"] == number
            text = json.dumps(answer)
            assert other not in text
            assert own in text or answer["result"]["structuredContent"]["retryable"]

        await asyncio.gather(*(asked(number) for number in range(12)))

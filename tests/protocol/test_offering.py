"""Prompts, resources and completion through a whole gateway, in both eras."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from mcp import Client

from app.access.service import accounts_of
from app.cli.client import pending
from app.cli.toolsets import every_prompt, every_resource
from app.context import Role
from app.contract import Fill, Prompt, PromptArgument, Resource
from app.errors import ProtocolError
from app.protocol.offering import Offering, OfferingError, filled
from app.settings import LimitSettings
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import LEGACY, META, MODERN, Gateway, message_of, running, settings_for
from tests.identity import fresh_email, fresh_name

ERAS = [MODERN, LEGACY]


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Gateway, dict[str, str]]]:
    limits = LimitSettings(calls_per_minute=60, burst=20)
    settings = settings_for(neo4j_server, tmp_path_factory.mktemp("gk"), limits=limits)
    accounts = accounts_of(settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    owner, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    reader, _ = await accounts.add_user(fresh_email(), tenant.name, Role.READER)
    tokens = {
        "owner": (await accounts.create_token(owner.email, tenant.name)).text,
        "reader": (await accounts.create_token(reader.email, tenant.name)).text,
        "ledger": (await accounts.create_token(owner.email, tenant.name, scopes=["ledger:read"])).text,
        "busy": (await accounts.create_token(owner.email, tenant.name)).text,
    }
    async with running(settings, tokens["owner"]) as found:
        async with found.client() as client:
            batch = {
                "entities": [{"name": "Ada Lovelace", "type": "Person"}, {"name": "C++", "type": "Gadget"}],
                "relations": [{"from": "Ada Lovelace", "relation": "USES", "to": "C++", "weight": 0.7}],
            }
            assert (await found.insist(client, "graph_relate", batch=batch))["ok"]
        yield found, tokens


async def _ask(gateway: Gateway, token: str, method: str, era: str, **params: Any) -> dict[str, Any]:
    async with gateway.client(token) as client:
        headers = {}
        if era == MODERN:
            name = params.get("name") or params.get("uri")
            headers = {"Mcp_Method": method} | ({"Mcp_Name": name} if name else {})
            params = {"_meta": META, **params}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        async with asyncio.timeout(120):
            while True:
                said = message_of(await gateway.send(client, body, era, **headers))
                reason = said.get("error", {}).get("data", {}).get("reason")
                if reason not in {"database_unavailable", "overloaded", "deadline_exceeded"}:  # a busy machine
                    return said
                await asyncio.sleep(0.5)


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_are_listed_and_filled_in_in_either_era(
    gateway: tuple[Gateway, dict[str, str]], era: str
) -> None:
    found, tokens = gateway
    listed = (await _ask(found, tokens["owner"], "prompts/list", era))["result"]["prompts"]
    assert {prompt["name"] for prompt in listed} == {prompt.name for prompt in every_prompt()}
    graph = next(prompt for prompt in listed if prompt["name"] == "graph")
    assert [argument["required"] for argument in graph["arguments"]] == [True, False, False, False]
    said = await _ask(found, tokens["owner"], "prompts/get", era, name="graph", arguments={"query": "Ada"})
    text = said["result"]["messages"][0]["content"]["text"]
    assert "- `query`: Ada\n- `hops`: 2\n- `type`: (not given)" in text
    for name, arguments in (("nothing", {}), ("graph", {}), ("graph", {"query": "a", "depth": "3"})):
        refused = await _ask(found, tokens["owner"], "prompts/get", era, name=name, arguments=arguments)
        assert refused["error"]["code"] == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_resources_are_listed_and_read_in_either_era(gateway: tuple[Gateway, dict[str, str]], era: str) -> None:
    found, tokens = gateway
    listed = (await _ask(found, tokens["reader"], "resources/list", era))["result"]["resources"]
    templates = (await _ask(found, tokens["reader"], "resources/templates/list", era))["result"]["resourceTemplates"]
    known = {resource.uri for resource in every_resource()}
    assert {item["uri"] for item in listed} | {item["uriTemplate"] for item in templates} == known
    read = await _ask(found, tokens["reader"], "resources/read", era, uri="graphkeep://entity/ada-lovelace")
    content = read["result"]["contents"][0]
    entity = json.loads(content["text"])
    assert (content["mimeType"], entity["entity"]["name"]) == ("application/json", "Ada Lovelace")
    assert [edge["type"] for edge in entity["relations"]] == ["USES"]
    words = json.loads(
        (await _ask(found, tokens["reader"], "resources/read", era, uri="graphkeep://vocabulary"))["result"][
            "contents"
        ][0]["text"]
    )
    assert {"Person", "WORKS_AT"} <= {*words["types"], *words["single_valued"]}
    assert words["types_in_use"]["Gadget"] == 1
    for uri in ("graphkeep://changelog", "graphkeep://context"):
        assert (await _ask(found, tokens["reader"], "resources/read", era, uri=uri))["result"]["contents"][0]["text"]
    for uri in ("graphkeep://entity/nobody", "graphkeep://entity/", "graphkeep://secrets", "file:///etc/passwd"):
        refused = await _ask(found, tokens["reader"], "resources/read", era, uri=uri)
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32602, {"uri": uri})


@pytest.mark.parametrize("era", ERAS)
async def test_arguments_are_completed_in_either_era(gateway: tuple[Gateway, dict[str, str]], era: str) -> None:
    found, tokens = gateway

    async def completed(ref: dict[str, str], name: str, value: str) -> list[str]:
        argument = {"name": name, "value": value}
        said = await _ask(found, tokens["reader"], "completion/complete", era, ref=ref, argument=argument)
        values: list[str] = said["result"]["completion"]["values"]
        return values

    prompt = {"type": "ref/prompt", "name": "graph"}
    assert await completed(prompt, "query", "ADA_l") == ["Ada Lovelace"]
    assert await completed(prompt, "query", "c+") == ["C++"]
    assert await completed(prompt, "query", "zz") == []
    assert await completed(prompt, "type", "ga") == ["Gadget"]
    assert "Person" in await completed(prompt, "type", "P")
    assert await completed(prompt, "hops", "1") == []
    assert await completed({"type": "ref/prompt", "name": "graph-find"}, "what", "st") == ["stale", "strongest"]
    assert await completed({"type": "ref/resource", "uri": "graphkeep://entity/{id}"}, "id", "ada") == ["ada-lovelace"]
    asked = {"ref": {"type": "ref/prompt", "name": "graph"}, "argument": {"name": "depth", "value": ""}}
    assert (await _ask(found, tokens["reader"], "completion/complete", era, **asked))["error"]["code"] == -32602


async def test_who_may_not_write_is_offered_no_prompt_that_writes(gateway: tuple[Gateway, dict[str, str]]) -> None:
    found, tokens = gateway
    listed = (await _ask(found, tokens["reader"], "prompts/list", MODERN))["result"]["prompts"]
    names = {prompt["name"] for prompt in listed}
    assert {"graph", "graph-ask", "graph-briefing"} <= names
    assert not names & {"dream", "capture", "graph-boost", "ingest"}
    refused = await _ask(found, tokens["reader"], "prompts/get", MODERN, name="dream")
    assert refused["error"]["code"] == -32602


async def test_a_token_without_the_scope_is_challenged_as_for_a_tool(gateway: tuple[Gateway, dict[str, str]]) -> None:
    found, tokens = gateway
    async with found.client(tokens["ledger"]) as client:
        body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read"}
        body["params"] = {"_meta": META, "uri": "graphkeep://vocabulary"}
        head = {"Mcp_Method": "resources/read", "Mcp_Name": "graphkeep://vocabulary"}
        answer = await found.send(client, json.dumps(body).encode(), MODERN, **head)
    assert answer.status_code == 403
    assert "memory:read" in answer.headers["www-authenticate"]


async def test_reads_spend_and_lists_prompts_and_completions_do_not(gateway: tuple[Gateway, dict[str, str]]) -> None:
    found, tokens = gateway
    token = tokens["busy"]
    asked = [_ask(found, token, "prompts/list", MODERN) for _ in range(25)]
    assert "rate_limited" not in str(await asyncio.gather(*asked))
    completion = {"ref": {"type": "ref/prompt", "name": "graph"}, "argument": {"name": "type", "value": "P"}}
    asked = [_ask(found, token, "completion/complete", MODERN, **completion) for _ in range(25)]
    assert "rate_limited" not in str(await asyncio.gather(*asked))
    reads = 0
    while "error" not in (said := await _ask(found, token, "resources/read", MODERN, uri="graphkeep://changelog")):
        reads += 1
        assert reads < 200
    assert reads >= 20
    assert (said["error"]["code"], said["error"]["data"]["reason"]) == (-32603, "rate_limited")
    assert said["error"]["data"]["retry_after_ms"] > 0


@pytest.mark.parametrize("mode", ["legacy", MODERN])
async def test_the_sdks_own_client_gets_prompts_and_resources(
    gateway: tuple[Gateway, dict[str, str]], mode: Any
) -> None:
    from mcp.client.streamable_http import streamable_http_client

    found, tokens = gateway
    headers = {"Authorization": f"Bearer {tokens['owner']}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(f"{found.url}/mcp", http_client=http), mode=mode) as client,
    ):
        assert len((await client.list_prompts()).prompts) == len(every_prompt())
        assert (await client.get_prompt("graph-stats")).messages[0].role == "user"
        assert (await client.read_resource("graphkeep://vocabulary")).contents


PLAIN = Prompt("p", "p", "P", "p", "memory:read", "Do.", (PromptArgument("x", "an x", values=("a", "b"), default="a"),))


def test_what_is_offered_is_checked_once() -> None:
    async def nothing(*_: Any) -> Any:
        return []

    async def read(*_: Any) -> str:
        return ""

    def resource(uri: str) -> Resource:
        return Resource("r", "R", "r", uri, "text/plain", "memory", "memory:read", read, Fill.NOTHING)

    for prompts, resources in (([PLAIN, PLAIN], []), ([], [resource("http://x")]), ([], [resource("graphkeep://{x}")])):
        with pytest.raises(OfferingError):
            Offering(prompts, resources, {}, nothing)


def test_an_argument_of_a_prompt_is_one_of_its_values_and_not_too_long() -> None:
    assert filled(PLAIN, {}) == "Parameters:\n- `x`: a\n\nDo."
    for arguments in ({"x": "c"}, {"y": "a"}, {"x": "a" * 3000}):
        with pytest.raises(ProtocolError):
            filled(PLAIN, arguments)


async def test_what_waits_is_answered_to_a_device_that_asks(
    gateway: tuple[Gateway, dict[str, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found, tokens = gateway
    async with found.client(tokens["owner"]) as client:
        assert (await client.get("/pending", headers={"Authorization": ""})).status_code == 401
        assert (
            await client.get("/pending", headers={"Authorization": f"Bearer {tokens['ledger']}"})
        ).status_code == 403
        assert (await client.post("/pending")).status_code == 405
        empty = (await client.get("/pending")).json()
        assert (empty["unprocessed_transcripts"], empty["pending_ingests"], empty["running"]) == (0, 0, None)
        note = {"action": "queue", "file_name": "note.md", "content": "# Note\nAda leads Apollo."}
        assert (await found.insist(client, "graph_ingest", note))["ok"]
        waiting = (await client.get("/pending")).json()
        assert (waiting["pending_ingests"], waiting["hours_since_last_dream"]) == (1, None)
        monkeypatch.setenv("GRAPHKEEP_ADDRESS", found.url)
        monkeypatch.setenv("GRAPHKEEP_TOKEN", tokens["owner"])
        monkeypatch.setattr(pending, "_SECONDS", 30.0)  # a busy machine must not decide what is shown here
        await asyncio.to_thread(pending.run)
        assert "1 pending ingest doc. No dream process has run yet." in capsys.readouterr().out
        begun = await found.insist(client, "graph_run", action="begin", source="scheduled-nightly")
        assert begun["ok"]
        running = (await client.get("/pending")).json()["running"]
        assert (running["source"], running["minutes"]) == ("dream", 0)  # no words of who began it
        assert (await found.insist(client, "graph_run", action="finish", lease=begun["lease"]))["ok"]
        assert (await client.get("/pending")).json()["hours_since_last_dream"] < 1

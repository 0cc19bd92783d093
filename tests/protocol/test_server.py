from __future__ import annotations

import json
import re
from typing import Any

import httpx2
import jsonschema
import pytest
import structlog
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from app.protocol.server import INSTRUCTIONS
from tests.protocol.conftest import LEGACY, MODERN, Gateway, answer, open_gateway
from tests.protocol.fixture_tools import TOOLS, tool

ERAS = [MODERN, LEGACY, "2025-06-18", "2025-03-26", None]
INITIALIZE = {"capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
async def test_the_sdks_own_client_lists_and_calls_in_either_era(gateway: Gateway, mode: Any) -> None:
    async with Client(gateway.url, mode=mode) as client:
        listed = await client.list_tools()
        assert {found.name for found in listed.tools} == {found.name for found in TOOLS} - {"repair"}
        result = await client.call_tool("echo", {"text": "grüße", "values": {"none": None}})
        assert result.is_error is False
        assert result.structured_content["said"] == ["grüße"]
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
        failed = await client.call_tool("fail", {"text": "database"})
        assert failed.is_error is True
        assert failed.structured_content["reason"] == "database_unavailable"
        with pytest.raises(MCPError) as caught:
            await client.call_tool("no_such_tool", {})
        assert caught.value.error.code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_answers_the_same_in_every_era(gateway: Gateway, era: str | None) -> None:
    result = (await gateway.call("echo", {"text": "x", "times": 2}, era=era))["result"]
    assert result["structuredContent"]["said"] == ["x", "x"]
    assert result["structuredContent"]["ok"] is True
    assert result["isError"] is False
    assert ("resultType" in result) is (era == MODERN)


async def test_discovery_names_the_server_and_may_be_kept_by_one_user_alone(gateway: Gateway) -> None:
    response = await gateway.post(gateway.request("server/discover"))
    result = answer(response)["result"]
    assert result["supportedVersions"] == [MODERN]
    assert result["capabilities"] == {"tools": {"listChanged": False}}
    assert result["cacheScope"] == "private"
    assert result["instructions"] == INSTRUCTIONS
    assert len(INSTRUCTIONS) <= 2048


async def test_initialize_answers_the_version_asked_for_without_a_session(gateway: Gateway) -> None:
    for asked, given in ((LEGACY, LEGACY), ("2025-03-26", "2025-03-26"), (MODERN, LEGACY), ("1999-01-01", LEGACY)):
        body = gateway.request("initialize", era=LEGACY, protocolVersion=asked, **INITIALIZE)
        response = await gateway.post(body, era=None)
        assert answer(response)["result"]["protocolVersion"] == given
        assert "mcp-session-id" not in response.headers


async def test_an_invented_session_is_no_obstacle(gateway: Gateway) -> None:
    for era in (MODERN, LEGACY, None):
        said = await gateway.call("echo", {"text": "x"}, era=era, mcp_session_id="made-up", last_event_id="7")
        assert said["result"]["isError"] is False
        body = gateway.request("tools/list", era=era)
        assert (await gateway.post(body, era=era, mcp_session_id="made-up")).status_code == 200


async def test_a_mix_of_eras_in_header_and_body_is_served_as_the_header_says(gateway: Gateway) -> None:
    body = gateway.request("tools/call", era=MODERN, name="echo", arguments={"text": "x"})
    for era in (LEGACY, None):
        result = answer(await gateway.post(body, era=era))["result"]
        assert result["structuredContent"]["said"] == ["x"]
        assert "resultType" not in result


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"mcp-name": "slow"}, 400, -32020),
        ({"mcp-method": "tools/list"}, 400, -32020),
        ({"mcp-protocol-version": "2099-01-01"}, 400, -32020),
        ({"mcp-method": ""}, 400, -32020),
    ],
)
async def test_headers_that_contradict_the_body_are_refused(
    gateway: Gateway, headers: dict[str, str], status: int, code: int
) -> None:
    body = gateway.request("tools/call", name="echo", arguments={"text": "x"})
    response = await gateway.post(body, **headers)
    assert response.status_code == status
    assert answer(response)["error"]["code"] == code
    assert gateway.service.begun == 0


async def test_an_unknown_version_is_told_which_are_served(gateway: Gateway) -> None:
    body = gateway.request("tools/list")
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01"
    response = await gateway.post(body, mcp_protocol_version="2099-01-01")
    assert response.status_code == 400
    error = answer(response)["error"]
    assert error["code"] == -32022
    assert error["data"]["supported"] == [MODERN]


async def test_a_modern_call_without_its_envelope_is_refused(gateway: Gateway) -> None:
    body = gateway.request("tools/call", era=LEGACY, name="echo", arguments={"text": "x"})
    response = await gateway.post(body, era=MODERN)
    assert response.status_code == 400
    assert answer(response)["error"]["code"] == -32602


async def test_a_client_that_accepts_no_answer_form_is_refused(gateway: Gateway) -> None:
    body = gateway.request("tools/call", name="echo", arguments={"text": "x"})
    assert (await gateway.post(body, accept="text/html")).status_code == 406


async def test_methods_that_do_not_exist_are_not_found(gateway: Gateway) -> None:
    for method in ("ping", "prompts/list", "resources/list", "no/such"):
        response = await gateway.post(gateway.request(method))
        assert response.status_code == 404
        assert answer(response)["error"]["code"] == -32601


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_notification_is_accepted_without_an_answer(gateway: Gateway, era: str) -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    response = await gateway.post(body, era=era)
    assert response.status_code == 202
    assert response.content == b""


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_a_protocol_error(gateway: Gateway, era: str | None) -> None:
    said = await gateway.call("no_such_tool", {"text": "secret"}, era=era)
    assert said["error"]["code"] == -32602
    assert "secret" not in json.dumps(said)


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize(
    "arguments",
    [
        {"text": 5},
        {"text": "x", "times": "3"},
        {"text": "x", "points": [{"x": 1}] * 10_000},
        {"text": "x", "zzz": 1},
        {},
    ],
)
async def test_wrong_arguments_are_a_tool_error(gateway: Gateway, era: str, arguments: dict[str, Any]) -> None:
    result = (await gateway.call("echo", arguments, era=era))["result"]
    assert result["isError"] is True
    said = result["structuredContent"]
    assert (said["ok"], said["reason"], said["outcome"], said["retryable"]) == (
        False,
        "invalid_input",
        "not_applied",
        False,
    )
    assert said["field"] in said["message"]


@pytest.mark.parametrize(
    "text", ["nul \x00 inside", "`back` \"quoted\" 'x' \n \r", '+-&&||!(){}[]^"~*?:\\/', "👩‍👩‍👧 שלום", ""]
)
async def test_text_of_every_kind_comes_back_unchanged(gateway: Gateway, text: str) -> None:
    result = (await gateway.call("echo", {"text": text}))["result"]
    assert result["structuredContent"]["said"] == [text]
    assert json.loads(result["content"][0]["text"])["said"] == [text]


async def test_an_operators_tool_tells_others_what_to_use_instead(gateway: Gateway) -> None:
    said = (await gateway.call("repair", {"text": "x"}))["result"]["structuredContent"]
    assert said["reason"] == "forbidden"
    assert "Use echo." in said["message"]
    assert (await gateway.call("repair", {"text": "x"}, who="operator"))["result"]["isError"] is False


async def test_the_list_follows_the_role_and_never_the_connection(gateway: Gateway) -> None:
    async def names(who: str, era: str | None) -> list[str]:
        listed = answer(await gateway.post(gateway.request("tools/list", era=era), era=era, who=who))["result"]
        assert listed.get("cacheScope") == ("private" if era == MODERN else None)
        return [found["name"] for found in listed["tools"]]

    for _ in range(2):
        for era in (MODERN, LEGACY):
            assert "store" in await names("ada", era)
            assert "store" not in await names("reader", era)
            assert "repair" not in await names("ada", era)
            assert "repair" in await names("operator", era)


async def test_a_list_has_one_page(gateway: Gateway) -> None:
    said = answer(await gateway.post(gateway.request("tools/list", cursor="made-up")))
    assert said["error"]["code"] == -32602


async def test_a_scope_that_was_not_granted_is_named(gateway: Gateway) -> None:
    said = (await gateway.call("store", {"name": "x"}, who="reader"))["result"]["structuredContent"]
    assert said["reason"] == "forbidden"
    assert gateway.service.written == []


async def test_layers_of_a_call_narrow_what_it_reads_and_choose_where_it_writes(gateway: Gateway) -> None:
    read = (await gateway.call("echo", {"text": "x", "layers": ["work"]}))["result"]["structuredContent"]
    assert "work" in read["layers"]
    wrote = (await gateway.call("store", {"name": "x", "layers": ["work"]}))["result"]["structuredContent"]
    assert wrote["layer"] == "work"
    said = (await gateway.call("store", {"name": "y", "layers": ["secret"]}))["result"]["structuredContent"]
    assert said["reason"] == "forbidden"
    assert gateway.service.written == ["x"]


@pytest.mark.parametrize("name", ["fail", "fail_ledger"])
async def test_a_call_that_fails_says_whether_to_try_again(gateway: Gateway, name: str) -> None:
    said = (await gateway.call(name, {"text": "limit"}))["result"]["structuredContent"]
    assert said["retryable"] is True
    assert said["retry_after_ms"] == 1500
    assert ("retryAfterMs" in said) is (name == "fail_ledger")


@pytest.mark.parametrize("token", [None, "t"])
async def test_our_own_fault_names_the_request_and_nothing_else(gateway: Gateway, token: str | None) -> None:
    body = gateway.request(
        "tools/call", name="fail", arguments={"text": "tenant words"}, meta={"progressToken": token} if token else {}
    )
    with structlog.testing.capture_logs() as logged:
        response = await gateway.post(body, x_request_id="request-12345")
    said = answer(response)["result"]["structuredContent"]
    assert (said["reason"], said["outcome"]) == ("internal_error", "not_applied")
    assert "request-12345" in said["message"]
    (line,) = [found for found in logged if found["event"] == "tool_failed"]
    assert (line["request_id"], line["tenant"]) == ("request-12345", "t-ada")
    assert line["error"] == "RuntimeError"
    assert "fixture_tools.py" in line["at"][-1]
    assert "tenant words" not in response.text + repr(logged)


async def test_a_write_that_broke_may_have_been_applied(gateway: Gateway) -> None:
    said = (await gateway.call("store", {"name": "break"}))["result"]["structuredContent"]
    assert (said["reason"], said["outcome"]) == ("internal_error", "unknown")


async def test_a_result_that_breaks_its_schema_is_found_by_the_check(gateway: Gateway) -> None:
    said = (await gateway.call("wrong_shape"))["result"]["structuredContent"]
    assert said["reason"] == "internal_error"


async def test_a_long_answer_is_cut_and_says_so(gateway: Gateway) -> None:
    result = (await gateway.call("echo", {"text": "x" * 100, "times": 5000}))["result"]
    said = result["structuredContent"]
    assert len(result["content"][0]["text"]) <= 60_000
    assert said["truncated"] is True
    assert len(said["said"]) + said["omitted"]["said"] == 5000


async def test_a_long_list_with_a_cursor_is_shortened_so_that_nothing_is_lost(gateway: Gateway) -> None:
    seen: list[str] = []
    arguments: dict[str, Any] = {"limit": 1500}
    while True:
        result = (await gateway.call("page", arguments))["result"]
        assert len(result["content"][0]["text"]) <= 60_000
        said = result["structuredContent"]
        seen += said["items"]
        if said["next_cursor"] is None:
            break
        arguments["cursor"] = said["next_cursor"]
    assert [int(item[:5]) for item in seen] == list(range(2000))


async def test_a_write_with_a_long_report_was_applied_all_the_same(gateway: Gateway) -> None:
    said = (await gateway.call("store", {"name": "long report"}))["result"]["structuredContent"]
    assert said["ok"] is True
    assert said["truncated"] is True
    assert gateway.service.written == ["long report"]


async def test_what_is_listed_holds_to_every_rule_of_the_connectors(gateway: Gateway) -> None:
    listed = answer(await gateway.post(gateway.request("tools/list"), who="operator"))["result"]["tools"]
    assert len(listed) == len(TOOLS)
    for found in listed:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", found["name"])
        assert found["title"] == found["annotations"]["title"]
        assert len(found["annotations"]) == 5
        text = json.dumps([found["inputSchema"], found["outputSchema"]])
        assert not re.search(r'"(anyOf|oneOf|allOf|\$ref|\$defs)"', text)
        assert len(json.dumps(found["inputSchema"])) <= 16_384
        jsonschema.Draft202012Validator.check_schema(found["inputSchema"])


async def test_results_and_failures_fit_the_advertised_output_schema(gateway: Gateway) -> None:
    listed = answer(await gateway.post(gateway.request("tools/list")))["result"]["tools"]
    schemas = {found["name"]: found["outputSchema"] for found in listed}
    for name, arguments in (("echo", {"text": "x"}), ("echo", {}), ("page", {"limit": 1}), ("store", {"name": "x"})):
        said = (await gateway.call(name, arguments))["result"]["structuredContent"]
        jsonschema.validate(said, schemas[name])


async def test_two_users_at_once_each_get_their_own(gateway: Gateway) -> None:
    async def as_user(who: str) -> set[str]:
        http = httpx2.AsyncClient(headers={"authorization": f"Bearer {who}"})
        async with http, Client(streamable_http_client(gateway.url, http_client=http)) as client:
            return {found.name for found in (await client.list_tools()).tools}

    assert "store" in await as_user("ada")
    assert "store" not in await as_user("reader")


async def test_lists_and_handshakes_need_no_service_at_all() -> None:
    async with open_gateway(tools=[tool()]) as opened:
        opened.service = None  # type: ignore[assignment]
        for body, era in (
            (opened.request("server/discover"), MODERN),
            (opened.request("tools/list"), MODERN),
            (opened.request("initialize", era=LEGACY, protocolVersion=LEGACY, **INITIALIZE), LEGACY),
        ):
            assert "result" in answer(await opened.post(body, era=era))

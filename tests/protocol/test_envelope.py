from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import ProtocolError
from app.protocol.envelope import MAX_DEPTH, MAX_UNCALLED, MAX_VALUES, parse
from tests.protocol.conftest import LEGACY, MODERN, Gateway, answer

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "inspector", "version": "1"},
}


def call(**changes: Any) -> bytes:
    message = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "x"}},
    }
    return json.dumps(message | changes).encode()


def refused(body: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        parse(body)
    return caught.value


def test_a_call_is_read_with_its_tool_its_arguments_and_who_says_to_call() -> None:
    params = {"name": "echo", "arguments": {"text": "x"}, "_meta": META}
    envelope = parse(call(params=params), version=MODERN)
    assert (envelope.id, envelope.method, envelope.tool) == (7, "tools/call", "echo")
    assert envelope.arguments == {"text": "x"}
    assert envelope.protocol_version == MODERN
    assert envelope.modern
    assert envelope.client_info["name"] == "inspector"
    assert envelope.spends
    assert not envelope.notification


@pytest.mark.parametrize(
    ("version", "modern"), [(None, False), (LEGACY, False), ("2025-03-26", False), (MODERN, True), ("2099-01-01", True)]
)
def test_the_header_alone_decides_the_era_as_it_does_in_the_sdk(version: str | None, modern: bool) -> None:
    params = {"name": "echo", "_meta": META}
    assert parse(call(params=params), version=version).modern is modern


def test_what_only_lists_or_greets_spends_nothing() -> None:
    for method in ("initialize", "server/discover", "tools/list", "ping"):
        assert not parse(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode()).spends


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"nope",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":-Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1e999}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}",
        b'{"a":"\\ud800"}',
        b'{"a":"\x00"}',
        b"[" * 100_000,
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
    ],
)
def test_what_is_not_json_is_a_parse_error_without_an_id(body: bytes) -> None:
    error = refused(body)
    assert (error.code, error.id, error.status) == (-32700, None, 400)


@pytest.mark.parametrize(
    "body",
    [b"[]", b"1", b'"x"', b"null", b"true", b"[" + call() + b"]"],
)
def test_what_is_not_one_object_is_an_invalid_request(body: bytes) -> None:
    assert refused(body).code == -32600


@pytest.mark.parametrize(
    "changes",
    [
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2},
        {"method": None},
        {"method": 5},
        {"method": ""},
        {"method": "m" * 129},
        {"params": []},
        {"params": "x"},
        {"id": None},
        {"id": True},
        {"id": 1.5},
        {"id": {}},
        {"id": "i" * 257},
    ],
)
def test_a_malformed_request_is_an_invalid_request(changes: dict[str, Any]) -> None:
    error = refused(call(**changes))
    assert error.code == -32600
    assert error.id == (7 if "id" not in changes else None)


@pytest.mark.parametrize("params", [{}, {"name": ""}, {"name": 4}, {"name": "echo", "arguments": [1]}])
def test_a_call_without_a_name_or_with_arguments_of_another_kind_has_invalid_parameters(params: Any) -> None:
    error = refused(call(params=params))
    assert (error.code, error.id) == (-32602, 7)


def test_a_call_that_awaits_no_answer_is_refused() -> None:
    body = json.dumps({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "echo"}}).encode()
    assert refused(body).code == -32600


def test_a_posted_response_is_refused() -> None:
    assert refused(b'{"jsonrpc":"2.0","id":1,"result":{}}').code == -32600


@pytest.mark.parametrize(("levels", "fits"), [(MAX_DEPTH - 3, True), (MAX_DEPTH - 2, False), (97, False)])
def test_nesting_is_bounded_whole_body_included(levels: int, fits: bool) -> None:
    nested: Any = "leaf"
    for level in range(levels):
        nested = [nested] * 20 if level == 0 else {"in": nested} if level % 2 else [nested]
    body = call(params={"name": "echo", "arguments": {"in": nested}})
    if fits:
        assert parse(body).tool == "echo"
    else:
        error = refused(body)
        assert (error.code, error.id) == (-32600, 7)
        assert "16 levels" in error.message


def test_brackets_in_text_are_not_nesting() -> None:
    assert parse(call(params={"name": "echo", "arguments": {"text": "[{" * 500}})).tool == "echo"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)
fields = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | json_values,
        "id": st.integers() | st.text(max_size=300) | json_values,
        "method": st.sampled_from(["tools/call", "tools/list", "initialize"]) | json_values,
        "params": st.fixed_dictionaries(
            {}, optional={"name": json_values, "arguments": json_values, "_meta": json_values}
        )
        | json_values,
    },
)


@given(st.binary() | (fields | json_values).map(lambda value: json.dumps(value).encode()))
def test_any_body_is_either_read_or_refused_with_a_code(body: bytes) -> None:
    code, envelope = 0, None
    try:
        envelope = parse(body)
    except ProtocolError as error:
        code = error.code
    if envelope is None:
        assert code in (-32700, -32600, -32602)
    else:
        assert isinstance(envelope.method, str)
        assert (envelope.tool is not None) == (envelope.method == "tools/call")


@pytest.mark.parametrize("era", [MODERN, LEGACY, None])
async def test_malformed_bodies_are_answered_in_the_form_of_json_rpc(gateway: Gateway, era: str | None) -> None:
    for body, code in ((b"{", -32700), (b"[]", -32600), (call(jsonrpc="1"), -32600), (call(params={}), -32602)):
        response = await gateway.post(body, era=era)
        assert response.status_code == 400
        said = answer(response)
        assert said["error"]["code"] == code
        assert said["jsonrpc"] == "2.0"
        assert "id" in said


async def test_a_body_that_arrives_in_many_pieces_is_one_body(gateway: Gateway) -> None:
    async def pieces() -> Any:
        for byte in call():
            yield bytes([byte])

    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    response = await gateway.client.post(gateway.url, content=pieces(), headers=headers)
    assert answer(response)["result"]["isError"] is False


def test_a_body_of_very_many_values_is_refused_for_a_fraction_of_what_it_would_cost_to_walk() -> None:
    for many in (b"[]", b"1", b'{"a":1}'):
        values = b",".join([many] * 500_000)
        arguments = b'{"x":[%s]}' % values
        error = refused(
            b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":%s}}' % arguments
        )
        assert (error.code, error.id) == (-32600, 3)
        assert str(MAX_VALUES) in error.message


def test_values_that_are_only_text_do_not_count() -> None:
    text = "[{,}]" * 100_000
    assert parse(call(params={"name": "echo", "arguments": {"text": text}})).arguments == {"text": text}


def test_a_message_that_calls_no_tool_is_small_since_nothing_limits_how_many_there_are() -> None:
    params = {"clientInfo": {"name": "x" * MAX_UNCALLED}}
    for method in ("initialize", "tools/list", "notifications/cancelled"):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        assert refused(body).code == -32600

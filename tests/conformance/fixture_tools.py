"""The tools that the conformance suite calls.

Three are declared as ours are and run through registry, dispatch and the straight way. The others answer with what no
tool of ours does (pictures, questions back to the client, log lines), so they are the SDK's own handlers behind the
same HTTP stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

from app.contract import Call, Cost, DeadlineClass, ReadArguments, Tool
from app.errors import InvalidInput
from tests.conformance.fixture_content import AUDIO, IMAGE, Context, Wire, embedded, text

__all__ = ["DECLARED", "OTHERS", "SCHEMAS", "TOOLS", "bus", "call_other"]

MISSING_CAPABILITY = -32021
STEP_SECONDS = 0.25
"""Longer than the shortest time between two reports of progress."""

bus = InMemorySubscriptionBus()


class Nothing(ReadArguments):
    pass


class Said(BaseModel):
    said: str


async def simple(_: None, __: Call, ___: Nothing) -> Mapping[str, Any]:
    return {"said": "This is a simple text response for testing."}


async def failing(_: None, __: Call, ___: Nothing) -> Mapping[str, Any]:
    raise InvalidInput("This tool intentionally returns an error for testing")


async def progressing(_: None, call: Call, __: Nothing) -> Mapping[str, Any]:
    for step in (0, 50, 100):
        await call.progress(step, 100, f"step {step} of 100")
        await asyncio.sleep(STEP_SECONDS)
    return {"said": "done"}


def _declared(name: str, run: Callable[..., Awaitable[Mapping[str, Any]]]) -> Tool:
    return Tool(
        name=name,
        title="For the suite",
        description="For the suite.",
        toolset="memory",
        input=Nothing,
        output=Said,
        run=run,
        scope="memory:read",
        cost=Cost.PLAIN,
        deadline=DeadlineClass.READ,
        read_only=True,
    )


DECLARED = (
    _declared("test_simple_text", simple),
    _declared("test_error_handling", failing),
    _declared("test_tool_with_progress", progressing),
)

Handler = Callable[[Context, Any], Awaitable[Wire]]


def _content(*parts: Wire) -> Wire:
    return {"content": list(parts), "isError": False, "resultType": "complete"}


def _showing(*parts: Wire) -> Handler:
    async def show(_ctx: Context, _params: Any) -> Wire:
        return _content(*parts)

    return show


async def logging(ctx: Context, _params: Any) -> Wire:
    for said in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.session.send_log_message("info", said, related_request_id=ctx.request_id)
    return _content(text("done"))


async def _asked(question: Awaitable[Any]) -> Wire:
    """Ask the client back, which a stateless server cannot in the eras before 2026-07-28."""
    try:
        return _content(text(str(await question)))
    except MCPError as error:
        return {**_content(text(error.message)), "isError": True}


async def sampling(ctx: Context, params: Any) -> Wire:
    said = str((params.arguments or {}).get("prompt", ""))
    message = SamplingMessage(role="user", content=TextContent(type="text", text=said))
    request = CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))
    return await _asked(ctx.session.send_request(request, CreateMessageResult))


async def eliciting(ctx: Context, _params: Any) -> Wire:
    asked = ElicitRequestFormParams(message="Please answer", requested_schema={"type": "object", "properties": {}})
    return await _asked(ctx.session.send_request(ElicitRequest(params=asked), ElicitResult))


async def missing_capability(ctx: Context, _params: Any) -> Wire:
    if "sampling" not in _capabilities(ctx):
        raise MCPError(
            code=MISSING_CAPABILITY,
            message="this tool needs a client that can sample",
            data={"requiredCapabilities": {"sampling": {}}},
        )
    return _content(text("the client can sample"))


async def tools_changed(_ctx: Context, _params: Any) -> Wire:
    await bus.publish(ToolsListChanged())
    return _content(text("published"))


async def prompts_changed(_ctx: Context, _params: Any) -> Wire:
    await bus.publish(PromptsListChanged())
    return _content(text("published"))


def _capabilities(ctx: Context) -> Mapping[str, Any]:
    meta: Mapping[str, Any] = (ctx.params or {}).get("_meta") or {}
    found: Mapping[str, Any] = meta.get("io.modelcontextprotocol/clientCapabilities") or {}
    return found


def _elicit(message: str, field: str, kind: str = "string") -> Wire:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def _sample(message: str) -> Wire:
    said = {"role": "user", "content": {"type": "text", "text": message}}
    return {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": 50}}


ROOTS: Wire = {"method": "roots/list", "params": {}}


def _asking(*rounds: Mapping[str, Wire], state: bool = False, may: bool = False) -> Handler:
    """Ask round after round. ``state``: keep count in the request state; ``may``: ask only what the client declared."""

    async def ask(ctx: Context, params: Any) -> Wire:
        answered = set(params.input_responses or {})
        begun = int(params.request_state or 0) if state else 0
        done = begun + 1 if answered and set(rounds[begun]) <= answered else begun
        if done == len(rounds):
            return _content(text("state-ok" if state else "thank you"))
        requests = dict(rounds[done])
        if may:
            declared = _capabilities(ctx)
            requests = {name: one for name, one in requests.items() if one["method"].partition("/")[0] in declared}
        return {
            "resultType": "input_required",
            "inputRequests": requests,
            **({"requestState": str(done)} if state else {}),
        }

    return ask


NAME = _elicit("What is your name?", "name")
CONFIRM = {"confirm": _elicit("Please confirm", "ok", "boolean")}
PREFIX = "test_input_required_result_"

OTHERS: dict[str, Handler] = {
    "test_image_content": _showing({"type": "image", "data": IMAGE, "mimeType": "image/png"}),
    "test_audio_content": _showing({"type": "audio", "data": AUDIO, "mimeType": "audio/wav"}),
    "test_embedded_resource": _showing(embedded("test://embedded-resource", "This is an embedded resource content.")),
    "test_multiple_content_types": _showing(
        text("Multiple content types test:"),
        {"type": "image", "data": IMAGE, "mimeType": "image/png"},
        embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ),
    "test_tool_with_logging": logging,
    "test_logging_tool": logging,
    "test_sampling": sampling,
    "test_elicitation": eliciting,
    "test_elicitation_sep1034_defaults": eliciting,
    "test_elicitation_sep1330_enums": eliciting,
    "json_schema_2020_12_tool": _showing(text("valid")),
    "test_mirrored_argument": _showing(text("mirrored")),
    "test_missing_capability": missing_capability,
    "test_trigger_tool_change": tools_changed,
    "test_trigger_prompt_change": prompts_changed,
    "test_streaming_elicitation": _asking({"user_name": NAME}),
    f"{PREFIX}elicitation": _asking({"user_name": NAME}),
    f"{PREFIX}sampling": _asking({"capital_question": _sample("What is the capital of France?")}),
    f"{PREFIX}list_roots": _asking({"client_roots": ROOTS}),
    f"{PREFIX}request_state": _asking(CONFIRM, state=True),
    f"{PREFIX}multiple_inputs": _asking(
        {"user_name": NAME, "greeting": _sample("Generate a greeting"), "client_roots": ROOTS}, state=True
    ),
    f"{PREFIX}multi_round": _asking(
        {"step1": _elicit("Step 1: What is your name?", "name")},
        {"step2": _elicit("Step 2: What is your favorite color?", "color")},
        state=True,
    ),
    f"{PREFIX}tampered_state": _asking(CONFIRM, state=True),
    f"{PREFIX}capabilities": _asking({"user_name": NAME, "greeting": _sample("Generate a greeting")}, may=True),
}

# Our registry refuses such a schema, since known connectors drop the tool; the protocol below it must not touch it.
RICH_SCHEMA: Wire = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
MIRRORED: Wire = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
SCHEMAS: dict[str, Wire] = {"json_schema_2020_12_tool": RICH_SCHEMA, "test_mirrored_argument": MIRRORED}

TOOLS: list[Wire] = [
    {
        "name": name,
        "description": "For the suite.",
        "inputSchema": SCHEMAS.get(name, {"type": "object", "properties": {}}),
    }
    for name in OTHERS
]


async def call_other(ctx: Context, params: Any) -> Wire:
    handler = OTHERS.get(params.name)
    if handler is None:
        raise MCPError(code=INTERNAL_ERROR, message="no such handler")
    return await handler(ctx, params)

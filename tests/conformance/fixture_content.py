"""What the conformance suite expects of a server beyond tools of ours: its texts, pictures, prompts and resources."""

from __future__ import annotations

import json
import re
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

__all__ = [
    "AUDIO",
    "IMAGE",
    "complete",
    "embedded",
    "get_prompt",
    "list_prompts",
    "list_resources",
    "list_templates",
    "read_resource",
    "text",
]

Wire = dict[str, Any]
Context = ServerRequestContext[Any, Any]

# One red pixel, and one sample of silence.
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
AUDIO = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQIAAACAgA=="

RESOURCES: dict[str, Wire] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": IMAGE},
    "test://watched-resource": {"mimeType": "text/plain", "text": "What is watched."},
}
TEMPLATE = "test://template/{id}/data"
FROM_TEMPLATE = re.compile(r"test://template/([^/]+)/data\Z")

PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


def text(said: str) -> Wire:
    return {"type": "text", "text": said}


def embedded(uri: str, said: str, kind: str = "text/plain") -> Wire:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": said}}


async def list_resources(_ctx: Context, _params: Any) -> Wire:
    found = [
        {"uri": uri, "name": uri.rpartition("/")[2], "description": "For the suite.", "mimeType": kept["mimeType"]}
        for uri, kept in RESOURCES.items()
    ]
    return {"resources": found, "resultType": "complete"}


async def list_templates(_ctx: Context, _params: Any) -> Wire:
    found = {"uriTemplate": TEMPLATE, "name": "data", "description": "For the suite.", "mimeType": "application/json"}
    return {"resourceTemplates": [found], "resultType": "complete"}


async def read_resource(_ctx: Context, params: Any) -> Wire:
    uri = str(params.uri)
    kept = RESOURCES.get(uri)
    filled = FROM_TEMPLATE.match(uri)
    if filled is not None:
        data = {"id": filled[1], "templateTest": True, "data": f"Data for ID: {filled[1]}"}
        kept = {"mimeType": "application/json", "text": json.dumps(data)}
    if kept is None:
        raise MCPError(code=INVALID_PARAMS, message="there is no such resource", data={"uri": uri})
    return {"contents": [{"uri": uri, **kept}], "resultType": "complete"}


async def list_prompts(_ctx: Context, _params: Any) -> Wire:
    found = [
        {
            "name": name,
            "description": "For the suite.",
            "arguments": [{"name": argument, "required": True} for argument in arguments],
        }
        for name, arguments in PROMPTS.items()
    ]
    return {"prompts": found, "resultType": "complete"}


async def get_prompt(_ctx: Context, params: Any) -> Wire:
    given = params.arguments or {}
    if params.name not in PROMPTS or not set(PROMPTS[params.name]) <= set(given):
        raise MCPError(code=INVALID_PARAMS, message="there is no such prompt, or an argument is missing")
    if params.name == "test_input_required_result_prompt" and not params.input_responses:
        question = {
            "method": "elicitation/create",
            "params": {
                "message": "What context should the prompt use?",
                "requestedSchema": {
                    "type": "object",
                    "properties": {"context": {"type": "string"}},
                    "required": ["context"],
                },
            },
        }
        return {"resultType": "input_required", "inputRequests": {"user_context": question}}
    said: dict[str, list[Wire]] = {
        "test_simple_prompt": [text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments": [
            text(f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'")
        ],
        "test_prompt_with_embedded_resource": [
            embedded(str(given.get("resourceUri")), "Embedded resource content for testing."),
            text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image": [
            {"type": "image", "data": IMAGE, "mimeType": "image/png"},
            text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt": [text("In the context that was named.")],
    }
    return {
        "messages": [{"role": "user", "content": content} for content in said[params.name]],
        "resultType": "complete",
    }


async def complete(_ctx: Context, params: Any) -> Wire:
    known = ["paris", "park", "party"]
    found = [word for word in known if word.startswith(params.argument.value)]
    return {"completion": {"values": found, "total": len(found), "hasMore": False}, "resultType": "complete"}

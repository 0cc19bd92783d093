"""What the edge itself answers: JSON for programs, a small page for people, always with the request id."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.edge.context import CONTEXT

__all__ = ["json_answer", "not_found", "overloaded", "problem"]

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"></head>
<body><main><h1>{title}</h1><p>{message}</p><p>Request id: <code>{request_id}</code></p></main></body></html>
"""


def json_answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response, never cached."""
    return Response(
        orjson.dumps(body), status, {"cache-control": "no-store", **(headers or {})}, media_type="application/json"
    )


def problem(
    scope: Scope,
    status: int,
    reason: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    retryable: bool = False,
    **more: Any,
) -> Response:
    """A refusal or failure: ``{ok: false, reason, message, retryable, request_id, ...}``, or a page for a browser."""
    request_id = request_id_of(scope)
    if _wants_page(scope):
        text = PAGE.format(
            title=html.escape(reason.replace("_", " ").capitalize()),
            message=html.escape(message),
            request_id=html.escape(request_id),
        )
        return Response(text, status, {"cache-control": "no-store", **(headers or {})}, media_type="text/html")
    body = {"ok": False, "reason": reason, "message": message, "retryable": retryable, "request_id": request_id, **more}
    return json_answer(status, body, headers)


def overloaded(scope: Scope, headers: Mapping[str, str] | None = None) -> Response:
    """Too much is under way."""
    message = "The gateway has too much under way; nothing was done. Try again shortly."
    return problem(scope, 503, "overloaded", message, headers={"retry-after": "1", **(headers or {})}, retryable=True)


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """The end of the route table."""
    message = "There is nothing at this address. The MCP endpoint is /mcp."
    await problem(scope, 404, "not_found", message)(scope, receive, send)


def request_id_of(scope: Scope) -> str:
    """The request id, empty before there is one."""
    context = scope.get(CONTEXT)
    return context.request_id if context is not None else ""


def _wants_page(scope: Scope) -> bool:
    if scope["path"].startswith(("/mcp", "/.well-known/")):
        return False
    accept = Headers(scope=scope).get("accept", "")
    return "text/html" in accept and "application/json" not in accept

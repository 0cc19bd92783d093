"""How OAuth endpoints answer: JSON, the right status, never stored (RFC 6749 §5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.errors import CallError, OAuthError

__all__ = ["ANY_ORIGIN", "Endpoint", "answer", "error_response", "oauth_endpoint", "preflight", "unavailable"]

Endpoint = Callable[[Request], Awaitable[Response]]

ANY_ORIGIN: Final = {"Access-Control-Allow-Origin": "*"}
"""These endpoints take no cookie, so pages of any origin (the MCP Inspector among them) may read their answers."""

_NEVER_STORED: Final = {"Cache-Control": "no-store", "Pragma": "no-cache", **ANY_ORIGIN}
_RETRY_SECONDS: Final = "2"
_BUDGET_SECONDS: Final = "30"
"""Until there is room again for clients that this gateway has to look up."""

_log = structlog.get_logger("graphkeep.oauth")


def answer(body: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A JSON answer that no cache keeps."""
    return JSONResponse(dict(body), status, headers={**_NEVER_STORED, **(headers or {})})


def error_response(error: OAuthError, *, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The error as OAuth spells it."""
    return answer({"error": error.error, "error_description": error.description}, status=error.status, headers=headers)


def unavailable(error: CallError) -> JSONResponse:
    """The database is away or slow: the client may try again, and must not throw its credentials away."""
    return answer(
        {"error": "temporarily_unavailable", "error_description": error.message},
        status=503,
        headers={"Retry-After": _RETRY_SECONDS},
    )


def oauth_endpoint(handler: Endpoint) -> Endpoint:
    """``handler`` with every expected failure turned into an OAuth error answer."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except OAuthError as error:
            headers = {}
            if error.status == 401 and "authorization" in request.headers:
                # RFC 6749 §5.2: the scheme that the client used must be named.
                headers["WWW-Authenticate"] = 'Basic realm="graphkeep", charset="UTF-8"'
            if error.status == 503:
                headers["Retry-After"] = _BUDGET_SECONDS
            _log.info("oauth_refused", path=request.url.path, error=error.error, reason=error.description)
            return error_response(error, headers=headers)
        except CallError as error:
            _log.warning("oauth_unavailable", path=request.url.path, reason=error.reason)
            return unavailable(error)

    return endpoint


async def preflight(_request: Request) -> Response:
    """Answer a browser that asks whether a page may call (CORS)."""
    return Response(
        status_code=204,
        headers={
            **ANY_ORIGIN,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
            "Access-Control-Max-Age": "600",
        },
    )

"""Web pages that may call the gateway: the Origin check of the MCP transport, and CORS.

Streamable HTTP demands 403 for a present and invalid Origin (DNS rebinding). Preflights carry no credentials, so they
are answered here, outside authentication. Cookies are never allowed across origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import problem
from app.edge.host import canonical

__all__ = ["Origin"]

METHODS: Final = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"
EXPOSED: Final = "WWW-Authenticate, Mcp-Session-Id, MCP-Protocol-Version, X-Request-Id, Retry-After, Location"
ALLOWED: Final = (
    "authorization",
    "content-type",
    "accept",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "mcp-session-id",
    "last-event-id",
    "x-request-id",
)
PARAMETER: Final = re.compile(r"mcp-param-[a-z0-9!#$%&'*+.^_`|~-]{1,64}\Z")
"""Headers that a tool's schema may ask for (SEP-2243): their names are the tools' own."""


class Origin:
    """Refuses foreign pages at ``/mcp`` and tells browsers what the known ones may do."""

    def __init__(self, app: ASGIApp, *, allowed: Iterable[str], guarded: tuple[str, ...] = ("/mcp",)) -> None:
        self.app = app
        self._allowed = frozenset(_origin(url) for url in allowed)
        self._guarded = guarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the origin and go on."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if origin is None:
            await self.app(scope, receive, send)
        elif origin not in self._allowed:
            await self._foreign(scope, receive, send)
        elif scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await _preflight(origin, headers)(scope, receive, send)
        else:
            await self.app(scope, receive, _shared(origin, send))

    async def _foreign(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].rstrip("/") not in self._guarded:
            await self.app(scope, receive, send)
            return
        message = "Pages of this origin may not call the gateway; an operator can add it to GRAPHKEEP_ALLOWED_ORIGINS."
        await problem(scope, 403, "forbidden_origin", message)(scope, receive, send)


def _origin(url: str) -> str:
    """The origin part of an address (RFC 6454 §6.2)."""
    scheme, _, rest = canonical(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def _preflight(origin: str, headers: Headers) -> Response:
    asked = [name.strip().lower() for name in headers.get("access-control-request-headers", "").split(",")]
    allowed = [*ALLOWED, *sorted(name for name in asked if PARAMETER.match(name))]
    answer = {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": ", ".join(allowed),
        "access-control-max-age": "600",
        "vary": "Origin, Access-Control-Request-Headers",
    }
    return Response(status_code=204, headers=answer)


def _shared(origin: str, send: Send) -> Send:
    async def with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["access-control-allow-origin"] = origin
            headers["access-control-expose-headers"] = EXPOSED
            headers.add_vary_header("Origin")
        await send(message)

    return with_cors

"""Headers that make browsers careful. A response that brings its own keeps it (pages have their own content policy)."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.context import LATEST

__all__ = ["SecurityHeaders"]

# No Cross-Origin-Opener-Policy: it cuts the tie between a connector's window and its sign-in popup.
HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
RAW: Final = tuple((name.encode(), value.encode()) for name, value in HEADERS.items())
TRANSPORT: Final = "max-age=31536000"


class SecurityHeaders:
    """Adds what is missing; Strict-Transport-Security only on HTTPS and never for ``localhost``."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, and complete the headers of the answer."""

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in RAW if pair[0] not in given)]
                headers = MutableHeaders(scope=message)
                if b"access-control-allow-origin" in given:
                    headers["cross-origin-resource-policy"] = "cross-origin"
                if _public(scope[LATEST].context.address):
                    headers.setdefault("strict-transport-security", TRANSPORT)
            await send(message)

        await self.app(scope, receive, careful)


def _public(address: str) -> bool:
    return address.startswith("https://") and not address.startswith("https://localhost")

"""The cookie of a browser in which somebody signed in before. It opens nothing; it only earns an own count of tries."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from starlette.responses import Response

from app.oauth.secrets import Secrets, digest, new_token

__all__ = ["browser_of", "known_cookie", "remember"]

SECONDS: Final = 400 * 24 * 3600
"""The longest that browsers keep a cookie (RFC 6265bis §5.5)."""
PEOPLE: Final = 5
"""People who share one browser."""

_ENTRY: Final = re.compile(r"([A-Za-z0-9_\-]{43})\.([A-Za-z0-9_\-]{43})\Z")
_PURPOSE: Final = "known browser"


def known_cookie(address: str) -> str:
    """Name of the cookie at ``address``; see :func:`app.oauth.login.sessions.cookie_name`."""
    mark = hashlib.sha256(address.encode()).hexdigest()[:8]
    return f"__Host-gk-known-{mark}" if address.startswith("https://") else f"gk-known-{mark}"


def browser_of(cookie: str, secrets: Secrets, address: str, user: str) -> str:
    """What tells this browser from others to ``user``; empty if that user never signed in with it."""
    for nonce, mac in _entries(cookie):
        if secrets.fits(mac, _PURPOSE, address, user, nonce):
            return digest(f"{user} {nonce}")
    return ""


def remember(response: Response, cookie: str, secrets: Secrets, address: str, user: str) -> None:
    """Let the browser show from now on that ``user`` signed in with it. Who that is cannot be read from the cookie."""
    others, own = [], new_token()
    for nonce, mac in _entries(cookie):
        if secrets.fits(mac, _PURPOSE, address, user, nonce):
            own = nonce
        else:
            others.append(f"{nonce}.{mac}")
    entries = [f"{own}.{secrets.token(_PURPOSE, address, user, own)}", *others]
    response.set_cookie(
        known_cookie(address),
        "~".join(entries[:PEOPLE]),
        max_age=SECONDS,
        path="/",
        secure=address.startswith("https://"),
        httponly=True,
        samesite="lax",
    )


def _entries(cookie: str) -> list[tuple[str, str]]:
    found = (_ENTRY.match(entry) for entry in cookie.split("~")[:PEOPLE])
    return [(match[1], match[2]) for match in found if match is not None]

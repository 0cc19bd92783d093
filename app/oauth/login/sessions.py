"""Browser sessions: the cookie, what it stands for, and the tokens that tell our own forms from others' (CSRF)."""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.oauth.login.attempts import Trial
from app.oauth.login.known import browser_of, known_cookie, remember
from app.oauth.secrets import HANDLE, digest, new_token
from app.oauth.service import AuthorizationServer
from app.store.control.browser import SessionRecord
from app.store.control.users import User

__all__ = ["Visit", "cookie_name", "sign_in", "sign_out", "visit"]

SESSION_SECONDS: Final = 14 * 24 * 3600
RECENT_SECONDS: Final = 15 * 60
LONGEST_AGENT: Final = 200

_HANDLE: Final = re.compile(HANDLE)


def cookie_name(address: str) -> str:
    """Name of the session cookie at ``address``. Cookies ignore ports: the hash keeps two addresses of a host apart."""
    mark = hashlib.sha256(address.encode()).hexdigest()[:8]
    return f"__Host-gk-session-{mark}" if address.startswith("https://") else f"gk-session-{mark}"


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser on one of our pages. ``token`` is its cookie, ``user`` who is signed in with it."""

    services: AuthorizationServer
    address: str
    token: str
    fresh: bool
    """Whether the cookie is new and must be sent."""
    user: User | None
    since: float
    """When the session began, Unix seconds; 0 when no one is signed in."""
    known: str = ""
    """The cookie that tells in whose name this browser was used before."""
    agent: str = ""
    """What the browser calls itself."""

    @property
    def recent(self) -> bool:
        """Whether the person signed in a moment ago: what changing the ways to sign in demands."""
        return self.user is not None and time.time() - self.since < RECENT_SECONDS

    async def trial(self, kind: str, account: str, user: User | None) -> Trial:
        """An attempt to sign in from this browser as ``account``, which is ``user``'s if there is one."""
        secrets = await self.services.secrets()
        browser = browser_of(self.known, secrets, self.address, user.id) if user is not None else ""
        return Trial(kind, account, browser)

    async def csrf(self, form: str) -> str:
        """The token of one form, valid for this cookie alone."""
        return (await self.services.secrets()).token("csrf", self.address, self.token, form)

    async def ours(self, request: Request, presented: str | None, form: str) -> bool:
        """Whether a post came from our own form in this very browser."""
        origin = request.headers.get("origin")
        if self.fresh or presented is None or (origin is not None and origin != self.address):
            return False
        expected = await self.csrf(form)
        return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), expected.encode())

    def keep(self, response: Response) -> None:
        """Send the cookie if the browser does not have it."""
        if self.fresh:
            _set_cookie(response, self.address, self.token)


async def visit(services: AuthorizationServer, request: Request) -> Visit:
    """Who is looking: the session of the cookie, or a new anonymous one that is stored nowhere."""
    address = services.address(request)
    token = request.cookies.get(cookie_name(address), "")
    known = request.cookies.get(known_cookie(address), "")
    agent = request.headers.get("user-agent", "")[:LONGEST_AGENT]
    if not _HANDLE.match(token):
        return Visit(services, address, new_token(), True, None, 0.0, known, agent)
    session = await services.browser.find_session(digest(token), issuer=address, now=time.time())
    user = await services.users.by_id(session.user) if session is not None else None
    since = session.created_at if session is not None and user is not None else 0.0
    return Visit(services, address, token, False, user, since, known, agent)


async def sign_in(visit: Visit, user: User, response: Response, way: str) -> None:
    """Begin a session with a new cookie, so that one that somebody planted before is worth nothing."""
    if visit.user is not None:
        await visit.services.browser.end_session(digest(visit.token))
    token = new_token()
    now = time.time()
    await visit.services.browser.add_session(
        SessionRecord(digest(token), user.id, visit.address, now, now + SESSION_SECONDS, way, visit.agent)
    )
    _set_cookie(response, visit.address, token)
    remember(response, visit.known, await visit.services.secrets(), visit.address, user.id)


async def sign_out(visit: Visit, response: Response) -> None:
    """End the session and take the cookie away."""
    await visit.services.browser.end_session(digest(visit.token))
    secure = visit.address.startswith("https://")
    response.delete_cookie(cookie_name(visit.address), path="/", secure=secure, httponly=True, samesite="lax")


def _set_cookie(response: Response, address: str, token: str) -> None:
    response.set_cookie(
        cookie_name(address),
        token,
        max_age=SESSION_SECONDS,
        path="/",
        secure=address.startswith("https://"),
        httponly=True,
        samesite="lax",
    )

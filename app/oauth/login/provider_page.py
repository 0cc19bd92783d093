"""Signing in with the OpenID Connect provider or by Cloudflare Access, and tying the provider to an account."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

import structlog
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app.errors import Forbidden
from app.oauth.forms import Parameters, read_form, read_query
from app.oauth.login import ceremony
from app.oauth.login.admission import admit, connect
from app.oauth.login.cloudflare import ASSERTION
from app.oauth.login.continuation import LANDING, is_continuation, path_of
from app.oauth.login.sessions import Visit, visit
from app.oauth.login.upstream import CALLBACK_PATH, Upstream
from app.oauth.login.vouching import NotVouched, Unreachable, Vouched
from app.oauth.login.welcome import SIGN_IN_FORM, STALE, sign_in_again, welcome
from app.oauth.pages import fragment, message_page, see_other
from app.oauth.secrets import new_token
from app.oauth.service import AuthorizationServer

__all__ = ["connect_link", "return_from_provider", "sign_in_by_access", "to_provider", "vouched_by_access"]

STATE_SECONDS: Final = 10 * 60
PURPOSE: Final = "sign in with provider"
CONNECT: Final = "connect provider"
PROVIDER: Final = "provider"
ACCESS: Final = "access"
AWAY: Final = "The provider does not answer just now. Try again in a moment, or sign in in another way."
DOUBTFUL: Final = "What the provider answered could not be verified. Nothing was changed. Try again, or another way."

_log = structlog.get_logger("graphkeep.oauth")


async def connect_link(seen: Visit, *, back: str = "") -> Markup:
    """The link with which a signed-in person ties the provider to their account, for any page; empty without one."""
    upstream = seen.services.providers.upstream
    if upstream is None or seen.user is None:
        return Markup()
    ties = await seen.services.identities.of_user(seen.user.id)
    query = urlencode({"connect": await seen.csrf(CONNECT), "request": back})
    return fragment(
        "connect_link",
        label=upstream.label,
        address=f"/sign-in/provider?{query}",
        tied=any(tie.issuer == upstream.issuer for tie in ties),
    )


async def to_provider(services: AuthorizationServer, request: Request) -> Response:
    """Send the browser to the provider. With ``connect`` (a form token) it comes back to tie the account."""
    seen = await visit(services, request)
    query = read_query(request)
    goal = query.one("request") or ""
    upstream = services.providers.upstream
    if upstream is None:
        return message_page("Not set up", "This gateway knows no provider to sign in with.", status=404)
    tying = ""
    if "connect" in query:
        if not await seen.ours(request, query.one("connect"), CONNECT):
            return message_page("Please try again", STALE, status=403)
        if seen.user is None or not seen.recent:
            return sign_in_again(goal)
        tying = seen.user.id
    content = {"goal": goal if is_continuation(goal) else "", "connect": tying, "unique": new_token()}
    state = await ceremony.begin(seen, PURPOSE, content, seconds=STATE_SECONDS)
    nonce, verifier = await _bound(seen, state)
    try:
        where = await upstream.question(_callback(seen), state=state, nonce=nonce, verifier=verifier)
    except Unreachable as error:
        return _away(error)
    response = see_other(where)
    seen.keep(response)
    return response


async def return_from_provider(services: AuthorizationServer, request: Request) -> Response:
    """Take the provider's answer and go on."""
    seen = await visit(services, request)
    query = read_query(request)
    upstream = services.providers.upstream
    state = query.one("state") or ""
    asked = await ceremony.resume(seen, PURPOSE, state)
    if upstream is None or asked is None:
        return message_page("Please try again", STALE)
    try:
        vouched = await _answer(seen, upstream, query, state)
    except Unreachable as error:
        return _away(error)
    except NotVouched as error:
        _log.warning("provider_refused", reason=str(error))
        return message_page("You are not signed in", DOUBTFUL, status=401)
    if vouched is None:
        return message_page("You are not signed in", "The provider did not sign you in.", status=401)
    if not await ceremony.finish(seen, state, asked):
        return message_page("Please try again", STALE)
    try:
        return await _go_on(seen, vouched, asked["goal"], asked["connect"])
    except Forbidden as problem:
        return message_page("You are not signed in", problem.message, status=403)


async def vouched_by_access(services: AuthorizationServer, request: Request) -> Vouched | None:
    """Who Cloudflare Access says the person is; None without it, or if what it says cannot be verified."""
    access = services.providers.access
    assertions = request.headers.getlist(ASSERTION)
    if access is None or len(assertions) != 1:
        return None
    try:
        return await access.vouched(assertions[0])
    except (NotVouched, Unreachable) as error:
        _log.warning("access_refused", reason=str(error))
        return None


async def sign_in_by_access(services: AuthorizationServer, request: Request) -> Response:
    """Sign in as whom Access says."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), SIGN_IN_FORM):
        return message_page("Please try again", STALE, status=403)
    vouched = await vouched_by_access(services, request)
    if vouched is None:
        return message_page("You are not signed in", "Cloudflare Access does not say who you are.", status=401)
    try:
        user = await admit(services, vouched, ACCESS)
    except Forbidden as problem:
        return message_page("You are not signed in", problem.message, status=403)
    return await welcome(seen, user, form.one("request") or "", ACCESS)


async def _answer(seen: Visit, upstream: Upstream, query: Parameters, state: str) -> Vouched | None:
    await upstream.check_sender(query.one("iss"))
    code = query.one("code")
    if code is None or "error" in query:
        return None
    nonce, verifier = await _bound(seen, state)
    return await upstream.redeem(code, _callback(seen), nonce=nonce, verifier=verifier)


async def _go_on(seen: Visit, vouched: Vouched, goal: str, tying: str) -> Response:
    if not tying:
        return await welcome(seen, await admit(seen.services, vouched, PROVIDER), goal, PROVIDER)
    if seen.user is None or seen.user.id != tying:
        raise Forbidden(STALE)
    await connect(seen.services, seen.user, vouched, PROVIDER)
    return see_other(path_of(goal) if goal else LANDING)


async def _bound(seen: Visit, state: str) -> tuple[str, str]:
    """Nonce and PKCE verifier of one question: derived, so that any replica can redeem its answer."""
    secrets = await seen.services.secrets()
    return secrets.token("provider nonce", state), secrets.token("provider verifier", state)


def _callback(seen: Visit) -> str:
    return f"{seen.address}{CALLBACK_PATH}"


def _away(error: Unreachable) -> Response:
    _log.warning("provider_unreachable", reason=str(error))
    return message_page("The provider is not available", AWAY, status=502)

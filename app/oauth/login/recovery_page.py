"""Signing in with a recovery code, and making new ones."""

from __future__ import annotations

from typing import Final

import structlog
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from app.oauth.forms import read_form, read_query
from app.oauth.login.attempts import TooManyAttempts
from app.oauth.login.continuation import is_continuation, path_of
from app.oauth.login.recovery import RecoveryCodes
from app.oauth.login.sessions import Visit, visit
from app.oauth.login.welcome import STALE, sign_in_again, welcome
from app.oauth.pages import fragment, message_page, page
from app.oauth.service import AuthorizationServer

__all__ = ["codes_form", "make_codes", "show_recovery", "try_code"]

SIGN_IN: Final = "recovery sign-in"
MAKE: Final = "recovery codes"

_log = structlog.get_logger("graphkeep.oauth")


async def codes_form(seen: Visit, *, back: str = "") -> Markup:
    """The form with which a signed-in person makes new codes, for any page; ``back`` is where the codes' page leads."""
    if seen.user is None:
        return Markup()
    left = await RecoveryCodes(seen.services).left(seen.user.id)
    return fragment("codes_form", csrf=await seen.csrf(MAKE), back=back, left=left)


async def make_codes(services: AuthorizationServer, request: Request) -> Response:
    """Make ten codes and show them, this once."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), MAKE):
        return message_page("Please try again", STALE, status=403)
    back = form.one("back") or ""
    if seen.user is None or not seen.recent:
        return sign_in_again(back)
    codes = await RecoveryCodes(services).make(seen.user.id)
    return page("codes", codes=codes, back=path_of(back), host=seen.address.partition("://")[2])


async def show_recovery(services: AuthorizationServer, request: Request) -> Response:
    """The form for e-mail address and code."""
    seen = await visit(services, request)
    return await _recovery_page(seen, read_query(request).one("request") or "")


async def try_code(services: AuthorizationServer, request: Request) -> Response:
    """Use a code up and go on."""
    form = await read_form(request)
    seen = await visit(services, request)
    goal = form.one("request") or ""
    if not await seen.ours(request, form.one("csrf"), SIGN_IN):
        return message_page("Please try again", STALE, status=403)
    email = form.one("email") or ""
    user = await services.users.by_email(email)
    trial = await seen.trial("recovery", email, user)
    codes = RecoveryCodes(services)
    try:
        await services.attempts.count(trial)
    except TooManyAttempts:
        _log.warning("sign_in_limited", actor=user.id if user else "")
        problem = "Too many attempts. Wait 15 minutes, or ask an operator for a one-time link."
        return await _recovery_page(seen, goal, email=email, problem=problem, status=429)
    # Asked for nobody too, so that an unknown address costs as much time as a known one.
    right = await codes.use(user.id if user else "", form.one("code") or "")
    if user is None or not right:
        await services.note("sign_in.refuse", actor=user.id if user else "", way="recovery")
        problem = "This e-mail address and code do not fit together, or the code was used before."
        return await _recovery_page(seen, goal, email=email, problem=problem, status=401)
    await services.attempts.passed(trial)
    return await welcome(seen, user, goal, "recovery", left=str(await codes.left(user.id)))


async def _recovery_page(seen: Visit, goal: str, *, email: str = "", problem: str = "", status: int = 200) -> Response:
    response = page(
        "recovery",
        status=status,
        csrf=await seen.csrf(SIGN_IN),
        token=goal if is_continuation(goal) else "",
        email=email,
        problem=problem,
    )
    seen.keep(response)
    return response

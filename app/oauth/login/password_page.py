"""The sign-in page, passwords, and where a person lands who came without a program that asks."""

from __future__ import annotations

from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response

from app.oauth.forms import read_form, read_query
from app.oauth.login.attempts import TooManyAttempts
from app.oauth.login.continuation import is_continuation, is_pending
from app.oauth.login.passkeys import enrol_form, sign_in_options
from app.oauth.login.provider_page import connect_link, vouched_by_access
from app.oauth.login.recovery_page import codes_form
from app.oauth.login.sessions import Visit, sign_out, visit
from app.oauth.login.welcome import SIGN_IN_FORM, STALE, welcome
from app.oauth.pages import fragment, message_page, page, see_other
from app.oauth.service import AuthorizationServer

__all__ = ["leave", "show_sign_in", "signed_in", "try_sign_in"]

LEAVE: Final = "sign-out"

_log = structlog.get_logger("graphkeep.oauth")


async def show_sign_in(services: AuthorizationServer, request: Request) -> Response:
    """Every way to sign in. ``request`` names what to go on to."""
    seen = await visit(services, request)
    vouched = await vouched_by_access(services, request)
    goal = read_query(request).one("request") or ""
    return await _sign_in_page(seen, goal, access_email=vouched.email if vouched is not None else "")


async def try_sign_in(services: AuthorizationServer, request: Request) -> Response:
    """Verify the password and go on."""
    form = await read_form(request)
    seen = await visit(services, request)
    goal = form.one("request") or ""
    if not await seen.ours(request, form.one("csrf"), SIGN_IN_FORM):
        return message_page("Please try again", STALE, status=403)
    email = form.one("email") or ""
    user = await services.users.by_email(email)
    trial = await seen.trial("password", email, user)
    try:
        right = await services.passwords.verify(trial, user.id if user else None, form.one("password") or "")
    except TooManyAttempts:
        _log.warning("sign_in_limited", actor=user.id if user else "")  # not audited: a flood would fill the trail
        problem = "Too many attempts. Wait 15 minutes, choose another way, or ask an operator for a one-time link."
        return await _sign_in_page(seen, goal, email=email, problem=problem, status=429)
    if user is None or not right:
        await services.note("sign_in.refuse", actor=user.id if user else "", way="password")
        problem = "This e-mail address and password do not fit together."
        return await _sign_in_page(seen, goal, email=email, problem=problem, status=401)
    return await welcome(seen, user, goal, "password")


async def signed_in(services: AuthorizationServer, request: Request) -> Response:
    """Where a person lands who came without a program that asks: what to do next."""
    seen = await visit(services, request)
    if seen.user is None:
        return see_other("/sign-in")
    return page(
        "signed_in",
        scripted=True,
        email=seen.user.email,
        places=await services.places(seen.user),
        mcp=f"{seen.address}/mcp",
        csrf=await seen.csrf(LEAVE),
        ways=[await enrol_form(seen, back=""), await connect_link(seen), await codes_form(seen)] if seen.recent else [],
    )


async def leave(services: AuthorizationServer, request: Request) -> Response:
    """Sign this browser out, or every browser of the person."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), LEAVE):
        return message_page("Please try again", STALE, status=403)
    response = see_other("/sign-in")
    await sign_out(seen, response)
    if seen.user is not None and form.one("everywhere"):
        await services.sign_out_everywhere(seen.user.id)
        await services.note("sign_out.everywhere", actor=seen.user.id)
    return response


async def _sign_in_page(
    seen: Visit, goal: str, *, email: str = "", problem: str = "", status: int = 200, access_email: str = ""
) -> Response:
    goal = goal if is_continuation(goal) else ""
    csrf = await seen.csrf(SIGN_IN_FORM)
    options = await sign_in_options(seen)
    upstream = seen.services.providers.upstream
    passkey = fragment(
        "passkey_form",
        action="/sign-in/passkey",
        kind="get",
        options=options,
        csrf=csrf,
        fields={"request": goal},
        label="Sign in with a passkey",
        asks_email=False,
        asks_name=False,
    )
    response = page(
        "sign_in",
        status=status,
        scripted=True,
        csrf=csrf,
        token=goal,
        pending=is_pending(goal),
        email=email,
        problem=problem,
        host=seen.address.partition("://")[2],
        passkey=passkey if options else "",
        access_email=access_email,
        provider=upstream.label if upstream is not None else "",
    )
    seen.keep(response)
    return response

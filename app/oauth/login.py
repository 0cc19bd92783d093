"""Signing in: with a password, or by a one-time link that also sets one."""

from __future__ import annotations

import time
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response

from app.errors import InvalidInput
from app.oauth.forms import Parameters, read_form, read_query
from app.oauth.pages import message_page, page, see_other
from app.oauth.passwords import MIN_PASSWORD, TooManyAttempts, check_password
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.oauth.sessions import Visit, sign_in, sign_out, visit
from app.store.control.users import User

__all__ = ["follow_link", "leave", "open_link", "show_sign_in", "signed_in", "try_sign_in"]

FORM: Final = "sign-in"
LEAVE: Final = "sign-out"
STALE: Final = "This page had become stale, or your browser refused its cookie. Go back, reload it and try again."
NO_LINK: Final = "It was used before, has expired, or is for another address of this gateway. Ask for a new one."

_log = structlog.get_logger("graphkeep.oauth")


async def show_sign_in(services: AuthorizationServer, request: Request) -> Response:
    """The form for e-mail address and password. ``request`` names the consent question to go on to."""
    seen = await visit(services, request)
    return await _sign_in_page(seen, read_query(request).one("request") or "")


async def try_sign_in(services: AuthorizationServer, request: Request) -> Response:
    """Verify the password and go on."""
    form = await read_form(request)
    seen = await visit(services, request)
    pending = form.one("request") or ""
    if not await seen.ours(request, form.one("csrf"), FORM):
        return message_page("Please try again", STALE, status=403)
    email = form.one("email") or ""
    user = await services.users.by_email(email)
    try:
        right = await services.passwords.verify(email, user.id if user else None, form.one("password") or "")
    except TooManyAttempts:
        _log.warning("sign_in_limited", actor=user.id if user else "")  # not audited: a flood would fill the trail
        problem = "Too many attempts. Wait 15 minutes, or ask an operator for a one-time sign-in link."
        return await _sign_in_page(seen, pending, email=email, problem=problem, status=429)
    if user is None or not right:
        await services.note("sign_in.refuse", actor=user.id if user else "")
        problem = "This e-mail address and password do not fit together."
        return await _sign_in_page(seen, pending, email=email, problem=problem, status=401)
    return await _welcome(seen, user, pending, "password")


async def open_link(services: AuthorizationServer, request: Request) -> Response:
    """Show what a one-time link leads to. It stays usable: previews of messages open links too."""
    seen = await visit(services, request)
    token = read_query(request).required("token")
    link = await services.links.find(digest(token), issuer=seen.address, now=time.time())
    user = await services.users.by_id(link.user) if link is not None else None
    if user is None:
        return message_page("This link does not work", NO_LINK)
    return await _link_page(seen, user, token)


async def follow_link(services: AuthorizationServer, request: Request) -> Response:
    """Use the link up: set the password and sign in."""
    form = await read_form(request)
    seen = await visit(services, request)
    token = form.required("token")
    if not await seen.ours(request, form.one("csrf"), f"link {digest(token)}"):
        return message_page("Please try again", STALE, status=403)
    link = await services.links.find(digest(token), issuer=seen.address, now=time.time())
    user = await services.users.by_id(link.user) if link is not None else None
    if user is None:
        return message_page("This link does not work", NO_LINK)
    known = await services.passwords.known(user.id)
    try:
        password = _new_password(form, user, optional=known)
    except InvalidInput as problem:
        return await _link_page(seen, user, token, problem=problem.message)
    if await services.links.take(digest(token), issuer=seen.address, now=time.time()) is None:
        return message_page("This link does not work", NO_LINK)
    if password is not None:
        await services.passwords.set(user.id, password)
        await services.browser.end_sessions_of(user.id)
        await services.note("password.set", actor=user.id)
    return await _welcome(seen, user, "", "link")


async def signed_in(services: AuthorizationServer, request: Request) -> Response:
    """Where a person lands who came without a program that asks: what to do next."""
    seen = await visit(services, request)
    if seen.user is None:
        return see_other("/sign-in")
    places = await services.places(seen.user)
    return page(
        "signed_in",
        email=seen.user.email,
        places=places,
        mcp=f"{seen.address}/mcp",
        csrf=await seen.csrf(LEAVE),
    )


async def leave(services: AuthorizationServer, request: Request) -> Response:
    """Sign this browser out."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), LEAVE):
        return message_page("Please try again", STALE, status=403)
    response = see_other("/sign-in")
    await sign_out(seen, response)
    return response


def _new_password(form: Parameters, user: User, *, optional: bool) -> str | None:
    password, again = form.one("password"), form.one("again")
    if password is None and again is None and optional:
        return None
    if password != again:
        raise InvalidInput("The two passwords differ. Type the same one twice.")
    return check_password(password or "", user.email)


async def _welcome(seen: Visit, user: User, pending: str, way: str) -> Response:
    response = see_other(f"/consent?request={pending}" if _is_handle(pending) else "/signed-in")
    await sign_in(seen, user, response)
    await seen.services.sweep()
    await seen.services.note("sign_in", actor=user.id, way=way)
    return response


def _is_handle(text: str) -> bool:
    return bool(text) and text.isascii() and all(character.isalnum() or character in "-_" for character in text)


async def _sign_in_page(
    seen: Visit, pending: str, *, email: str = "", problem: str = "", status: int = 200
) -> Response:
    response = page(
        "sign_in",
        status=status,
        csrf=await seen.csrf(FORM),
        token=pending if _is_handle(pending) else "",
        email=email,
        problem=problem,
        host=seen.address.partition("://")[2],
    )
    seen.keep(response)
    return response


async def _link_page(seen: Visit, user: User, token: str, *, problem: str = "") -> Response:
    response = page(
        "link",
        status=400 if problem else 200,
        csrf=await seen.csrf(f"link {digest(token)}"),
        token=token,
        email=user.email,
        known=await seen.services.passwords.known(user.id),
        shortest=MIN_PASSWORD,
        problem=problem,
    )
    seen.keep(response)
    return response

"""One-time sign-in links: opened, followed, and issued by an owner for a member of their tenant."""

from __future__ import annotations

import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.context import Role
from app.errors import Forbidden, InvalidInput
from app.oauth.forms import Parameters, read_form, read_query
from app.oauth.login.passkeys import enrolled, enrolment_options, keep
from app.oauth.login.passwords import MIN_PASSWORD, check_password
from app.oauth.login.sessions import Visit, visit
from app.oauth.login.welcome import STALE, welcome
from app.oauth.pages import fragment, message_page, page
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer, issue_sign_in_link
from app.store.control.passkeys import Passkey
from app.store.control.users import User

__all__ = ["follow_link", "issue_link_for_member", "new_password", "open_link"]

NO_LINK: Final = "It was used before, has expired, or is for another address of this gateway. Ask for a new one."


async def issue_link_for_member(
    services: AuthorizationServer, tenant_id: str, user_subject: str, address: str, *, actor: str
) -> str:
    """A one-time sign-in link that an owner gives to a member of the tenant, valid for 24 hours at ``address``.

    Whoever has the link acts as that person everywhere. So an owner can make one only for a member who belongs to
    no other tenant; for others an operator can.

    Raises:
        Forbidden: ``actor`` is no owner of the tenant, or the member belongs elsewhere too.
        LookupError: no such user or member, or ``address`` is none of the public ones.
    """
    memberships = await services.users.memberships(user_subject)
    if tenant_id not in {each.tenant for each in memberships}:
        raise LookupError("there is no such member")
    own = await services.users.membership(actor, tenant_id)
    if own is None or own.role is not Role.OWNER:
        raise Forbidden("only an owner of the tenant issues links for its members. Nothing was changed.")
    if len(memberships) > 1:
        raise Forbidden(
            "this person belongs to other tenants too, so the link would open those as well; an operator can "
            "issue it: `graphkeep user link`. Nothing was changed."
        )
    return await issue_sign_in_link(services, user_subject, address, actor=actor, tenant=tenant_id)


async def open_link(services: AuthorizationServer, request: Request) -> Response:
    """Show what a one-time link leads to. It stays usable: previews of messages open links too."""
    seen = await visit(services, request)
    token = read_query(request).required("token")
    user = await _user_of(seen, token)
    if user is None:
        return message_page("This link does not work", NO_LINK)
    return await _link_page(seen, user, token)


async def follow_link(services: AuthorizationServer, request: Request) -> Response:
    """Use the link up: set a password or keep a passkey, and sign in."""
    form = await read_form(request)
    seen = await visit(services, request)
    token = form.required("token")
    if not await seen.ours(request, form.one("csrf"), f"link {digest(token)}"):
        return message_page("Please try again", STALE, status=403)
    user = await _user_of(seen, token)
    if user is None:
        return message_page("This link does not work", NO_LINK)
    try:
        passkey = await _passkey(seen, form, user, token)
        password = None if passkey else new_password(form, user.email, optional=await _has_a_way(seen, user))
    except InvalidInput as problem:
        return await _link_page(seen, user, token, problem=problem.message)
    hashed = await services.passwords.hashed(password) if password is not None else None
    if await services.links.take(digest(token), issuer=seen.address, now=time.time()) is None:
        return message_page("This link does not work", NO_LINK)
    if passkey is not None:
        await keep(services, passkey)
    if hashed is not None:
        await services.passwords.keep(user.id, hashed)
        await services.sign_out_everywhere(user.id)
        await services.note("password.set", actor=user.id)
    return await welcome(seen, user, "", "link")


def new_password(form: Parameters, email: str, *, optional: bool) -> str | None:
    """The password that was typed twice, None if there is none and need not be.

    Raises:
        InvalidInput: the two differ, or it is a poor one; the message is for the person.
    """
    password, again = form.one("password"), form.one("again")
    if password is None and again is None and optional:
        return None
    if password != again:
        raise InvalidInput("The two passwords differ. Type the same one twice.")
    return check_password(password or "", email)


async def _user_of(seen: Visit, token: str) -> User | None:
    link = await seen.services.links.find(digest(token), issuer=seen.address, now=time.time())
    return await seen.services.users.by_id(link.user) if link is not None else None


async def _passkey(seen: Visit, form: Parameters, user: User, token: str) -> Passkey | None:
    credential = form.one("credential")
    if credential is None:
        return None
    made = await enrolled(seen, credential, form.one("name") or "", place=_place(token))
    if made.user != user.id:
        raise InvalidInput(STALE)
    return made


async def _has_a_way(seen: Visit, user: User) -> bool:
    return await seen.services.passwords.known(user.id) or bool(await seen.services.passkeys.of_user(user.id))


async def _link_page(seen: Visit, user: User, token: str, *, problem: str = "") -> Response:
    csrf = await seen.csrf(f"link {digest(token)}")
    options = await enrolment_options(seen, user.id, user.email, place=_place(token))
    passkey = fragment(
        "passkey_form",
        action="/sign-in/link",
        kind="create",
        options=options,
        csrf=csrf,
        fields={"token": token},
        label="Make a passkey and sign in",
        asks_email=False,
        asks_name=False,
    )
    response = page(
        "link",
        status=400 if problem else 200,
        scripted=True,
        csrf=csrf,
        token=token,
        email=user.email,
        known=await _has_a_way(seen, user),
        shortest=MIN_PASSWORD,
        problem=problem,
        passkey=passkey if options else "",
    )
    seen.keep(response)
    return response


def _place(token: str) -> str:
    return f"link {digest(token)}"

"""Accepting an invitation: with the account that is signed in, or with a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.context import EVERY_LAYER, layer_name
from app.errors import Conflict, InvalidInput
from app.oauth.forms import Parameters, read_form, read_query
from app.oauth.login.continuation import INVITATION, LANDING
from app.oauth.login.invitations import Invitations
from app.oauth.login.link_page import new_password
from app.oauth.login.passkeys import enrolled, enrolment_options, keep
from app.oauth.login.passwords import MIN_PASSWORD
from app.oauth.login.sessions import Visit, visit
from app.oauth.login.welcome import STALE, welcome
from app.oauth.pages import fragment, message_page, page, see_other
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.invitations import Invitation
from app.store.control.passkeys import Passkey
from app.store.control.users import User, check_email, new_subject

__all__ = ["accept", "open_invitation"]

NO_INVITATION: Final = (
    "It was accepted or withdrawn, has expired, or is for another address of this gateway. Ask for a new one."
)
TAKEN: Final = "There is an account with this address. Sign in with it first: the invitation waits."


@dataclass(frozen=True, slots=True)
class _Opened:
    """A link that a browser shows."""

    seen: Visit
    token: str
    invitation: Invitation

    @property
    def place(self) -> str:
        return f"invitation {digest(self.token)}"

    def fits(self, email: str) -> bool:
        """Whether an account of this address may accept."""
        return self.invitation.email is None or self.invitation.email.casefold() == email.casefold()


async def open_invitation(services: AuthorizationServer, request: Request) -> Response:
    """Show what the link leads to. It stays usable: previews of messages open links too."""
    opened = await _opened(await visit(services, request), read_query(request).required("token"))
    return message_page("This invitation does not work", NO_INVITATION) if opened is None else await _show(opened)


async def accept(services: AuthorizationServer, request: Request) -> Response:
    """Become a member: as whoever is signed in, else with a new account, its password or passkey."""
    form = await read_form(request)
    seen = await visit(services, request)
    token = form.required("token")
    if not await seen.ours(request, form.one("csrf"), f"invitation {digest(token)}"):
        return message_page("Please try again", STALE, status=403)
    opened = await _opened(seen, token)
    if opened is None:
        return message_page("This invitation does not work", NO_INVITATION)
    try:
        if seen.user is not None:
            return await _join(opened, seen.user)
        return await _begin(opened, form)
    except (InvalidInput, Conflict) as problem:
        return await _show(opened, email=form.one("email") or "", problem=problem.message)


async def _join(opened: _Opened, user: User) -> Response:
    if not opened.fits(user.email):
        raise InvalidInput("This invitation is for another account. Sign out, and in with that one.")
    if not await Invitations(opened.seen.services).accept(opened.token, opened.invitation, user):
        return message_page("This invitation does not work", NO_INVITATION)
    return see_other(LANDING)


async def _begin(opened: _Opened, form: Parameters) -> Response:
    services = opened.seen.services
    email = opened.invitation.email or check_email(form.one("email") or "")
    if await services.users.by_email(email) is not None:
        raise InvalidInput(TAKEN)
    passkey: Passkey | None = None
    password: str | None = None
    credential = form.one("credential")
    if credential is not None:
        passkey = await enrolled(opened.seen, credential, form.one("name") or "", place=opened.place)
    else:
        password = new_password(form, email, optional=False)
    hashed = await services.passwords.hashed(password) if password is not None else None
    subject = passkey.user if passkey is not None else new_subject()
    user = await Invitations(services).accept_as(opened.token, opened.invitation, email, subject)
    if user is None:
        return message_page("This invitation does not work", NO_INVITATION)
    if passkey is not None:
        await keep(services, passkey)
    if hashed is not None:
        await services.passwords.keep(user.id, hashed)
        await services.note("password.set", actor=user.id)
    return await welcome(opened.seen, user, "", "invitation")


async def _opened(seen: Visit, token: str) -> _Opened | None:
    invitation = await Invitations(seen.services).find(token, seen.address)
    return None if invitation is None else _Opened(seen, token, invitation)


async def _show(opened: _Opened, *, email: str = "", problem: str = "") -> Response:
    seen, invitation = opened.seen, opened.invitation
    tenant = await seen.services.tenants.by_id(invitation.tenant)
    csrf = await seen.csrf(opened.place)
    response = page(
        "invitation",
        status=400 if problem else 200,
        scripted=True,
        csrf=csrf,
        token=opened.token,
        tenant=tenant.name if tenant is not None else "",
        role=invitation.role.value,
        read=_named(invitation.read_layers),
        write=_named(invitation.write_layers),
        user=seen.user,
        fits=seen.user is not None and opened.fits(seen.user.email),
        bound=invitation.email,
        email=invitation.email or email,
        shortest=MIN_PASSWORD,
        problem=problem,
        sign_in=f"{INVITATION}{opened.token}",
        passkey=await _passkey_form(opened, csrf) if seen.user is None else "",
    )
    seen.keep(response)
    return response


async def _passkey_form(opened: _Opened, csrf: str) -> str:
    invitation = opened.invitation
    options = await enrolment_options(opened.seen, new_subject(), invitation.email or "new account", place=opened.place)
    if not options:
        return ""
    return fragment(
        "passkey_form",
        action="/invitation",
        kind="create",
        options=options,
        csrf=csrf,
        fields={"token": opened.token},
        label="Join with a passkey instead",
        asks_email=invitation.email is None,
        asks_name=False,
    )


def _named(layers: list[str]) -> list[str]:
    return ["every layer" if layer == EVERY_LAYER else layer_name(layer) for layer in layers]

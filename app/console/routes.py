"""Every page and form of the console, in one table: what it demands, what answers it, and what shows it again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.console import gateway, mine, people, security, tenant, tokens
from app.console.desk import Desk, Handler
from app.console.rights import Right, judge
from app.console.service import Console
from app.console.templates import STYLE_PATH, style
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.oauth.forms import read_form, read_query
from app.oauth.login.continuation import is_continuation
from app.oauth.login.sessions import visit
from app.oauth.pages import message_page, page_endpoint, see_other

__all__ = ["TABLE", "Entry", "routes"]

STALE: Final = "This page had become stale. Go back, reload it and try again. Nothing was changed."
Method = Literal["GET", "POST"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One page (GET) or form (POST). ``again`` shows the form once more when what was typed breaks a rule."""

    method: Method
    path: str
    right: Right
    handler: Handler
    again: Handler | None = None


def _page(path: str, right: Right, handler: Handler) -> Entry:
    return Entry("GET", f"/console{path}", right, handler)


def _form(path: str, right: Right, handler: Handler, again: Handler) -> Entry:
    return Entry("POST", f"/console{path}", right, handler, again)


_MINE: Final = (
    _page("", Right.SELF, mine.overview),
    _page("/shown/{handle}", Right.SELF, mine.shown),
    _page("/programs", Right.SELF, mine.programs),
    _page("/programs/{grant}", Right.SELF, mine.program),
    _form("/programs/{grant}", Right.SELF, mine.change_program, mine.program),
    _form("/programs/{grant}/disconnect", Right.SELF, mine.disconnect, mine.programs),
    _page("/tokens", Right.SELF, tokens.tokens),
    _page("/tokens/new", Right.SELF, tokens.new_token),
    _form("/tokens/new", Right.SELF, tokens.make_token, tokens.new_token),
    _form("/tokens/{token}/revoke", Right.SELF, tokens.revoke_token, tokens.tokens),
    _page("/security", Right.SELF, security.security),
    _form("/security/password", Right.SELF, security.change_password, security.security),
    _form("/security/codes", Right.SELF, security.make_codes, security.security),
    _form("/security/passkeys/{passkey}/rename", Right.SELF, security.rename_passkey, security.security),
    _form("/security/passkeys/{passkey}/remove", Right.SELF, security.remove_passkey, security.security),
    _form("/security/sessions/end", Right.SELF, security.end_others, security.security),
    _form("/security/sessions/{session}/end", Right.SELF, security.end_session, security.security),
    _page("/tenants", Right.SELF, mine.tenants),
)
_OWNERS: Final = (
    _page("/t/{tenant}/members", Right.OWNER, people.members),
    _page("/t/{tenant}/members/{user}", Right.OWNER, people.member),
    _form("/t/{tenant}/members/{user}", Right.OWNER, people.change_member, people.member),
    _form("/t/{tenant}/members/{user}/link", Right.OWNER, people.link_member, people.member),
    _form("/t/{tenant}/members/{user}/remove", Right.OWNER, people.remove_member, people.members),
    _page("/t/{tenant}/invitations", Right.OWNER, people.invitations),
    _form("/t/{tenant}/invitations", Right.OWNER, people.invite, people.invitations),
    _form("/t/{tenant}/invitations/{invitation}/withdraw", Right.OWNER, people.withdraw, people.invitations),
    _page("/t/{tenant}/layers", Right.OWNER, tenant.layers),
    _form("/t/{tenant}/layers", Right.OWNER, tenant.add_layer, tenant.layers),
    _page("/t/{tenant}/services", Right.OWNER, tenant.services),
    _page("/t/{tenant}/services/new", Right.OWNER, tenant.new_service),
    _form("/t/{tenant}/services/new", Right.OWNER, tenant.make_service, tenant.new_service),
    _form("/t/{tenant}/services/{account}/renew", Right.OWNER, tenant.renew_service, tenant.services),
    _form("/t/{tenant}/services/{account}/remove", Right.OWNER, tenant.remove_service, tenant.services),
    _page("/t/{tenant}/connections", Right.OWNER, tenant.connections),
    _form("/t/{tenant}/connections/{grant}/disconnect", Right.OWNER, tenant.disconnect, tenant.connections),
    _form("/t/{tenant}/tokens/{token}/revoke", Right.OWNER, tenant.revoke_token, tenant.connections),
    _page("/t/{tenant}/usage", Right.OWNER, tenant.usage),
    _page("/t/{tenant}/audit", Right.OWNER, tenant.audit),
)
_OPERATORS: Final = (
    _page("/gateway/tenants", Right.OPERATOR, gateway.tenants),
    _form("/gateway/tenants", Right.OPERATOR, gateway.make_tenant, gateway.tenants),
    _page("/gateway/tenants/{subject}", Right.OPERATOR, gateway.tenant),
    _form("/gateway/tenants/{subject}/rename", Right.OPERATOR, gateway.rename_tenant, gateway.tenant),
    _form("/gateway/tenants/{subject}/suspend", Right.OPERATOR, gateway.suspend_tenant, gateway.tenant),
    _form("/gateway/tenants/{subject}/resume", Right.OPERATOR, gateway.resume_tenant, gateway.tenant),
    _form("/gateway/tenants/{subject}/delete", Right.OPERATOR, gateway.delete_tenant, gateway.tenant),
    _form("/gateway/tenants/{subject}/limits", Right.OPERATOR, gateway.limit_tenant, gateway.tenant),
    _form("/gateway/tenants/{subject}/owner", Right.OPERATOR, gateway.invite_owner, gateway.tenant),
    _page("/gateway/people", Right.OPERATOR, gateway.people),
    _form("/gateway/people/link", Right.OPERATOR, gateway.give_link, gateway.people),
    _page("/gateway/keys", Right.OPERATOR, gateway.keys),
    _form("/gateway/keys/rotate", Right.OPERATOR, gateway.rotate_keys, gateway.keys),
    _page("/gateway/audit", Right.OPERATOR, gateway.audit),
)

TABLE: Final[tuple[Entry, ...]] = (*_MINE, *_OWNERS, *_OPERATORS)


def routes(console: Console) -> list[Route]:
    """The routes of the console."""
    return [
        *(_route(console, entry) for entry in TABLE),
        Route("/", _front_door, methods=["GET"]),
        Route(STYLE_PATH, style, methods=["GET"]),
    ]


async def _front_door(_request: Request) -> Response:
    """Who types the bare address wants a page."""
    return see_other("/console")


def _route(console: Console, entry: Entry) -> Route:
    async def endpoint(request: Request) -> Response:
        seen = await visit(console.services, request)
        if seen.user is None:
            return _sign_in_first(request, entry)
        standing = await console.standing(seen.user)
        secrets = await console.services.secrets()
        desk = Desk(console, request, seen, secrets, seen.user, standing, place=None, query=read_query(request))
        try:
            changes = entry.method == "POST"
            place = judge(standing, entry.right, request.path_params.get("tenant", ""), changes=changes)
            desk = replace(desk, place=place if entry.right is not Right.OPERATOR else None)
            return await (_posted(entry, desk) if changes else entry.handler(desk))
        except (NotFound, Forbidden, InvalidInput, Conflict) as error:
            return desk.troubled(error.message, error.status).show("refused")

    return Route(entry.path, page_endpoint(endpoint), methods=[entry.method])


async def _posted(entry: Entry, desk: Desk) -> Response:
    form = await read_form(desk.request)
    if not await desk.visit.ours(desk.request, form.one("csrf"), desk.request.url.path):
        return message_page("Please try again", STALE, status=403)
    filled = replace(desk, form=form)
    try:
        return await entry.handler(filled)
    except (InvalidInput, Conflict) as error:
        if entry.again is None:
            raise
        return await entry.again(filled.troubled(error.message, error.status))


def _sign_in_first(request: Request, entry: Entry) -> Response:
    wanted = request.url.path if entry.method == "GET" else "/console"
    return see_other(f"/sign-in?request={wanted}" if is_continuation(wanted) else "/sign-in")

"""The consent page: who asks, where the answer goes, and what the person gives."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.errors import InvalidInput, OAuthError
from app.oauth.authorize import back_to_client
from app.oauth.choosing import boxes
from app.oauth.clients.client import Client
from app.oauth.clients.redirect import Target, read_target
from app.oauth.consent import Choice, Offer, as_ticked, default_choice, news, offer, read_choice
from app.oauth.forms import Parameters, read_form, read_query
from app.oauth.login.sessions import Visit, visit
from app.oauth.pages import message_page, page, see_other
from app.oauth.secrets import digest, new_token
from app.oauth.service import AuthorizationServer, Place
from app.store.control.authorizations import CodeRecord, PendingAuthorization
from app.store.control.grants import GrantRecord
from app.store.control.users import User

__all__ = ["ask", "decide"]

UNUSED_GRANT_SECONDS: Final = 15 * 60
KEEP_CODE_SECONDS: Final = 24 * 3600


@dataclass(frozen=True, slots=True)
class Asking:
    """Everything about one open question to one person."""

    visit: Visit
    user: User
    token: str
    pending: PendingAuthorization
    client: Client
    target: Target
    places: list[Place]

    @property
    def form(self) -> str:
        """Name of this question's form, for its CSRF token."""
        return f"consent {self.pending.id}"


async def ask(services: AuthorizationServer, request: Request) -> Response:
    """Show the question, or the way to it: signing in first."""
    query = read_query(request)
    asking = await _asking(services, request, query)
    if isinstance(asking, Response):
        return asking
    previous = await _previous(services, asking)
    wanted = query.one("tenant") or (previous.tenant if previous else None)
    place = _place(asking, wanted) or asking.places[0]
    offered = offer(asking.pending.scopes, place)
    remembered = _of(place, previous)
    choice = default_choice(asking.pending, offered, remembered)
    return await _show(services, asking, place, offered, choice, news=news(offered, remembered))


async def decide(services: AuthorizationServer, request: Request) -> Response:
    """Take the answer, and send the browser back to the client."""
    form = await read_form(request)
    asking = await _asking(services, request, form)
    if isinstance(asking, Response):
        return asking
    if not await asking.visit.ours(request, form.one("csrf"), asking.form):
        return message_page(
            "Please try again", "This page had become stale. Go back, reload it and answer again.", status=403
        )
    if form.one("answer") != "allow":
        return await _refuse(services, asking)
    place = _place(asking, form.one("tenant"))
    if place is None:
        return message_page("Please try again", "You do not belong to this tenant any more. Nothing was granted.")
    offered = offer(asking.pending.scopes, place)
    try:
        choice = read_choice(form, offered)
        if choice.new_layer is not None:  # before the question is used up: a tenant may have no room for one more
            await services.tenants.add_layers(place.tenant.id, [choice.new_layer])
    except InvalidInput as problem:
        fresh = news(offered, _of(place, await _previous(services, asking)))
        ticked = as_ticked(form, offered)
        return await _show(services, asking, place, offered, ticked, news=fresh, problem=problem.message)
    return await _allow(services, asking, place, choice)


async def _asking(services: AuthorizationServer, request: Request, parameters: Parameters) -> Asking | Response:
    seen = await visit(services, request)
    token = parameters.required("request")
    pending = await services.authorizations.find_pending(digest(token), time.time())
    if pending is None or pending.issuer != seen.address:
        return message_page(
            "This question has expired", "Go back to the program that you want to connect, and start again there."
        )
    if seen.user is None or (pending.sign_in_again and seen.since < pending.created_at):
        return see_other(f"/sign-in?request={token}")
    client = await services.client(pending.client_id, seen.address)
    if client is None:
        raise OAuthError("invalid_client", "The program that sent you here was removed from this gateway meanwhile")
    places = await services.places(seen.user)
    if not places:
        return message_page(
            "No tenant", "You belong to no tenant that is in use. Ask an owner or operator to add you.", status=403
        )
    return Asking(seen, seen.user, token, pending, client, read_target(pending.redirect_uri), places)


async def _previous(services: AuthorizationServer, asking: Asking) -> GrantRecord | None:
    """What this person gave this client last, in whichever tenant."""
    return await services.grants.latest(user=asking.user.id, client=asking.client.key, issuer=asking.visit.address)


def _of(place: Place, grant: GrantRecord | None) -> GrantRecord | None:
    return grant if grant is not None and grant.tenant == place.tenant.id else None


def _place(asking: Asking, tenant: str | None) -> Place | None:
    return next((place for place in asking.places if place.tenant.id == tenant), None)


async def _refuse(services: AuthorizationServer, asking: Asking) -> Response:
    pending = await services.authorizations.take_pending(asking.pending.id, time.time())
    if pending is None:
        return message_page("Answered already", "This question was answered before. Nothing else was changed.")
    await services.note("consent.refuse", actor=asking.user.id, target=asking.client.key)
    return back_to_client(
        pending.redirect_uri,
        issuer=pending.issuer,
        state=pending.state,
        error="access_denied",
        error_description="the person refused",
    )


async def _allow(services: AuthorizationServer, asking: Asking, place: Place, choice: Choice) -> Response:
    now = time.time()
    pending = await services.authorizations.take_pending(asking.pending.id, now)
    if pending is None:
        return message_page("Answered already", "This question was answered before. Nothing else was changed.")
    if choice.new_layer is not None:
        await services.audit.append(
            tenant=place.tenant.id,
            actor=asking.user.id,
            action="layer.add",
            target=choice.new_layer,
            layers=[choice.new_layer],
        )
    client = asking.client
    grant = GrantRecord(
        id=f"gr-{secrets.token_hex(12)}",
        user=asking.user.id,
        tenant=place.tenant.id,
        client=client.key,
        client_id=client.id,
        client_name=client.name,
        host=asking.target.host,
        issuer=pending.issuer,
        asked=pending.scopes,
        scopes=sorted(choice.scopes),
        read_layers=sorted(choice.read),
        write_layers=sorted(choice.write),
        write_layer=choice.write_layer,
        created_at=now,
        last_used=now,
        expires_at=now + UNUSED_GRANT_SECONDS,
    )
    code = new_token()
    await services.clients.remember(
        key=client.key, client_id=client.id, issuer=client.issuer, name=client.name, host=asking.target.host, now=now
    )
    await services.grants.add(grant)
    await services.authorizations.add_code(
        CodeRecord(
            id=digest(code),
            grant=grant.id,
            client=client.key,
            issuer=pending.issuer,
            redirect_uri=pending.redirect_uri,
            redirect_given=pending.redirect_given,
            challenge=pending.challenge,
            expires_at=now + services.settings.oauth.code_seconds,
            kept_until=now + KEEP_CODE_SECONDS,
        )
    )
    await services.note(
        "consent.allow", actor=asking.user.id, tenant=place.tenant.id, target=grant.id, client=client.key
    )
    return back_to_client(pending.redirect_uri, issuer=pending.issuer, state=pending.state, code=code)


async def _show(
    services: AuthorizationServer,
    asking: Asking,
    place: Place,
    offered: Offer,
    choice: Choice,
    *,
    news: Collection[str] = (),
    problem: str = "",
) -> Response:
    target = asking.target
    origin = "http:" if target.host == "[::1]" else target.origin  # a content policy cannot name an IPv6 address
    response = page(
        "consent",
        status=400 if problem else 200,
        target=origin,
        client=asking.client,
        target_host=target.host,
        target_kind=target.kind,
        verified=services.policy.verified(target.uri),
        email=asking.user.email,
        places=asking.places,
        place=place,
        token=asking.token,
        csrf=await asking.visit.csrf(asking.form),
        asks_more=bool(news),
        **boxes(offered, choice, news=news),
        problem=problem,
    )
    asking.visit.keep(response)
    return response

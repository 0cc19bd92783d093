"""For owners: layers, service accounts, connections, usage and audit of a tenant."""

from __future__ import annotations

import time
from typing import Any

from starlette.responses import Response

from app.access.layers import allowed_scopes
from app.console.desk import Desk
from app.console.once import Shown
from app.console.tokens import ordered_names
from app.console.trail import trail
from app.context import Role, layer_name
from app.errors import CallError, NotFound
from app.oauth.choosing import boxes
from app.oauth.consent import Choice, Offer, as_ticked, read_choice

__all__ = [
    "add_layer",
    "audit",
    "connections",
    "disconnect",
    "layers",
    "make_service",
    "new_service",
    "remove_service",
    "renew_service",
    "revoke_token",
    "services",
    "usage",
]


async def layers(desk: Desk) -> Response:
    """The layers of the tenant, and who holds each."""
    tenant = desk.tenant.tenant
    members = await desk.console.accounts.users.members(tenant.id)
    rows = [
        {
            "name": layer,
            "readers": sum(member.may_read(layer) for member in members),
            "writers": sum(member.may_write(layer) for member in members),
        }
        for layer in sorted(tenant.all_layers())
    ]
    return desk.show("layers", rows=rows, form=desk.form)


async def add_layer(desk: Desk) -> Response:
    """Make a layer."""
    await desk.console.accounts.add_layer(desk.tenant.tenant, desk.form.one("layer") or "", actor=desk.user.id)
    return desk.go(_path(desk, "layers"), "added")


async def services(desk: Desk) -> Response:
    """The tenant's service accounts."""
    return desk.show("services", rows=await desk.console.service_accounts.of_tenant(desk.tenant.tenant.id))


async def new_service(desk: Desk) -> Response:
    """The form for a service account."""
    offered = _offer(desk)
    first = Choice(frozenset({"memory:read"}), frozenset({""}), frozenset(), "")
    choice = as_ticked(desk.form, offered) if desk.problem else first
    return desk.show("new_service", choosing=boxes(offered, choice), name=desk.form.one("name") or "")


async def make_service(desk: Desk) -> Response:
    """Make a service account and show its secret once."""
    tenant = desk.tenant.tenant
    choice = read_choice(desk.form, _offer(desk))
    record, secret = await desk.console.service_accounts.create(
        tenant.id,
        desk.form.one("name") or "",
        scopes=sorted(choice.scopes),
        read_layers=[layer_name(layer) for layer in sorted(choice.read)],
        write_layers=ordered_names(choice),
        actor=desk.user.id,
    )
    return await _show_secret(desk, record.name, record.id, secret)


async def renew_service(desk: Desk) -> Response:
    """Give a service account a new secret; the old one ends."""
    tenant, account = desk.tenant.tenant.id, desk.part("account")
    found = {each.id: each for each in await desk.console.service_accounts.of_tenant(tenant)}
    secret = await desk.console.service_accounts.renew(tenant, account, desk.user.id)
    return await _show_secret(desk, found[account].name if account in found else account, account, secret)


async def remove_service(desk: Desk) -> Response:
    """Delete a service account."""
    await desk.console.service_accounts.remove(desk.tenant.tenant.id, desk.part("account"), desk.user.id)
    return desk.go(_path(desk, "services"), "removed")


async def connections(desk: Desk) -> Response:
    """What members connected to the tenant: programs and personal tokens."""
    console, tenant = desk.console, desk.tenant.tenant.id
    grants = await console.services.grants.of_tenant(tenant)
    tokens = [token for token in await console.accounts.tokens.of_tenant(tenant) if token.alive]
    subjects = {grant.user for grant in grants} | {token.user for token in tokens}
    users = await console.accounts.users.named(subjects)
    people = {each: users[each].email if each in users else "someone who is gone" for each in subjects}
    return desk.show("connections", grants=grants, tokens=tokens, people=people)


async def disconnect(desk: Desk) -> Response:
    """End a member's connection to this tenant."""
    grant = await desk.console.services.grants.find(desk.part("grant"))
    if grant is None or grant.tenant != desk.tenant.tenant.id or grant.revoked_at is not None:
        raise NotFound("There is no such connection to this tenant. Nothing was changed.")
    await desk.console.services.grants.revoke(grant.id, reason="an owner disconnected it", now=time.time())
    await desk.note("grant.revoke", tenant=grant.tenant, target=grant.id, reason="an owner disconnected it")
    return desk.go(_path(desk, "connections"), "disconnected")


async def revoke_token(desk: Desk) -> Response:
    """End a member's token for this tenant."""
    tokens = await desk.console.accounts.tokens.of_tenant(desk.tenant.tenant.id)
    if desk.part("token") not in {token.id for token in tokens}:
        raise NotFound("There is no such token for this tenant. Nothing was changed.")
    await desk.console.accounts.revoke_token(desk.part("token"), actor=desk.user.id)
    return desk.go(_path(desk, "connections"), "revoked")


async def usage(desk: Desk) -> Response:
    """What the tenant holds, against what it may."""
    tenant, limits = desk.tenant.tenant, desk.console.settings.limits
    held = None
    if desk.console.held is not None:
        try:
            held = await desk.console.held(tenant)
        except CallError:
            held = None  # counting took too long; the limits are worth showing all the same
    rows: list[dict[str, Any]] = []
    if held is not None:
        for title, number, own, default in (
            ("Entities", held[0], tenant.rules.quota_entities, limits.quota_entities),
            ("Relations", held[1], tenant.rules.quota_relations, limits.quota_relations),
        ):
            most = own or default
            rows.append({"title": title, "held": number, "most": most, "percent": min(100, round(100 * number / most))})
    return desk.show(
        "usage",
        rows=rows,
        calls=tenant.rules.calls_per_minute or limits.calls_per_minute,
        burst=tenant.rules.burst or limits.burst,
        members=len(await desk.console.accounts.users.members(tenant.id)),
        layers=len(tenant.layers),
        services=len(await desk.console.service_accounts.of_tenant(tenant.id)),
    )


async def audit(desk: Desk) -> Response:
    """The tenant's audit, as far as the owner's own layers reach (partition rule 18)."""
    return await trail(desk, tenant=desk.tenant.tenant, readable=desk.tenant.membership.read_layers)


def _path(desk: Desk, page: str) -> str:
    return f"/console/t/{desk.tenant.tenant.id}/{page}"


def _offer(desk: Desk) -> Offer:
    """What a service account can be given: no operating of the gateway, and layers by name."""
    named = tuple(sorted(desk.tenant.tenant.all_layers()))
    scopes = allowed_scopes(Role.MEMBER, operator=False)
    ordered = tuple(scope for scope in desk.tenant.scopes if scope in scopes)
    return Offer(tuple(sorted(ordered)), named, named, every_read=False, every_write=False, names_layers=True)


async def _show_secret(desk: Desk, name: str, account: str, secret: str) -> Response:
    return await desk.show_once(
        Shown(
            title=f"The secret of {name}",
            about="The client id, then the secret. The program sends both to /token, as client_credentials. "
            "The secret is kept nowhere: copy it now.",
            lines=[account, secret],
            back=_path(desk, "services"),
            tenant=desk.tenant.tenant.name,
        )
    )

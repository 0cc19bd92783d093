"""For operators: tenants and their limits, signing keys, one-time links, the audit of everything."""

from __future__ import annotations

import time
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from app.access.rules import LIMITS, set_limits
from app.console.desk import Desk
from app.console.once import Shown
from app.console.rights import judge_over_operators
from app.console.trail import trail
from app.context import EVERY_LAYER, Role
from app.errors import InvalidInput, NotFound
from app.oauth.service import issue_sign_in_link
from app.store.control.tenants import Tenant, TenantState
from app.store.control.users import User

__all__ = [
    "audit",
    "delete_tenant",
    "give_link",
    "invite_owner",
    "keys",
    "limit_tenant",
    "make_tenant",
    "people",
    "rename_tenant",
    "resume_tenant",
    "rotate_keys",
    "suspend_tenant",
    "tenant",
    "tenants",
]

TITLES: Final = {
    "calls_per_minute": "Calls a minute",
    "burst": "Calls at once (burst)",
    "quota_entities": "Entities",
    "quota_relations": "Relations",
    "exports_kept": "Exports of each person that stay",
    "export_days": "Days that an export stays (0: for ever)",
}
HOME: Final = "/console/gateway/tenants"
PAGE: Final = 50


async def tenants(desk: Desk) -> Response:
    """Every tenant that is there, those that are being erased, and the form for another."""
    wanted = (desk.query.one("name") or "").strip()
    after = (desk.query.one("after") or "").casefold()
    everything = await desk.console.accounts.tenants.all()
    found = [
        each
        for each in everything
        if each.state is not TenantState.DELETED
        and wanted.casefold() in each.name.casefold()
        and each.name.casefold() > after
    ]
    found.sort(key=lambda each: each.name.casefold())
    shown = found[:PAGE]
    counts = await desk.console.accounts.users.count_members(each.id for each in shown)
    return desk.show(
        "gateway_tenants",
        rows=[{"tenant": each, "members": counts.get(each.id, 0)} for each in shown],
        leaving=sorted(each.name for each in everything if each.state is TenantState.DELETED),
        wanted=wanted,
        more=urlencode({"name": wanted, "after": shown[-1].name}) if len(found) > PAGE else "",
        form=desk.form,
    )


async def make_tenant(desk: Desk) -> Response:
    """Make a tenant; its page leads on to its first owner."""
    made = await desk.console.accounts.create_tenant(desk.form.one("name") or "", actor=desk.user.id)
    return desk.go(f"{HOME}/{made.id}", "added")


async def tenant(desk: Desk) -> Response:
    """One tenant: state, name and limits. Its records stay its own."""
    found = await _tenant(desk)
    members = await desk.console.accounts.users.members(found.id)
    owners = await desk.console.accounts.users.named(each.user for each in members if each.role is Role.OWNER)
    return desk.show(
        "gateway_tenant",
        about=found,
        members=len(members),
        owners=sorted(owner.email for owner in owners.values()),
        limits=_limits(desk, found),
    )


async def invite_owner(desk: Desk) -> Response:
    """A link that makes whoever follows it an owner of the tenant: how a new tenant gets its first one."""
    found = await _tenant(desk)
    if found.admin:
        judge_over_operators(desk.standing)
    link = await desk.console.invitations.invite(
        found.id, Role.OWNER, email=desk.form.one("email"), actor=desk.user.id, address=desk.visit.address
    )
    return await desk.show_once(
        Shown(
            title="An owner's invitation",
            about=f"Give this link to the person who shall own {found.name}. It works once, within seven days.",
            lines=[link],
            back=f"{HOME}/{found.id}",
            tenant=found.name,
        )
    )


async def rename_tenant(desk: Desk) -> Response:
    """Give a tenant another name."""
    found = await _tenant(desk)
    await desk.console.accounts.rename_tenant(found, desk.form.one("name") or "", actor=desk.user.id)
    return desk.go(f"{HOME}/{found.id}", "renamed")


async def suspend_tenant(desk: Desk) -> Response:
    """Refuse everything of a tenant for now."""
    return await _set_state(desk, TenantState.SUSPENDED, "suspended")


async def resume_tenant(desk: Desk) -> Response:
    """Let a tenant go on."""
    return await _set_state(desk, TenantState.ACTIVE, "resumed")


async def delete_tenant(desk: Desk) -> Response:
    """Delete a tenant for good, once its name was typed."""
    found = await _tenant(desk)
    if desk.form.one("confirm") != found.name:
        raise InvalidInput(f"Type the tenant's name, {found.name}, to delete it. Nothing was changed.")
    await desk.console.accounts.set_tenant_state(found, TenantState.DELETED, actor=desk.user.id)
    return desk.go(HOME, "deleted")


async def limit_tenant(desk: Desk) -> Response:
    """Set limits of one tenant; an empty field brings back what is configured."""
    found = await _tenant(desk)
    changes: dict[str, float | None] = {name: _number(desk.form.one(name)) for name in LIMITS}
    await set_limits(desk.console.accounts, found, changes, actor=desk.user.id)
    return desk.go(f"{HOME}/{found.id}", "limits")


async def keys(desk: Desk) -> Response:
    """The signing keys."""
    return desk.show(
        "keys", keys=sorted((await desk.console.vault.ring()).keys, key=lambda key: -key.created), now=time.time()
    )


async def rotate_keys(desk: Desk) -> Response:
    """Make the next signing key."""
    await desk.console.vault.rotate()
    await desk.note("key.rotate")
    return desk.go("/console/gateway/keys", "rotated")


async def people(desk: Desk) -> Response:
    """Find an account by its address."""
    email = desk.query.one("email") or desk.form.one("email") or ""
    found = await desk.console.accounts.users.by_email(email) if email else None
    return desk.show("people", email=email, found=found, places=await _places(desk, found))


async def give_link(desk: Desk) -> Response:
    """A link that signs a person in once: for who lost every other way in."""
    found = await desk.console.accounts.users.by_email(desk.form.one("email") or "")
    if found is None:
        raise InvalidInput("There is no account with this address. Nothing was changed.")
    if await desk.console.services.is_operator(found.id):
        judge_over_operators(desk.standing)
    link = await issue_sign_in_link(desk.console.services, found.id, desk.visit.address, actor=desk.user.id)
    return await desk.show_once(
        Shown(
            title="A one-time sign-in link",
            about=f"Give this link to {found.email}, and to nobody else: it signs in once, within a day, and lets them "
            "set a new password.",
            lines=[link],
            back="/console/gateway/people",
        )
    )


async def audit(desk: Desk) -> Response:
    """The audit of every tenant and of the gateway; reading one tenant's stands in that tenant's own."""
    wanted = desk.query.one("tenant")
    if wanted is None:
        return await trail(desk, tenant=None, everywhere=True)
    found = await desk.console.accounts.tenants.by_name(wanted)
    if found is None:
        return await trail(desk.troubled("There is no tenant of this name.", 404), tenant=None, everywhere=True)
    await desk.note("audit.search", tenant=found.id, target=found.id)
    return await trail(desk, tenant=found, readable={EVERY_LAYER}, everywhere=True)


async def _tenant(desk: Desk) -> Tenant:
    found = await desk.console.accounts.tenants.by_id(desk.part("subject"))
    if found is None or found.state is TenantState.DELETED:
        raise NotFound("There is no such tenant. Nothing was changed.")
    return found


async def _set_state(desk: Desk, state: TenantState, said: str) -> Response:
    found = await _tenant(desk)
    await desk.console.accounts.set_tenant_state(found, state, actor=desk.user.id)
    return desk.go(f"{HOME}/{found.id}", said)


def _limits(desk: Desk, found: Tenant) -> list[dict[str, Any]]:
    configured = desk.console.settings.limits
    return [
        {
            "name": name,
            "title": TITLES[name],
            "own": getattr(found.rules, name),
            "default": getattr(configured, name),
            "given": desk.form.one(name) if desk.problem else None,
            "least": LIMITS[name][0],
            "most": LIMITS[name][1],
        }
        for name in LIMITS
    ]


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(f"{text[:20]!r} is no number. Nothing was changed.") from error


async def _places(desk: Desk, found: User | None) -> list[dict[str, Any]]:
    rows = []
    for membership in await desk.console.accounts.users.memberships(found.id) if found is not None else []:
        tenant = await desk.console.accounts.tenants.by_id(membership.tenant)
        if tenant is not None and tenant.state is not TenantState.DELETED:
            rows.append({"tenant": tenant, "membership": membership})
    return rows

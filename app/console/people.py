"""For owners: who belongs to the tenant, as what, and who is invited."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from app.console.desk import Desk
from app.console.once import Shown
from app.context import EVERY_LAYER, Role, layer_name
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.oauth.login.link_page import issue_link_for_member
from app.store.control.users import Membership, User

__all__ = [
    "change_member",
    "invitations",
    "invite",
    "link_member",
    "member",
    "members",
    "remove_member",
    "role_of",
    "withdraw",
]


async def members(desk: Desk) -> Response:
    """Everyone who belongs to the tenant, owners first."""
    found = await desk.console.accounts.users.members(desk.tenant.tenant.id)
    users = await desk.console.accounts.users.named(membership.user for membership in found)
    rows = [(users[membership.user], membership) for membership in found if membership.user in users]
    order = list(Role)
    rows.sort(key=lambda row: (order.index(row[1].role), row[0].email.casefold()))
    return desk.show("members", rows=rows)


async def member(desk: Desk) -> Response:
    """One member: role and layers, to be changed or ended."""
    user, membership = await _member(desk)
    return desk.show("member", member=user, membership=membership, layers=_layers(desk, membership), roles=list(Role))


async def change_member(desk: Desk) -> Response:
    """Change role and layers."""
    user, _ = await _member(desk)
    role = role_of(desk.form.one("role"))
    read, write = desk.form.many("read"), desk.form.many("write")
    if not read:
        raise InvalidInput("Tick at least one layer that this member may read, or remove the member.")
    await desk.console.accounts.change_user(
        user,
        desk.tenant.tenant,
        role=role,
        read_layers=_held(role, read),
        write_layers=[] if role is Role.READER else _held(role, write),
        actor=desk.user.id,
    )
    return desk.go(f"/console/t/{desk.tenant.tenant.id}/members", "changed")


async def link_member(desk: Desk) -> Response:
    """A link that signs a member in once: for who lost every other way in."""
    user, _ = await _member(desk)
    services, tenant = desk.console.services, desk.tenant.tenant
    try:
        link = await issue_link_for_member(services, tenant.id, user.id, desk.visit.address, actor=desk.user.id)
    except Forbidden as refusal:
        raise InvalidInput(refusal.message) from refusal
    return await desk.show_once(
        Shown(
            title="A one-time sign-in link",
            about=f"Give this link to {user.email}, and to nobody else: it signs in once, within a day, and lets them "
            "set a new password.",
            lines=[link],
            back=f"/console/t/{tenant.id}/members",
        )
    )


async def remove_member(desk: Desk) -> Response:
    """End a membership."""
    user, _ = await _member(desk)
    await desk.console.accounts.remove_user(user, desk.tenant.tenant, actor=desk.user.id)
    if user.id == desk.user.id:
        return desk.go("/console/tenants", "removed")
    return desk.go(f"/console/t/{desk.tenant.tenant.id}/members", "removed")


async def invitations(desk: Desk) -> Response:
    """Open invitations, and the form for another."""
    found = await desk.console.invitations.of_tenant(desk.tenant.tenant.id)
    users = await desk.console.accounts.users.named(invitation.inviter for invitation in found)
    rows = [
        {
            "invitation": invitation,
            "inviter": users[invitation.inviter].email if invitation.inviter in users else "an operator",
        }
        for invitation in found
    ]
    return desk.show(
        "invitations",
        rows=rows,
        layers=_layers(desk, None),
        roles=[Role.MEMBER, Role.READER, Role.OWNER],
        form=desk.form,
    )


async def invite(desk: Desk) -> Response:
    """Make an invitation and show its link once."""
    tenant, form = desk.tenant.tenant, desk.form
    role = role_of(form.one("role"))
    if not form.many("read") and role is not Role.OWNER:
        raise InvalidInput("Tick at least one layer that the new member may read. Nothing was changed.")
    owner = role is Role.OWNER
    link = await desk.console.invitations.invite(
        tenant.id,
        role,
        read_layers=None if owner else _held(role, form.many("read")),
        write_layers=None if owner else [] if role is Role.READER else _held(role, form.many("write")),
        email=form.one("email"),
        actor=desk.user.id,
        address=desk.visit.address,
    )
    return await desk.show_once(
        Shown(
            title="Your invitation link",
            about=f"Give this link to the person you invite. It makes one person {role.value} of {tenant.name}, within "
            "seven days.",
            lines=[link],
            back=f"/console/t/{tenant.id}/invitations",
            tenant=tenant.name,
        )
    )


async def withdraw(desk: Desk) -> Response:
    """Make an invitation's link worthless."""
    await desk.console.invitations.withdraw(desk.tenant.tenant.id, desk.part("invitation"), desk.user.id)
    return desk.go(f"/console/t/{desk.tenant.tenant.id}/invitations", "withdrawn")


def role_of(name: str | None) -> Role:
    """The role that a form names.

    Raises:
        InvalidInput: there is none of that name.
    """
    try:
        return Role(name or "")
    except ValueError as error:
        raise InvalidInput("Choose a role: owner, member or reader. Nothing was changed.") from error


async def _member(desk: Desk) -> tuple[User, Membership]:
    """The member that the path names.

    Raises:
        NotFound: nobody of this tenant; the same for users of other tenants and for ids that never were.
    """
    membership = await desk.console.accounts.users.membership(desk.part("user"), desk.tenant.tenant.id)
    user = await desk.console.accounts.users.by_id(desk.part("user")) if membership is not None else None
    if membership is None or user is None:
        raise NotFound("There is no such member in this tenant. Nothing was changed.")
    return user, membership


def _layers(desk: Desk, membership: Membership | None) -> list[dict[str, Any]]:
    """Rows of boxes; for a new member tenant-wide is ticked."""
    read = membership.read_layers if membership else frozenset({""})
    write = membership.write_layers if membership else frozenset({""})
    if desk.problem:
        read = frozenset("" if name == layer_name("") else name for name in desk.form.many("read"))
        write = frozenset("" if name == layer_name("") else name for name in desk.form.many("write"))
    rows = []
    if membership is not None:
        rows.append(_row(EVERY_LAYER, "Every layer, later ones too", "for owners alone", read, write))
    for layer in sorted(desk.tenant.tenant.all_layers()):
        about = "" if layer else "what everyone in the tenant shares"
        rows.append(_row(layer, layer or "Tenant-wide", about, read, write))
    return rows


def _row(layer: str, title: str, about: str, read: frozenset[str], write: frozenset[str]) -> dict[str, Any]:
    return {
        "value": layer_name(layer),
        "title": title,
        "about": about,
        "read": layer in read,
        "write": layer in write,
        "writable": True,
    }


def _held(role: Role, names: list[str]) -> list[str]:
    """What was ticked, as far as the role can hold it; whoever writes somewhere must be able to.

    Raises:
        Conflict: every layer, for someone who is no owner.
    """
    if EVERY_LAYER in names and role is not Role.OWNER:
        raise Conflict("Only an owner holds every layer, later ones too. Untick that and tick the layers by name.")
    return names

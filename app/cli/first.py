"""The first records of a database: the operators' tenant, the first tenant, and an owner who belongs to both."""

from __future__ import annotations

from app.context import Role
from app.settings import Settings
from app.store.control.tenants import HOME_TENANT, Tenant, Tenants
from app.store.control.users import User, Users
from app.store.database import Database

__all__ = ["FIRST_OWNER", "ensure_first_owner", "ensure_first_tenants", "make_operator_if_first"]

FIRST_OWNER = "owner@graphkeep.example"
"""Account of the first owner where no address was given; `.example` can never receive mail (RFC 2606)."""


async def ensure_first_tenants(database: Database, settings: Settings) -> tuple[Tenant, Tenant]:
    """The operators' tenant and `home`, made if they are missing; two processes at once agree."""
    tenants = Tenants(database.control)
    return await tenants.ensure(settings.oauth.admin_tenant, admin=True), await tenants.ensure(HOME_TENANT)


async def make_operator_if_first(database: Database, settings: Settings, user: User, tenant: Tenant) -> bool:
    """The first owner of `home` becomes an operator too, as long as there is none; True if that was done."""
    admin, home = await ensure_first_tenants(database, settings)
    users = Users(database.control)
    if tenant.id != home.id or await users.members(admin.id):
        return False
    await users.put_membership(user.id, admin.id, Role.OWNER)
    return True


async def ensure_first_owner(database: Database, settings: Settings, email: str | None) -> User:
    """Make what is missing and return the owner: the one named, else the first there is, else a new one.

    Safe from two processes at once; a later start changes nothing.
    """
    users = Users(database.control)
    admin, home = await ensure_first_tenants(database, settings)
    found = await _first_owner(users, home) if email is None else None
    if found is not None:
        # Whoever owns `home` by now is not made an operator behind the operators' back.
        return found
    owner = await users.ensure(email or FIRST_OWNER)
    for tenant in (admin, home):
        if await users.membership(owner.id, tenant.id) is None:
            await users.put_membership(owner.id, tenant.id, Role.OWNER)
    return owner


async def _first_owner(users: Users, home: Tenant) -> User | None:
    owners = [member.user for member in await users.members(home.id) if member.role is Role.OWNER]
    found = [user for user in [await users.by_id(subject) for subject in owners] if user is not None]
    return min(found, key=lambda user: (user.created, user.id), default=None)

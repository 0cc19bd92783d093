"""What an operator does on the command line, with answers that a script can read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from app.access.accounts import Accounts
from app.access.erasing import Erasing
from app.access.rules import LIMITS, set_behaviour, set_limits, set_single_valued
from app.access.service import accounts_of, erasing_of
from app.cli.database import connected, reachable, running
from app.cli.signin import sign_in_links
from app.context import Role, layer_name
from app.errors import InvalidInput
from app.graph.vocabulary import relation_name
from app.memory.timeline import SINGLE_VALUED
from app.settings import Settings
from app.store.control.tenants import HOME_TENANT, Tenant, TenantState
from app.store.control.tokens import PersonalToken
from app.store.control.users import Membership, User
from app.store.database import Database

__all__ = ["Administration", "administration"]


@asynccontextmanager
async def administration(settings: Settings) -> AsyncIterator[Administration]:
    """The commands, on the database that the settings lead to.

    Raises:
        StartError: there is no way to it.
    """
    # No gateway of this home runs on the database that this command is about to start: nobody has to be waited for.
    alone = settings.store.neo4j_uri is None and running(settings) is None
    async with reachable(settings) as used, connected(used) as database:
        yield Administration(database, used, alone=alone)


class Administration:
    """Tenants, members and personal tokens. Errors are those of :class:`~app.access.accounts.Accounts`."""

    def __init__(self, database: Database, settings: Settings, *, alone: bool = False) -> None:
        self.database = database
        self.settings = settings
        self._accounts: Accounts = accounts_of(settings, database)
        self._erasing: Erasing = erasing_of(settings, database, alone=alone)

    async def add_tenant(self, name: str) -> dict[str, Any]:
        """Make a tenant."""
        tenant = await self._accounts.create_tenant(name)
        return {"id": tenant.id, "name": tenant.name}

    async def suspend_tenant(self, name: str) -> dict[str, Any]:
        """Refuse a tenant's calls."""
        return await self._set_state(name, TenantState.SUSPENDED)

    async def resume_tenant(self, name: str) -> dict[str, Any]:
        """Let a suspended tenant go on."""
        return await self._set_state(name, TenantState.ACTIVE)

    async def rename_tenant(self, name: str, new: str) -> dict[str, Any]:
        """Give a tenant another name."""
        before = await self._accounts.tenant(name)
        renamed = await self._accounts.rename_tenant(before, new)
        return {"id": renamed.id, "from": before.name, "name": renamed.name}

    async def delete_tenant(self, name: str, confirm: str, *, shown: Callable[[str], None]) -> dict[str, Any]:
        """Delete a tenant whose name was given twice, and erase all of it: with the signed certificate.

        ``shown`` is told what it waits for.

        Raises:
            InvalidInput: the second name is another.
        """
        if confirm == name and await self._accounts.tenants.by_name(name) is None and await self._erasing.pending(name):
            return await self._erased(name, shown)  # an erasure that was cut short goes on
        tenant = await self._accounts.tenant(name)
        if confirm != tenant.name:
            raise InvalidInput(f"--confirm must be {tenant.name!r}, the name of the tenant. Nothing was changed.")
        await self._accounts.set_tenant_state(tenant, TenantState.DELETED)
        return await self._erased(tenant.name, shown)

    async def _erased(self, name: str, shown: Callable[[str], None]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for tenant in await self._erasing.pending(name):
            made = {"id": tenant.id, "name": name, "state": "erased", **await self._erasing.erase(tenant, shown=shown)}
        return made

    async def add_layer(self, name: str, layer: str) -> dict[str, Any]:
        """Make a layer."""
        return self._layers(await self._accounts.add_layer(name, layer))

    async def layers(self, name: str) -> dict[str, Any]:
        """The layers of a tenant."""
        return self._layers(await self._accounts.tenant(name))

    async def limit_tenant(self, name: str, changes: Mapping[str, float | None]) -> dict[str, Any]:
        """Set limits of one tenant, where ``changes`` names any, and show them."""
        found = await set_limits(self._accounts, name, changes) if changes else await self._accounts.tenant(name)
        limits = {limit: getattr(found.rules, limit) for limit in LIMITS}
        return {"id": found.id, "name": found.name, "limits": limits}

    async def behaviour(self, name: str, changes: Mapping[str, float | None]) -> dict[str, Any]:
        """Set how the memory of a tenant behaves, where ``changes`` names any key, and show what is its own."""
        found = await set_behaviour(self._accounts, name, changes) if changes else await self._accounts.tenant(name)
        return {"id": found.id, "name": found.name, "behaviour": dict(found.rules.behaviour or ())}

    async def single_valued(self, name: str, relations: Sequence[str] | None, *, change: bool) -> dict[str, Any]:
        """Show, or ``change`` first, of which relations a newer value ends the older one; None: the usual list."""
        found = await self._accounts.tenant(name)
        if change:
            wanted = None if relations is None else [relation_name(each, field="relation") for each in relations]
            found = await set_single_valued(self._accounts, name, wanted)
        own = found.rules.single_valued
        shown = SINGLE_VALUED if own is None else own
        return {"id": found.id, "name": found.name, "single_valued": sorted(shown), "default": own is None}

    async def tenants(self) -> list[dict[str, Any]]:
        """Every tenant."""
        return [
            {"id": tenant.id, "name": tenant.name, "state": tenant.state.value, "admin": tenant.admin}
            for tenant in await self._accounts.tenants.all()
        ]

    async def add_user(
        self,
        email: str,
        tenant_name: str,
        role_name: str | None = None,
        *,
        read: Sequence[str] | None = None,
        write: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Make the account if it is new, the membership, and a sign-in link for each public address.

        Without a role a member stays what they are, and whoever is new becomes a member.
        The first owner of `home` becomes an operator too: somebody must be able to.
        """
        role = await self._role_in(email, tenant_name) if role_name is None else _role(role_name)
        operator = False
        if role is Role.OWNER and tenant_name.strip().casefold() == HOME_TENANT:
            operator = (await self._accounts.bootstrap(email)).created
        user, membership = await self._accounts.add_user(email, tenant_name, role, read_layers=read, write_layers=write)
        links = await sign_in_links(self.database, self.settings, user)
        shown = _member(user, membership)
        return {"tenant": tenant_name, **shown, "operator": operator, "signin": list(links.values())}

    async def change_user(
        self,
        email: str,
        tenant_name: str,
        *,
        role_name: str | None = None,
        read: Sequence[str] | None = None,
        write: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Change role or layers of a member, and show them; what is not named stays."""
        membership = await self._accounts.change_user(
            email,
            tenant_name,
            role=None if role_name is None else _role(role_name),
            read_layers=read,
            write_layers=write,
        )
        return {"tenant": tenant_name, **_member(await self._accounts.user(email), membership)}

    async def members(self, tenant_name: str) -> list[dict[str, Any]]:
        """Everyone who belongs to a tenant, by address."""
        tenant = await self._accounts.tenant(tenant_name)
        found = []
        for membership in await self._accounts.users.members(tenant.id):
            user = await self._accounts.users.by_id(membership.user)
            if user is not None:
                found.append(_member(user, membership))
        return sorted(found, key=lambda member: str(member["email"]))

    async def remove_user(self, email: str, tenant_name: str) -> dict[str, Any]:
        """End a membership, and with it every token of that user for the tenant."""
        await self._accounts.remove_user(email, tenant_name)
        return {"email": email, "tenant": tenant_name}

    async def create_token(
        self,
        email: str,
        tenant_name: str,
        *,
        scopes: Sequence[str] | None,
        read: Sequence[str] | None,
        write: Sequence[str] | None,
        days: int,
    ) -> dict[str, Any]:
        """Sign a personal token; it is in this answer and kept nowhere."""
        made = await self._accounts.create_token(
            email, tenant_name, scopes=scopes, read_layers=read, write_layers=write, days=days
        )
        return {"token": made.text, **await self._described(made.record)}

    async def tokens(self, email: str | None) -> list[dict[str, Any]]:
        """Tokens of one user or of all, oldest first, without their text."""
        return [await self._described(record) for record in await self._accounts.list_tokens(email)]

    async def revoke_token(self, token_id: str) -> dict[str, Any]:
        """End a token."""
        return await self._described(await self._accounts.revoke_token(token_id))

    async def _role_in(self, email: str, tenant_name: str) -> Role:
        tenant, user = await self._accounts.tenant(tenant_name), await self._accounts.users.by_email(email)
        held = None if user is None else await self._accounts.users.membership(user.id, tenant.id)
        return Role.MEMBER if held is None else held.role

    def _layers(self, tenant: Tenant) -> dict[str, Any]:
        return {"id": tenant.id, "name": tenant.name, "layers": _names(tenant.all_layers())}

    async def _set_state(self, name: str, state: TenantState) -> dict[str, Any]:
        tenant = await self._accounts.set_tenant_state(name, state)
        return {"id": tenant.id, "name": tenant.name, "state": tenant.state.value}

    async def _described(self, record: PersonalToken) -> dict[str, Any]:
        user = await self._accounts.users.by_id(record.user)
        tenant = await self._accounts.tenants.by_id(record.tenant)
        return {
            "id": record.id,
            "user": user.email if user else record.user,
            "tenant": tenant.name if tenant else record.tenant,
            "state": "valid" if record.alive else "revoked" if record.revoked else "expired",
            "created": _time(record.created),
            "expires": _time(record.expires),
            "used": None if record.used is None else _time(record.used),
            "scopes": list(record.scopes),
            "read_layers": _names(record.read_layers),
            "write_layers": _names(record.write_layers),
        }


def _member(user: User, membership: Membership) -> dict[str, Any]:
    return {
        "id": user.id,
        "email": user.email,
        "role": membership.role.value,
        "read_layers": _names(membership.read_layers),
        "write_layers": _names(membership.write_layers),
    }


def _names(layers: Iterable[str]) -> list[str]:
    return sorted(layer_name(layer) for layer in layers)


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError as error:
        raise InvalidInput(f"{name!r} is no role; there are owner, member and reader.", field="role") from error


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

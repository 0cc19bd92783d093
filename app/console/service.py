"""What the pages stand on: the stores and rules of the other rooms. The console decides nothing that they do not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from app.access.accounts import Accounts
from app.access.service_accounts import ServiceAccounts
from app.console.rights import Standing
from app.oauth.login.invitations import Invitations
from app.oauth.login.recovery import RecoveryCodes
from app.oauth.service import AuthorizationServer, Place
from app.oauth.vault import Vault
from app.store.control.passkeys import Passkeys
from app.store.control.tenants import Tenant, TenantState
from app.store.control.users import User
from app.store.database import Database

__all__ = ["Console", "Held"]

Held = Callable[[Tenant], Awaitable[tuple[int, int]]]
"""How many entities and relations a tenant holds at present."""


class Console:
    """One object for all pages; it keeps nothing between requests."""

    def __init__(
        self,
        database: Database,
        services: AuthorizationServer,
        accounts: Accounts,
        vault: Vault,
        *,
        held: Held | None = None,
    ) -> None:
        self.services = services
        self.accounts = accounts
        self.vault = vault
        self.settings = services.settings
        self.service_accounts = ServiceAccounts(database.control)
        self.passkeys = Passkeys(database.control)
        self.recovery = RecoveryCodes(services)
        self.invitations = Invitations(services)
        self.shown = services.shown
        self.held = held

    async def standing(self, user: User) -> Standing:
        """What the person is, everywhere, at this moment."""
        places = []
        for membership in await self.services.users.memberships(user.id):
            tenant = await self.services.tenants.by_id(membership.tenant)
            if tenant is not None and tenant.state is not TenantState.DELETED:
                places.append(Place(tenant, membership))
        places.sort(key=lambda place: (place.tenant.admin, place.tenant.name.casefold(), place.tenant.id))
        return Standing(user, tuple(places))

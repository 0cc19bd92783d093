"""Invitations: a link that makes whoever accepts it a member of a tenant."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final

from app.access.accounts import COMMAND
from app.access.grants import layers_from_names
from app.context import EVERY_LAYER, TENANT_WIDE, Role
from app.errors import Conflict, InvalidInput, NotFound
from app.oauth.secrets import digest, new_token
from app.oauth.service import AuthorizationServer
from app.store.control.invitations import LARGEST_NUMBER, Invitation
from app.store.control.tenants import TenantState
from app.store.control.users import User, check_email, check_layers, default_layers

__all__ = ["INVITATION_SECONDS", "Invitations"]

INVITATION_SECONDS: Final = 7 * 24 * 3600


class Invitations:
    """Makes, lists, withdraws and accepts invitations. Whoever calls has checked that ``actor`` may."""

    def __init__(self, services: AuthorizationServer) -> None:
        self._services = services
        self._store = services.invitations

    async def invite(
        self,
        tenant_id: str,
        role: Role,
        *,
        read_layers: Sequence[str] | None = None,
        write_layers: Sequence[str] | None = None,
        email: str | None = None,
        actor: str = COMMAND,
        address: str,
    ) -> str:
        """A link, valid once and for seven days at the public address ``address``; it is shown once.

        Layers as people write them, None for those of the role. With ``email`` only the account of that address can
        accept. An invitation ends with the inviter's own right to invite.

        Raises:
            InvalidInput: no e-mail address, a bad layer name, layers that the role cannot hold, or a foreign address.
            NotFound: there is no such tenant. Conflict: the tenant has too many open invitations.
        """
        services = self._services
        if address not in services.addresses:
            raise InvalidInput(f"{address} is none of the public addresses: {', '.join(services.addresses)}.")
        tenant = await services.tenants.by_id(tenant_id)
        if tenant is None or tenant.state is TenantState.DELETED:
            raise NotFound("there is no such tenant.")
        default_read, default_write = default_layers(role)
        read = default_read if read_layers is None else frozenset(layers_from_names(read_layers))
        write = default_write if write_layers is None else frozenset(layers_from_names(write_layers))
        check_layers(role, read, write)
        token, now = new_token(), time.time()
        invitation = Invitation(
            id=f"in-{secrets.token_hex(12)}",
            tenant=tenant.id,
            issuer=address,
            role=role,
            read_layers=sorted(read),
            write_layers=sorted(write),
            email=None if email is None else check_email(email),
            inviter=actor,
            created_at=now,
            expires_at=now + INVITATION_SECONDS,
        )
        if not await self._store.add(invitation, digest(token)):
            raise Conflict(
                f"there are {LARGEST_NUMBER} open invitations into this tenant; withdraw some. Nothing was changed."
            )
        await services.note("invitation.make", actor=actor, tenant=tenant.id, target=invitation.id, role=role.value)
        return f"{address}/invitation?token={token}"

    async def of_tenant(self, tenant_id: str) -> list[Invitation]:
        """The open invitations into a tenant, oldest first."""
        return await self._store.of_tenant(tenant_id, time.time())

    async def withdraw(self, tenant_id: str, invitation_id: str, actor: str = COMMAND) -> None:
        """Make a link worthless.

        Raises:
            NotFound: the tenant has no such open invitation.
        """
        if not await self._store.withdraw(tenant_id, invitation_id):
            raise NotFound("there is no such open invitation into this tenant. Nothing was changed.")
        await self._services.note("invitation.withdraw", actor=actor, tenant=tenant_id, target=invitation_id)

    async def find(self, token: str, address: str) -> Invitation | None:
        """The invitation behind a link opened at ``address``, while its inviter may still invite."""
        found = await self._store.find(digest(token), issuer=address, now=time.time())
        return found if found is not None and await self._still_meant(found) else None

    async def accept(self, token: str, invitation: Invitation, user: User) -> bool:
        """Use the link up and make ``user`` a member; False if it was used or withdrawn meanwhile.

        Raises:
            Conflict: the user is a member already, and stays what they are; the link stays usable.
            InvalidInput: the tenant has no room for the layers that it names; the link stays usable.
        """
        services = self._services
        if await services.users.membership(user.id, invitation.tenant) is not None:
            raise Conflict("you are a member already. Nothing was changed.")
        if not await self._take(token, invitation):
            return False
        await self._join(invitation, user)
        return True

    async def accept_as(self, token: str, invitation: Invitation, email: str, subject: str) -> User | None:
        """Use the link up and make an account of ``email`` with the id ``subject``, a member at once; None if the
        link was used or withdrawn meanwhile.

        Raises:
            Conflict: there is an account of this address since a moment ago; the link is used up.
            InvalidInput: as :meth:`accept`.
        """
        if not await self._take(token, invitation):
            return None
        user = await self._services.users.create(email, subject)
        await self._join(invitation, user)
        return user

    async def _take(self, token: str, invitation: Invitation) -> bool:
        named = {*invitation.read_layers, *invitation.write_layers} - {EVERY_LAYER, TENANT_WIDE}
        if named:  # before the link is used up: a tenant may have no room for more
            await self._services.tenants.add_layers(invitation.tenant, named)
        return await self._store.take(digest(token), issuer=invitation.issuer, now=time.time())

    async def _join(self, invitation: Invitation, user: User) -> None:
        services = self._services
        read, write = invitation.read_layers, invitation.write_layers
        await services.users.put_membership(
            user.id, invitation.tenant, invitation.role, read_layers=read, write_layers=write
        )
        await services.note(
            "invitation.accept",
            actor=user.id,
            tenant=invitation.tenant,
            target=invitation.id,
            role=invitation.role.value,
        )

    async def _still_meant(self, invitation: Invitation) -> bool:
        tenant = await self._services.tenants.by_id(invitation.tenant)
        if tenant is None or not tenant.in_use:
            return False
        if invitation.inviter == COMMAND:
            return True
        own = await self._services.users.membership(invitation.inviter, tenant.id)
        if own is not None and own.role is Role.OWNER:
            return True
        # Operators invite into any tenant but their own, where only its owners do.
        return not tenant.admin and await self._services.is_operator(invitation.inviter)

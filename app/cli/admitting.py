"""Invitations, one-time links and accounts on the command line, with answers that a script can read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from app.access.accounts import COMMAND
from app.access.service import accounts_of
from app.cli.signin import authorization, sign_in_links
from app.context import Role, layer_name
from app.errors import InvalidInput, NotFound
from app.oauth.login.invitations import Invitations
from app.oauth.login.recovery import RecoveryCodes
from app.settings import Settings
from app.store.control.invitations import Invitation
from app.store.control.revocations import Revocation
from app.store.control.users import User
from app.store.database import Database

__all__ = ["Admitting"]


class Admitting:
    """How people get in. Every change is in the audit."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._accounts = accounts_of(settings, database)
        self._services = authorization(database, settings)
        self._invitations = Invitations(self._services)

    async def invite(
        self,
        tenant_name: str,
        role_name: str,
        *,
        email: str | None,
        read: Sequence[str] | None,
        write: Sequence[str] | None,
        address: str | None,
    ) -> dict[str, Any]:
        """A link that makes whoever accepts it a member; it is in this answer and kept nowhere.

        Raises:
            InvalidInput: no role, e-mail address, layer or public address. NotFound: no such tenant.
            Conflict: too many open invitations.
        """
        if role_name not in {role.value for role in Role}:
            raise InvalidInput(f"{role_name!r} is no role; there are owner, member and reader.", field="role")
        tenant = await self._accounts.tenant(tenant_name)
        where = address or self._settings.addresses[0]
        link = await self._invitations.invite(
            tenant.id,
            Role(role_name),
            read_layers=read,
            write_layers=write,
            email=email,
            actor=COMMAND,
            address=where,
        )
        made = await self._invitations.find(link.partition("?token=")[2], where)
        return {**(_described(made) if made else {}), "tenant": tenant.name, "link": link}

    async def invitations(self, tenant_name: str) -> list[dict[str, Any]]:
        """The open invitations into a tenant, oldest first.

        Raises:
            NotFound: no such tenant.
        """
        tenant = await self._accounts.tenant(tenant_name)
        return [_described(each) for each in await self._invitations.of_tenant(tenant.id)]

    async def withdraw(self, tenant_name: str, invitation: str) -> dict[str, Any]:
        """Make the link of an invitation worthless.

        Raises:
            NotFound: no such tenant or open invitation.
        """
        tenant = await self._accounts.tenant(tenant_name)
        await self._invitations.withdraw(tenant.id, invitation.strip(), COMMAND)
        return {"id": invitation.strip(), "tenant": tenant.name}

    async def link(self, email: str) -> dict[str, Any]:
        """A link for each public address that signs the person in once, within a day.

        Raises:
            NotFound: no such user.
        """
        user = await self._accounts.user(email)
        links = await sign_in_links(self._database, self._settings, user)
        return {"id": user.id, "email": user.email, "signin": list(links.values())}

    async def change_email(self, old: str, new: str) -> dict[str, Any]:
        """Give an account another address; it stays the same account.

        Raises:
            InvalidInput: no e-mail address. NotFound: no such user. Conflict: another account has the new address.
        """
        user = await self._accounts.user(old)
        changed = await self._services.users.change_email(user.id, new)
        if changed is None:
            raise NotFound("the account is gone. Nothing was changed.")
        await self._services.note("user.email", actor=COMMAND, target=user.id)
        return {"id": user.id, "email": changed.email, "from": user.email}

    async def sign_out(self, email: str, *, programs: bool = False) -> dict[str, Any]:
        """Sign every browser of a person out; with ``programs`` whatever acts for them in any tenant ends too.

        Raises:
            NotFound: no such user.
        """
        user = await self._accounts.user(email)
        ended = len(await self._services.browser.sessions_of(user.id, time.time()))
        await self._services.sign_out_everywhere(user.id)
        if programs:
            await self._services.revocations.revoke(Revocation.of_user(user.id))
            await self._services.note("user.disconnect", actor=COMMAND, target=user.id)
        await self._services.note("sign_out.everywhere", actor=COMMAND, target=user.id)
        return {"id": user.id, "email": user.email, "ended": ended}

    async def show(self, email: str) -> dict[str, Any]:
        """One account: its tenants and its ways to sign in.

        Raises:
            NotFound: no such user.
        """
        user = await self._accounts.user(email)
        return {"id": user.id, "email": user.email, "created": _moment(user.created / 1000), **await self._ways(user)}

    async def _ways(self, user: User) -> dict[str, Any]:
        services = self._services
        tenants = []
        for membership in await services.users.memberships(user.id):
            tenant = await services.tenants.by_id(membership.tenant)
            if tenant is not None:
                tenants.append({"tenant": tenant.name, "role": membership.role.value})
        return {
            "tenants": tenants,
            "password": await services.passwords.known(user.id),
            "passkeys": len(await services.passkeys.of_user(user.id)),
            "recovery_codes": await RecoveryCodes(services).left(user.id),
            "providers": [identity.issuer for identity in await services.identities.of_user(user.id)],
            "browsers": len(await services.browser.sessions_of(user.id, time.time())),
        }


def _described(invitation: Invitation) -> dict[str, Any]:
    return {
        "id": invitation.id,
        "role": invitation.role.value,
        "email": invitation.email,
        "read_layers": [layer_name(layer) for layer in invitation.read_layers],
        "write_layers": [layer_name(layer) for layer in invitation.write_layers],
        "expires": _moment(invitation.expires_at),
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""Tenants, members and personal tokens, as the command line and the console change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.access.grants import WRITES, layers_from_names, make_grant, named_layers
from app.access.layers import allowed_scopes
from app.context import EVERY_LAYER, TENANT_WIDE, Grant, Principal, Role, layer_name
from app.errors import Conflict, NotFound
from app.oauth.personal import DEFAULT_DAYS, mint_personal_token
from app.oauth.vault import Vault
from app.store.control.audit import Audit
from app.store.control.keys import Keys
from app.store.control.tenants import HOME_TENANT, Tenant, Tenants, TenantState
from app.store.control.tokens import PersonalToken, PersonalTokens
from app.store.control.users import Membership, User, Users
from app.store.session import ControlSession

__all__ = ["DEFAULT_OWNER", "Accounts", "CreatedToken", "FirstOwner"]

DEFAULT_OWNER: Final = "owner@graphkeep.internal"
"""Address of the first owner where nobody named another: `.internal` is reserved for private use (ICANN, 2024)."""

COMMAND: Final = "command"
"""Actor of what was done at the command line."""


@dataclass(frozen=True, slots=True)
class FirstOwner:
    """What a new database begins with."""

    admin: Tenant
    home: Tenant
    owner: User
    created: bool
    """Whether this call made the owner; False on every later start."""


@dataclass(frozen=True, slots=True)
class CreatedToken:
    """A personal token; ``text`` is shown once and kept nowhere."""

    text: str
    record: PersonalToken


class Accounts:
    """What people with access to the command line may do with accounts. Every change is in the audit."""

    def __init__(self, control: ControlSession, vault: Vault, *, admin_tenant: str) -> None:
        self.tenants = Tenants(control)
        self.users = Users(control)
        self.tokens = PersonalTokens(control)
        self.audit = Audit(control)
        self._keys = Keys(control)
        self._vault = vault
        self._admin_tenant = admin_tenant

    async def bootstrap(self, email: str = DEFAULT_OWNER) -> FirstOwner:
        """Make the operators' tenant, ``home`` and their first owner, unless the operators' tenant has members.

        Raises:
            InvalidInput: no e-mail address. StartError: the operators' tenant's name belongs to an ordinary one.
        """
        admin = await self.tenants.ensure(self._admin_tenant, admin=True)
        home = await self.tenants.ensure(HOME_TENANT)
        members = await self.users.members(admin.id)
        if members:
            first = next((each for each in members if each.role is Role.OWNER), members[0])
            owner = await self.users.by_id(first.user)
            if owner is not None:
                return FirstOwner(admin, home, owner, created=False)
        owner = await self.users.ensure(email)
        for tenant in (home, admin):  # the operators' tenant last: it marks that all of this was done
            await self.users.put_membership(owner.id, tenant.id, Role.OWNER)
            await self.audit.append(tenant=tenant.id, actor=COMMAND, action="user.add", target=owner.id)
        return FirstOwner(admin, home, owner, created=True)

    async def ensure_home(self) -> None:
        """Make ``home`` with an owner where it has none, so that a local client can begin on a new database.

        No operator is made: that is left to :meth:`bootstrap`, and with it to the first person who is named.
        """
        home = await self.tenants.ensure(HOME_TENANT)
        if any(member.role is Role.OWNER for member in await self.users.members(home.id)):
            return
        owner = await self.users.ensure(DEFAULT_OWNER)
        await self.users.put_membership(owner.id, home.id, Role.OWNER)
        await self.audit.append(tenant=home.id, actor=COMMAND, action="user.add", target=owner.id)

    async def create_tenant(self, name: str, *, actor: str = COMMAND) -> Tenant:
        """Make a tenant.

        Raises:
            InvalidInput: a bad name. Conflict: it is taken.
        """
        tenant = await self.tenants.create(name)
        await self.audit.append(tenant=tenant.id, actor=actor, action="tenant.create", target=tenant.id)
        return tenant

    async def set_tenant_state(self, name: str, state: TenantState, *, actor: str = COMMAND) -> Tenant:
        """Suspend, resume or delete a tenant; its tokens follow within 5 seconds.

        Raises:
            NotFound: no such tenant. Conflict: it is the operators' own.
        """
        tenant = await self.tenant(name)
        if tenant.admin and state is not TenantState.ACTIVE:
            raise Conflict("the operators' tenant stays active; nobody could undo this otherwise. Nothing was changed.")
        changed = await self.tenants.set_state(tenant.id, state)
        await self.audit.append(tenant=tenant.id, actor=actor, action=f"tenant.{state.value}", target=tenant.id)
        return changed or tenant

    async def add_user(
        self,
        email: str,
        tenant_name: str,
        role: Role,
        *,
        read_layers: Sequence[str] | None = None,
        write_layers: Sequence[str] | None = None,
        actor: str = COMMAND,
    ) -> tuple[User, Membership]:
        """Make the user a member of the tenant, or change what they are there. Layer names as people write them.

        Raises:
            InvalidInput: no e-mail address, a bad layer name or layers that the role cannot hold.
            NotFound: no such tenant.
        """
        tenant = await self.tenant(tenant_name)
        read = None if read_layers is None else layers_from_names(read_layers)
        write = None if write_layers is None else layers_from_names(write_layers)
        user = await self.users.ensure(email)
        membership = await self.users.put_membership(user.id, tenant.id, role, read_layers=read, write_layers=write)
        await self.tenants.add_layers(tenant.id, {*(read or ()), *(write or ())} - {EVERY_LAYER, TENANT_WIDE})
        await self.audit.append(
            tenant=tenant.id, actor=actor, action="user.add", target=user.id, detail={"role": role.value}
        )
        return user, membership

    async def remove_user(self, email: str, tenant_name: str, *, actor: str = COMMAND) -> None:
        """End a membership; the user's tokens for the tenant stop within 5 seconds.

        Raises:
            NotFound: no such tenant, user or membership.
        """
        tenant, user, _ = await self._member(email, tenant_name)
        await self.users.remove_membership(user.id, tenant.id)
        await self.audit.append(tenant=tenant.id, actor=actor, action="user.remove", target=user.id)

    async def create_token(
        self,
        email: str,
        tenant_name: str,
        *,
        scopes: Sequence[str] | None = None,
        read_layers: Sequence[str] | None = None,
        write_layers: Sequence[str] | None = None,
        days: int = DEFAULT_DAYS,
        actor: str = COMMAND,
    ) -> CreatedToken:
        """Sign a personal token for a member; defaults as :func:`~app.access.grants.make_grant` has them.

        Raises:
            InvalidInput: days, a scope or a layer name. Forbidden: more than the member holds.
            NotFound: no such tenant, user or membership. StartError: keys sealed with another secret key.
        """
        tenant, user, membership = await self._member(email, tenant_name)
        grant = make_grant(
            membership,
            grant_id="",
            operator=tenant.admin,
            scopes=scopes,
            read_layers=read_layers,
            write_layers=write_layers,
        )
        issued = mint_personal_token(
            await self._vault.ring(),
            gateway=await self._keys.ensure_gateway(),
            subject=user.id,
            tenant=tenant.id,
            role=membership.role,
            operator=tenant.admin,
            grant=grant,
            days=days,
        )
        await self.tenants.add_layers(tenant.id, named_layers(grant))
        record = await self.tokens.put(_record(issued.id, issued.expires, user, tenant, grant, days))
        await self.audit.append(
            tenant=tenant.id,
            actor=actor,
            action="token.create",
            target=issued.id,
            layers=named_layers(grant),
            detail={"for": user.id, "days": days, "scopes": " ".join(sorted(grant.scopes))},
        )
        return CreatedToken(issued.text, record)

    async def list_tokens(self, email: str | None = None) -> list[PersonalToken]:
        """Personal tokens, of one user or of all, oldest first.

        Raises:
            NotFound: no such user.
        """
        if email is None:
            return await self.tokens.all()
        return await self.tokens.of_user((await self.user(email)).id)

    async def revoke_token(self, token_id: str, *, actor: str = COMMAND) -> PersonalToken:
        """End a personal token; every replica refuses it within 5 seconds.

        Raises:
            NotFound: no such token.
        """
        record = await self.tokens.revoke(token_id.strip())
        if record is None:
            raise NotFound("there is no personal token with this id; `graphkeep token list` shows them.")
        await self.audit.append(tenant=record.tenant, actor=actor, action="token.revoke", target=record.id)
        return record

    async def local_principal(self, email: str, tenant_name: str) -> Principal:
        """The member as a local process acts for them (standard input and output): all that the role holds.

        Raises:
            NotFound: no such tenant, user or membership.
        """
        tenant, user, membership = await self._member(email, tenant_name)
        write = sorted(membership.write_layers)  # tenant-wide, where it is among them, comes first
        allowed = allowed_scopes(membership.role, operator=tenant.admin)
        grant = make_grant(
            membership,
            grant_id="local",
            operator=tenant.admin,
            scopes=allowed if write else allowed - WRITES,
            write_layers=[layer_name(layer) for layer in write],
        )
        return Principal(
            subject=user.id,
            client="local",
            tenant=tenant.id,
            tenant_name=tenant.name,
            data=tenant.data,
            role=membership.role,
            operator=tenant.admin,
            grant=grant,
            tenant_layers=tenant.all_layers(),
        )

    async def tenant(self, name: str) -> Tenant:
        """The tenant of that name.

        Raises:
            NotFound: there is none.
        """
        tenant = await self.tenants.by_name(name)
        if tenant is None or tenant.state is TenantState.DELETED:
            raise NotFound(f"there is no tenant named {name!r}; `graphkeep tenant add` makes one.")
        return tenant

    async def user(self, email: str) -> User:
        """The user with that address.

        Raises:
            NotFound: there is none.
        """
        user = await self.users.by_email(email)
        if user is None:
            raise NotFound(f"there is no user with the address {email!r}; `graphkeep user add` makes one.")
        return user

    async def _member(self, email: str, tenant_name: str) -> tuple[Tenant, User, Membership]:
        tenant, user = await self.tenant(tenant_name), await self.user(email)
        membership = await self.users.membership(user.id, tenant.id)
        if membership is None:
            raise NotFound(
                f"{user.email} is no member of the tenant {tenant.name!r}; `graphkeep user add` changes that."
            )
        return tenant, user, membership


def _record(token_id: str, expires: int, user: User, tenant: Tenant, grant: Grant, days: int) -> PersonalToken:
    default = [] if grant.write_layer is None else [grant.write_layer]
    others = sorted(grant.write_layers - set(default))
    return PersonalToken(
        id=token_id,
        user=user.id,
        tenant=tenant.id,
        scopes=tuple(sorted(grant.scopes)),
        read_layers=tuple(sorted(grant.read_layers)),
        write_layers=(*(layer for layer in default if layer in grant.write_layers), *others),
        created=(expires - days * 24 * 3600) * 1000,
        expires=expires * 1000,
    )

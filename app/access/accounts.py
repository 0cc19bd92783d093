"""Tenants, members and personal tokens, as the command line and the console change them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.access.grants import WRITES, layers_from_names, make_grant, named_layers
from app.access.layers import allowed_scopes
from app.context import Grant, Principal, Role, layer_name
from app.errors import Conflict, NotFound
from app.oauth.personal import DEFAULT_DAYS, mint_personal_token
from app.oauth.vault import Vault
from app.store.control.audit import Audit
from app.store.control.keys import Keys
from app.store.control.tenants import HOME_TENANT, Tenant, Tenants, TenantState, check_layer_name
from app.store.control.tokens import PersonalToken, PersonalTokens
from app.store.control.users import Membership, User, Users
from app.store.session import ControlSession

__all__ = ["COMMAND", "DEFAULT_OWNER", "Accounts", "CreatedToken", "FirstOwner"]

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

    async def rename_tenant(self, which: str | Tenant, name: str, *, actor: str = COMMAND) -> Tenant:
        """Give a tenant another name; tokens, connections and records stay.

        Raises:
            NotFound: no such tenant. InvalidInput: a bad name. Conflict: it is taken, or the tenant keeps its name.
        """
        tenant = await self.tenant(which)
        if tenant.admin or tenant.name == HOME_TENANT:
            raise Conflict(
                f"{tenant.name!r} keeps its name: settings and local clients find it by that. Nothing was changed."
            )
        renamed = await self.tenants.rename(tenant.id, name)
        if renamed is None:
            raise _no_tenant(tenant.name)
        detail = {"from": tenant.name, "to": renamed.name}
        await self.audit.append(tenant=tenant.id, actor=actor, action="tenant.rename", target=tenant.id, detail=detail)
        return renamed

    async def add_layer(self, which: str | Tenant, layer: str, *, actor: str = COMMAND) -> Tenant:
        """Make a layer exist (partition rule 1).

        Raises:
            NotFound: no such tenant. InvalidInput: a bad name. Conflict: the layer exists.
        """
        tenant, name = await self.tenant(which), check_layer_name(layer)
        if name in tenant.layers:
            raise Conflict(f"the layer {name!r} exists already. Nothing was changed.")
        changed = await self.tenants.add_layers(tenant.id, [name])
        await self.audit.append(tenant=tenant.id, actor=actor, action="layer.add", target=name, layers=[name])
        return changed or tenant

    async def set_tenant_state(self, which: str | Tenant, state: TenantState, *, actor: str = COMMAND) -> Tenant:
        """Suspend, resume or delete a tenant; its tokens follow within 5 seconds.

        Raises:
            NotFound: no such tenant. Conflict: it is the operators' own.
        """
        tenant = await self.tenant(which)
        if tenant.admin and state is not TenantState.ACTIVE:
            raise Conflict("the operators' tenant stays active; nobody could undo this otherwise. Nothing was changed.")
        changed = await self.tenants.set_state(tenant.id, state)
        if changed is None:
            raise _no_tenant(tenant.name)
        await self.audit.append(tenant=tenant.id, actor=actor, action=f"tenant.{state.value}", target=tenant.id)
        return changed

    async def add_user(
        self,
        email: str,
        which: str | Tenant,
        role: Role,
        *,
        read_layers: Sequence[str] | None = None,
        write_layers: Sequence[str] | None = None,
        actor: str = COMMAND,
    ) -> tuple[User, Membership]:
        """Make the user a member of the tenant, or change what they are there. Layer names as people write them.

        A member whose layers are not named keeps them, as far as the role may hold them.

        Raises:
            InvalidInput: no e-mail address, a bad layer name or layers that the role cannot hold.
            NotFound: no such tenant. Conflict: the tenant would have no owner any more.
        """
        tenant = await self.tenant(which)
        user = await self.users.ensure(email)
        return user, await self._put(user, tenant, role, read_layers, write_layers, action="user.add", actor=actor)

    async def change_user(
        self,
        who: str | User,
        which: str | Tenant,
        *,
        role: Role | None = None,
        read_layers: Sequence[str] | None = None,
        write_layers: Sequence[str] | None = None,
        actor: str = COMMAND,
    ) -> Membership:
        """Change role or layers of someone who is a member already; what is None stays, as far as the role allows.

        Raises:
            InvalidInput: a bad layer name or layers that the role cannot hold.
            NotFound: no such tenant, user or membership. Conflict: the tenant would have no owner any more.
        """
        tenant, user, held = await self._member(who, which)
        return await self._put(
            user, tenant, role or held.role, read_layers, write_layers, action="user.change", actor=actor
        )

    async def _put(
        self,
        user: User,
        tenant: Tenant,
        role: Role,
        read_layers: Sequence[str] | None,
        write_layers: Sequence[str] | None,
        *,
        action: str,
        actor: str,
    ) -> Membership:
        read = None if read_layers is None else layers_from_names(read_layers)
        write = None if write_layers is None else layers_from_names(write_layers)
        membership = await self.users.put_membership(user.id, tenant.id, role, read_layers=read, write_layers=write)
        await self.audit.append(
            tenant=tenant.id, actor=actor, action=action, target=user.id, detail={"role": role.value}
        )
        return membership

    async def remove_user(self, who: str | User, which: str | Tenant, *, actor: str = COMMAND) -> None:
        """End a membership; the user's tokens for the tenant stop within 5 seconds.

        Raises:
            NotFound: no such tenant, user or membership. Conflict: it is the tenant's only owner.
        """
        tenant, user, _ = await self._member(who, which)
        await self.users.remove_membership(user.id, tenant.id)
        await self.audit.append(tenant=tenant.id, actor=actor, action="user.remove", target=user.id)

    async def create_token(
        self,
        who: str | User,
        which: str | Tenant,
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
        now = time.time()  # before the membership is read: what narrows it meanwhile ends this token too
        tenant, user, membership = await self._member(who, which)
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
            now=now,
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
            rules=tenant.rules,
        )

    async def tenant(self, which: str | Tenant) -> Tenant:
        """The tenant of that name; one that is at hand already is the answer.

        Raises:
            NotFound: there is none.
        """
        if isinstance(which, Tenant):
            return which
        tenant = await self.tenants.by_name(which)
        if tenant is None or tenant.state is TenantState.DELETED:
            raise _no_tenant(which)
        return tenant

    async def user(self, who: str | User) -> User:
        """The user with that address; one that is at hand already is the answer.

        Raises:
            NotFound: there is none.
        """
        if isinstance(who, User):
            return who
        user = await self.users.by_email(who)
        if user is None:
            raise NotFound(f"there is no user with the address {who!r}; `graphkeep user add` makes one.")
        return user

    async def _member(self, who: str | User, which: str | Tenant) -> tuple[Tenant, User, Membership]:
        tenant, user = await self.tenant(which), await self.user(who)
        membership = await self.users.membership(user.id, tenant.id)
        if membership is None:
            raise NotFound(
                f"{user.email} is no member of the tenant {tenant.name!r}; `graphkeep user add` changes that."
            )
        return tenant, user, membership


def _no_tenant(name: str) -> NotFound:
    return NotFound(f"there is no tenant named {name!r}; `graphkeep tenant add` makes one.")


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

"""What an operator does on the command line: tenants, members, personal tokens. The audit says `command`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

from app.access.layers import allowed_scopes
from app.cli.database import connected, reachable
from app.cli.first import ensure_first_tenants, make_operator_if_first
from app.cli.signin import sign_in_link, vault_of
from app.context import EVERY_LAYER, SCOPES, TENANT_WIDE, Grant, Role, layer_from_name, layer_name
from app.errors import Forbidden, InvalidInput, NotFound
from app.oauth.personal import mint_personal_token
from app.settings import Settings
from app.store.control.audit import Audit
from app.store.control.keys import Keys
from app.store.control.tenants import Tenant, Tenants, check_layer_name
from app.store.control.tokens import PersonalToken, PersonalTokens
from app.store.control.users import Membership, User, Users
from app.store.database import Database

__all__ = ["Administration", "administration", "granted_layers"]

_ACTOR: Final = "command"


@asynccontextmanager
async def administration(settings: Settings) -> AsyncIterator[Administration]:
    """The stores, on the database that the settings lead to.

    Raises:
        StartError: there is no way to it.
    """
    async with reachable(settings) as used, connected(used) as database:
        await ensure_first_tenants(database, used)
        yield Administration(database, used)


class Administration:
    """The commands. Each answers with what a script can read."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._tenants = Tenants(database.control)
        self._users = Users(database.control)
        self._tokens = PersonalTokens(database.control)
        self._audit = Audit(database.control)

    async def add_tenant(self, name: str) -> dict[str, Any]:
        """Make a tenant.

        Raises:
            InvalidInput: the name breaks the rule. Conflict: it exists.
        """
        tenant = await self._tenants.create(name)
        await self._audit.append(tenant=tenant.id, actor=_ACTOR, action="tenant.create", target=tenant.id)
        return {"id": tenant.id, "name": tenant.name}

    async def tenants(self) -> list[dict[str, Any]]:
        """Every tenant."""
        return [
            {"id": tenant.id, "name": tenant.name, "state": tenant.state.value, "admin": tenant.admin}
            for tenant in await self._tenants.all()
        ]

    async def add_user(self, email: str, tenant_name: str, role_name: str) -> dict[str, Any]:
        """Make the account if it is new, the membership, and a link for each public address.

        Raises:
            InvalidInput: no such role, or no e-mail address. NotFound: no such tenant.
        """
        role = _role(role_name)
        tenant = await self._tenant(tenant_name)
        user = await self._users.ensure(email)
        await self._users.put_membership(user.id, tenant.id, role)
        operator = role is Role.OWNER and await make_operator_if_first(self._database, self._settings, user, tenant)
        await self._audit.append(
            tenant=tenant.id, actor=_ACTOR, action="member.put", target=user.id, detail={"role": role.value}
        )
        links = [
            await sign_in_link(self._database, self._settings, user, address) for address in self._settings.addresses
        ]
        return {
            "id": user.id,
            "email": user.email,
            "tenant": tenant.name,
            "role": role.value,
            "operator": operator,
            "signin": links,
        }

    async def create_token(
        self,
        email: str,
        tenant_name: str,
        *,
        scopes: Sequence[str],
        read: Sequence[str],
        write: Sequence[str],
        days: int,
    ) -> dict[str, Any]:
        """Sign a personal token; only its id and what it grants are stored.

        Raises:
            NotFound: no such user or tenant. Forbidden: more than this user may grant. InvalidInput: an unknown scope,
            a bad layer name, or days outside 1 to 365.
        """
        tenant = await self._tenant(tenant_name)
        user, membership = await self._member(email, tenant)
        chosen = _scopes(scopes, membership.role, operator=tenant.admin)
        grant = granted_layers(membership, chosen, read=read, write=write)
        named = (grant.read_layers | grant.write_layers) - {EVERY_LAYER, TENANT_WIDE}
        if membership.role is Role.OWNER and named - tenant.layers:
            await self._tenants.add_layers(tenant.id, named)
        issued = mint_personal_token(
            await vault_of(self._database, self._settings).ring(),
            gateway=await Keys(self._database.control).ensure_gateway(),
            subject=user.id,
            tenant=tenant.id,
            role=membership.role,
            operator=tenant.admin,
            grant=grant,
            days=days,
        )
        now = int(datetime.now(UTC).timestamp() * 1000)
        first = [] if grant.write_layer is None else [grant.write_layer]
        await self._tokens.put(
            PersonalToken(
                id=issued.id,
                user=user.id,
                tenant=tenant.id,
                scopes=tuple(sorted(chosen)),
                read_layers=tuple(sorted(grant.read_layers)),
                write_layers=(*first, *sorted(grant.write_layers - set(first))),
                created=now,
                expires=issued.expires * 1000,
            )
        )
        await self._audit.append(tenant=tenant.id, actor=_ACTOR, action="token.create", target=issued.id)
        return {
            "id": issued.id,
            "token": issued.text,
            "expires": _time(issued.expires * 1000),
            "scopes": sorted(chosen),
            "read_layers": sorted(layer_name(layer) for layer in grant.read_layers),
            "write_layer": None if grant.write_layer is None else layer_name(grant.write_layer),
        }

    async def tokens(self, email: str | None) -> list[dict[str, Any]]:
        """Tokens of one user or of all, oldest first.

        Raises:
            NotFound: no such user.
        """
        if email is None:
            found = await self._tokens.all()
        else:
            found = await self._tokens.of_user((await self._user(email)).id)
        users = {user.id: user.email for user in await self._users.all()}
        tenants = {tenant.id: tenant.name for tenant in await self._tenants.all()}
        return [
            {
                "id": token.id,
                "user": users.get(token.user, token.user),
                "tenant": tenants.get(token.tenant, token.tenant),
                "state": "valid" if token.alive else "revoked" if token.revoked else "expired",
                "created": _time(token.created),
                "expires": _time(token.expires),
                "used": None if token.used is None else _time(token.used),
                "scopes": " ".join(token.scopes),
                "read_layers": [layer_name(layer) for layer in token.read_layers],
                "write_layers": [layer_name(layer) for layer in token.write_layers],
            }
            for token in found
        ]

    async def revoke_token(self, token_id: str) -> dict[str, Any]:
        """End a token.

        Raises:
            NotFound: there is none with this id.
        """
        token = await self._tokens.revoke(token_id)
        if token is None:
            raise NotFound("there is no token with this id; `graphkeep token list` shows them. Nothing was changed.")
        await self._audit.append(tenant=token.tenant, actor=_ACTOR, action="token.revoke", target=token.id)
        return {"id": token.id, "revoked": True}

    async def _tenant(self, name: str) -> Tenant:
        tenant = await self._tenants.by_name(name)
        if tenant is None:
            raise NotFound(f"there is no tenant {name!r}; `graphkeep tenant list` shows them. Nothing was changed.")
        return tenant

    async def _user(self, email: str) -> User:
        user = await self._users.by_email(email)
        if user is None:
            raise NotFound(f"there is no user {email!r}; `graphkeep user add` makes one. Nothing was changed.")
        return user

    async def _member(self, email: str, tenant: Tenant) -> tuple[User, Membership]:
        user = await self._user(email)
        membership = await self._users.membership(user.id, tenant.id)
        if membership is None:
            raise NotFound(
                f"{user.email} does not belong to {tenant.name!r}; `graphkeep user add {user.email} --tenant "
                f"'{tenant.name}'` makes them a member. Nothing was changed."
            )
        return user, membership


def granted_layers(
    membership: Membership, scopes: frozenset[str], *, read: Sequence[str], write: Sequence[str]
) -> Grant:
    """Layers of a token: by default all that the user may read, and the tenant-wide one to write.

    Raises:
        Forbidden: a layer that the user may not give. InvalidInput: a bad name, layers to write for a token that only
        reads, or a token that may write but has no layer to write to.
    """
    readable = frozenset(map(_layer, read)) or membership.read_layers
    writes = any(scope.endswith(":write") for scope in scopes)
    if write and not writes:
        raise InvalidInput("this token only reads; add a scope such as memory:write, or leave --write-layer out.")
    chosen = list(map(_layer, write)) or ([TENANT_WIDE] if writes else [])
    refused = [layer for layer in readable if layer != EVERY_LAYER and not membership.may_read(layer)]
    refused += [layer for layer in chosen if not membership.may_write(layer)]
    if refused:
        names = ", ".join(sorted({layer_name(layer) for layer in refused}))
        raise Forbidden(
            f"this user may not give away the layer {names}; an owner grants it first. Nothing was changed."
        )
    unread = [layer for layer in chosen if EVERY_LAYER not in readable and layer not in readable]
    if unread:
        names = ", ".join(layer_name(layer) for layer in unread)
        raise InvalidInput(
            f"what is written must be readable: add --read-layer for {names}, name another --write-layer, or limit the "
            "token with --scope to reading. Nothing was changed."
        )
    return Grant("", scopes, frozenset(readable), frozenset(chosen), chosen[0] if chosen else None)


def _layer(name: str) -> str:
    layer = layer_from_name(name)
    return layer if layer == TENANT_WIDE else check_layer_name(layer)


def _scopes(asked: Sequence[str], role: Role, *, operator: bool) -> frozenset[str]:
    allowed = allowed_scopes(role, operator=operator)
    unknown = sorted(set(asked) - set(SCOPES))
    if unknown:
        raise InvalidInput(f"there is no scope {unknown[0]!r}; there are: {', '.join(SCOPES)}.", field="scope")
    refused = sorted(set(asked) - allowed)
    if refused:
        raise Forbidden(f"a {role.value} of this tenant cannot give {', '.join(refused)}. Nothing was changed.")
    return frozenset(asked) or allowed


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError as error:
        raise InvalidInput(f"{name!r} is no role; there are owner, member and reader.", field="role") from error


def _time(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

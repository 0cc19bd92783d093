"""Service accounts of a tenant: what an owner fixes for a program that no person stands behind (RFC 6749 §4.4)."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from typing import Final

from app.access.grants import make_grant
from app.context import EVERY_LAYER, Grant, Role
from app.errors import Conflict, InvalidInput, NotFound
from app.oauth.secrets import digest, new_token
from app.store.control.service_accounts import ServiceAccount, ServiceAccountStore
from app.store.control.tenants import Tenants, TenantState
from app.store.control.users import Membership
from app.store.session import ControlSession

__all__ = ["PREFIX", "ServiceAccounts", "grant_of", "role_of", "secret_fits"]

PREFIX: Final = "sa-"
"""How the client id of a service account begins."""

MAX_NAME: Final = 64
MAX_ACCOUNTS: Final = 100


class ServiceAccounts:
    """Make, list, renew and remove the service accounts of tenants. Whether ``actor`` may is the caller's to judge."""

    def __init__(self, control: ControlSession) -> None:
        self._store = ServiceAccountStore(control)
        self._tenants = Tenants(control)

    async def create(
        self,
        tenant_id: str,
        name: str,
        *,
        scopes: Sequence[str],
        read_layers: Sequence[str],
        write_layers: Sequence[str] = (),
        write_layer: str | None = None,
        actor: str,
    ) -> tuple[ServiceAccount, str]:
        """A new account and its secret, which is shown once. Layer names as people write them (``tenant`` too).

        ``write_layer`` is where writes go that name no layer; by default the first of ``write_layers``.

        Raises:
            InvalidInput: a bad name, scope or layer, or layers that contradict each other.
            Forbidden: a scope that no tenant can give away. Conflict: the name is taken, or there are too many.
            NotFound: no such tenant.
        """
        shown = _name(name)
        tenant = await self._tenants.by_id(tenant_id)
        if tenant is None or tenant.state is TenantState.DELETED:
            raise NotFound("there is no such tenant. Nothing was changed.")
        if len(await self._store.of_tenant(tenant_id)) >= MAX_ACCOUNTS:
            raise Conflict(f"a tenant has at most {MAX_ACCOUNTS} service accounts; remove one. Nothing was changed.")
        account_id = f"{PREFIX}{secrets.token_hex(12)}"
        grant = _grant(account_id, tenant_id, scopes, read_layers, _first(write_layers, write_layer))
        secret = new_token()
        now = int(time.time() * 1000)
        record = ServiceAccount(
            id=account_id,
            tenant=tenant_id,
            name=shown,
            grant=_new_grant_id(),
            secret=digest(secret),
            scopes=tuple(sorted(grant.scopes)),
            read_layers=tuple(sorted(grant.read_layers)),
            write_layers=tuple(sorted(grant.write_layers)),
            write_layer=grant.write_layer,
            created=now,
            created_by=actor,
            renewed=now,
        )
        if not await self._store.add(record):
            raise Conflict(f"there is a service account named {shown!r} already. Nothing was changed.")
        return record, secret

    async def of_tenant(self, tenant_id: str) -> list[ServiceAccount]:
        """The accounts of a tenant, by name."""
        return await self._store.of_tenant(tenant_id)

    async def renew(self, tenant_id: str, account_id: str, actor: str) -> str:
        """A new secret, shown once. The old one ends at once, tokens that it gave within 5 seconds.

        Raises:
            NotFound: the tenant has no such account.
        """
        secret = new_token()
        renewed = await self._store.renew(
            account_id, tenant=tenant_id, secret=digest(secret), grant=_new_grant_id(), actor=actor
        )
        if renewed is None:
            raise _unknown()
        return secret

    async def remove(self, tenant_id: str, account_id: str, actor: str) -> None:
        """Delete an account; every replica refuses its tokens within 5 seconds.

        Raises:
            NotFound: the tenant has no such account.
        """
        if not await self._store.remove(account_id, tenant=tenant_id, actor=actor):
            raise _unknown()


def grant_of(account: ServiceAccount) -> Grant:
    """The grant that each token of the account carries."""
    return Grant(
        id=account.grant,
        scopes=frozenset(account.scopes),
        read_layers=frozenset(account.read_layers),
        write_layers=frozenset(account.write_layers),
        write_layer=account.write_layer,
    )


def role_of(account: ServiceAccount) -> Role:
    """A member where it may write somewhere, else a reader; never an owner, never an operator."""
    return Role.MEMBER if account.write_layers else Role.READER


def secret_fits(account: ServiceAccount, presented: str) -> bool:
    """Whether ``presented`` is the account's secret, compared in constant time."""
    return hmac.compare_digest(digest(presented), account.secret)


def _grant(account_id: str, tenant_id: str, scopes: Sequence[str], read: Sequence[str], write: Sequence[str]) -> Grant:
    if EVERY_LAYER in {*read, *write}:
        raise InvalidInput(
            "a service account names its layers; `*` is for owners alone. Nothing was changed.", field="layers"
        )
    if not scopes or not read:
        raise InvalidInput("a service account needs at least one scope and one layer to read.", field="scopes")
    every = frozenset({EVERY_LAYER})
    # What a tenant can give to a program at most is what its owner holds.
    most = Membership(account_id, tenant_id, Role.OWNER, every, every)
    return make_grant(
        most, grant_id="", operator=False, scopes=scopes, read_layers=list(read), write_layers=list(write)
    )


def _first(layers: Sequence[str], default: str | None) -> list[str]:
    if default is None:
        return list(layers)
    return [default, *(layer for layer in layers if layer != default)]


def _name(name: str) -> str:
    shown = " ".join(name.split())
    if not shown or len(shown) > MAX_NAME or not shown.isprintable():
        raise InvalidInput(f"a service account's name has 1 to {MAX_NAME} printable characters.", field="name")
    return shown


def _new_grant_id() -> str:
    return f"gr-{secrets.token_hex(12)}"


def _unknown() -> NotFound:
    return NotFound("this tenant has no such service account. Nothing was changed.")

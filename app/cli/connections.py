"""Clients, grants, service accounts and signing keys on the command line, with answers that a script can read."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from app.access.service import accounts_of
from app.access.service_accounts import ServiceAccounts
from app.context import layer_name
from app.errors import NotFound
from app.oauth.clients.cimd import SCHEME
from app.oauth.clients.preset import PresetClients
from app.oauth.clients.redirect import RedirectPolicy
from app.oauth.sealing import Sealer
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.audit import Audit
from app.store.control.clients import ClientRecord
from app.store.control.grants import GrantRecord, GrantStore
from app.store.control.keys import Keys, StoredKey
from app.store.control.service_accounts import ServiceAccount
from app.store.database import Database

__all__ = ["COMMAND", "Connections"]

COMMAND = "command"
"""Actor of what was done at the command line."""


class Connections:
    """What may reach the gateway, and with what it signs. Every change is in the audit."""

    def __init__(self, database: Database, settings: Settings) -> None:
        control = database.control
        self._settings = settings
        self._accounts = accounts_of(settings, database)
        self._audit = Audit(control)
        self._clients = PresetClients(control, RedirectPolicy(settings.oauth.redirect_hosts))
        self._grants = GrantStore(control)
        self._keys = Keys(control)
        self._service_accounts = ServiceAccounts(control)
        self._vault = Vault(self._keys, Sealer.of(settings.oauth, settings.run.folder))

    async def add_client(self, name: str, redirect_uris: Sequence[str], method: str) -> dict[str, Any]:
        """Make a client; its secret is in this answer and kept nowhere."""
        record, secret = await self._clients.add(name, redirect_uris, method=method, actor=COMMAND)
        return {**_client(record), "client_secret": secret}

    async def clients(self) -> list[dict[str, Any]]:
        """Every client that an operator added or a person connected, the newest first."""
        return [_client(record) for record in await self._clients.all()]

    async def remove_client(self, client_id: str) -> dict[str, Any]:
        """Delete a client of any kind, and end all its grants."""
        return {**_client(await self._clients.remove(client_id, actor=COMMAND)), "state": "deleted"}

    async def restore_client(self, client_id: str) -> dict[str, Any]:
        """Let a deleted client ask people again."""
        return {**_client(await self._clients.restore(client_id, actor=COMMAND)), "state": "known"}

    async def grants(self, email: str | None, tenant_name: str | None) -> list[dict[str, Any]]:
        """Grants in use, of a user, of a tenant or of all, the last used first."""
        user = None if email is None else await self._accounts.user(email)
        tenant = None if tenant_name is None else await self._accounts.tenant(tenant_name)
        if user is not None:
            found = await self._grants.of_user(user.id)
        elif tenant is not None:
            found = await self._grants.of_tenant(tenant.id)
        else:
            found = await self._grants.all()
        return [await self._grant(each) for each in found if tenant is None or each.tenant == tenant.id]

    async def revoke_grant(self, grant_id: str) -> dict[str, Any]:
        """End a grant.

        Raises:
            NotFound: there is none.
        """
        grant = await self._grants.find(grant_id.strip())
        if grant is None:
            raise NotFound("there is no grant with this id; `graphkeep grant list` shows them. Nothing was changed.")
        await self._grants.revoke(grant.id, reason="revoked at the command line", now=time.time())
        await self._audit.append(tenant=grant.tenant, actor=COMMAND, action="grant.revoke", target=grant.id)
        return await self._grant(grant)

    async def add_account(
        self,
        tenant_name: str,
        name: str,
        *,
        scopes: Sequence[str],
        read: Sequence[str],
        write: Sequence[str],
    ) -> dict[str, Any]:
        """Make a service account; its secret is in this answer and kept nowhere."""
        tenant = await self._accounts.tenant(tenant_name)
        record, secret = await self._service_accounts.create(
            tenant.id, name, scopes=scopes, read_layers=read, write_layers=write, actor=COMMAND
        )
        endpoints = [f"{address}/token" for address in self._settings.addresses]
        return {**_account(record, tenant.name), "client_secret": secret, "token_endpoints": endpoints}

    async def accounts(self, tenant_name: str) -> list[dict[str, Any]]:
        """The service accounts of a tenant."""
        tenant = await self._accounts.tenant(tenant_name)
        return [_account(each, tenant.name) for each in await self._service_accounts.of_tenant(tenant.id)]

    async def renew_account(self, tenant_name: str, account: str) -> dict[str, Any]:
        """Exchange an account's secret; the new one is in this answer and kept nowhere."""
        tenant, found = await self._account(tenant_name, account)
        secret = await self._service_accounts.renew(tenant, found.id, COMMAND)
        return {**_account(found, tenant_name), "client_secret": secret}

    async def remove_account(self, tenant_name: str, account: str) -> dict[str, Any]:
        """Delete an account."""
        tenant, found = await self._account(tenant_name, account)
        await self._service_accounts.remove(tenant, found.id, COMMAND)
        return _account(found, tenant_name)

    async def keys(self) -> list[dict[str, Any]]:
        """The signing keys, oldest first; the first is made where there is none."""
        await self._vault.ring()
        now = time.time() * 1000
        return [_key(each, now) for each in await self._keys.all()]

    async def rotate_key(self) -> list[dict[str, Any]]:
        """Make the next signing key, and show them all."""
        await self._vault.rotate()
        found = await self.keys()
        await self._audit.append(tenant="", actor=COMMAND, action="key.rotate", target=str(found[-1]["id"]))
        return found

    async def _account(self, tenant_name: str, account: str) -> tuple[str, ServiceAccount]:
        tenant = await self._accounts.tenant(tenant_name)
        for each in await self._service_accounts.of_tenant(tenant.id):
            if account in (each.id, each.name):
                return tenant.id, each
        raise NotFound(
            f"{tenant.name} has no service account {account!r}; `graphkeep service-account list` shows them. "
            "Nothing was changed."
        )

    async def _grant(self, grant: GrantRecord) -> dict[str, Any]:
        user = await self._accounts.users.by_id(grant.user)
        tenant = await self._accounts.tenants.by_id(grant.tenant)
        return {
            "id": grant.id,
            "user": user.email if user else grant.user,
            "tenant": tenant.name if tenant else grant.tenant,
            "client": grant.client_name,
            "client_id": grant.client_id,
            "host": grant.host,
            "address": grant.issuer,
            "scopes": grant.scopes,
            "read_layers": _names(grant.read_layers),
            "write_layers": _names(grant.write_layers),
            "created": _time(grant.created_at),
            "used": _time(grant.last_used),
            "expires": _time(grant.expires_at),
        }


def _client(record: ClientRecord) -> dict[str, Any]:
    kind = "added" if record.preset else "document" if record.client_id.startswith(SCHEME) else "registered"
    return {
        "id": record.id,
        "client_id": record.client_id,
        "kind": kind,
        "name": record.name,
        "host": record.host,
        "redirect_uris": list(record.redirect_uris),
        "method": record.authentication or None,
        "state": "known" if record.deleted_at is None else "deleted",
        "created": _time(record.created_at),
        "used": None if record.last_used is None else _time(record.last_used),
    }


def _account(record: ServiceAccount, tenant: str) -> dict[str, Any]:
    return {
        "client_id": record.id,
        "name": record.name,
        "tenant": tenant,
        "scopes": list(record.scopes),
        "read_layers": _names(record.read_layers),
        "write_layers": _names(record.write_layers),
        "write_layer": None if record.write_layer is None else layer_name(record.write_layer),
        "created": _time(record.created / 1000),
        "secret_created": _time(record.renewed / 1000),
        "used": None if record.used is None else _time(record.used / 1000),
    }


def _key(key: StoredKey, now: float) -> dict[str, Any]:
    held = "signs" if key.retired is None or key.retired > now else "verifies"
    return {
        "id": key.kid,
        "state": "next" if key.active_from > now else held,
        "created": _time(key.created / 1000),
        "signs_from": _time(key.active_from / 1000),
        "signs_until": None if key.retired is None else _time(key.retired / 1000),
    }


def _names(layers: Iterable[str]) -> list[str]:
    return sorted(layer_name(layer) for layer in layers)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

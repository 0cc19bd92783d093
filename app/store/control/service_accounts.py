"""Service accounts: programs that act for a tenant and for no person. Of a secret only the hash is kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.context import EVERY_LAYER, TENANT_WIDE
from app.store.control.audit import append_in
from app.store.control.revocations import Revocation, revoke_in
from app.store.control.tenants import add_layers_in
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["ServiceAccount", "ServiceAccountStore"]

_FIELDS: Final = """a.id AS id, a.tenant AS tenant, a.name AS name, a.grant AS grant, a.secret AS secret,
           a.scopes AS scopes, a.read AS read, a.write AS write, a.layer AS layer, a.created AS created,
           a.created_by AS created_by, a.renewed AS renewed, a.used AS used"""

# One name is one account of a tenant: the key is unique, and the first to take it keeps it.
ADD = statement(
    "service_accounts.add",
    f"""
    MERGE (a:_ServiceAccount {{key: $key}})
      ON CREATE SET a.id = $id, a.tenant = $of, a.name = $name, a.grant = $grant, a.secret = $secret,
                    a.scopes = $scopes, a.read = $read, a.write = $write, a.layer = $into, a.created = $now,
                    a.renewed = $now, a.created_by = $actor
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
FIND = statement("service_accounts.find", f"MATCH (a:_ServiceAccount {{id: $id}}) RETURN {_FIELDS}", control=True)
OF_TENANT = statement(
    "service_accounts.of_tenant",
    f"MATCH (a:_ServiceAccount {{tenant: $of}}) RETURN {_FIELDS} ORDER BY a.key",
    control=True,
)
# The write lock is taken before the old grant is read: of two renewals at once each ends what the other made.
RENEW = statement(
    "service_accounts.renew",
    f"""
    MATCH (a:_ServiceAccount {{id: $id, tenant: $of}})
    SET a.renewed = $now
    WITH a, a.grant AS ended WHERE a.renewed = $now
    SET a.grant = $grant, a.secret = $secret
    RETURN {_FIELDS}, ended
    """,
    writes=True,
    control=True,
)
REMOVE = statement(
    "service_accounts.remove",
    "MATCH (a:_ServiceAccount {id: $id, tenant: $of}) WITH a, a.grant AS ended DELETE a RETURN ended",
    writes=True,
    control=True,
)
USED = statement(
    "service_accounts.note_use",
    "MATCH (a:_ServiceAccount {id: $id}) SET a.used = $now RETURN a.id AS id",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account. ``id`` is its client id and its subject, ``grant`` what its present tokens hang on (a new one
    with each secret), ``secret`` a hash. Layers as the data spells them, times in Unix milliseconds."""

    id: str
    tenant: str
    name: str
    grant: str
    secret: str
    scopes: tuple[str, ...]
    read_layers: tuple[str, ...]
    write_layers: tuple[str, ...]
    write_layer: str | None
    created: int
    created_by: str
    renewed: int
    """When its present secret was made."""
    used: int | None = None
    """When it was last given a token."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ServiceAccount:
        """An account from a row of the statements above."""
        return cls(
            id=row["id"],
            tenant=row["tenant"],
            name=row["name"],
            grant=row["grant"],
            secret=row["secret"],
            scopes=tuple(row["scopes"]),
            read_layers=tuple(row["read"]),
            write_layers=tuple(row["write"]),
            write_layer=row["layer"],
            created=row["created"],
            created_by=row["created_by"],
            renewed=row["renewed"],
            used=row["used"],
        )


class ServiceAccountStore:
    """The store of service accounts. Each change stands in the tenant's audit in the same transaction."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add(self, account: ServiceAccount) -> bool:
        """Keep a new account, whose layers exist from then on; False if the tenant has one of that name, which stays.

        Raises:
            InvalidInput: layers that the tenant cannot have.
        """
        named = {*account.read_layers, *account.write_layers} - {EVERY_LAYER, TENANT_WIDE}

        async def work(writing: Writing) -> bool:
            rows = await writing.run(
                ADD,
                key=f"{account.tenant}|{account.name.casefold()}",
                id=account.id,
                of=account.tenant,
                name=account.name,
                grant=account.grant,
                secret=account.secret,
                scopes=list(account.scopes),
                read=list(account.read_layers),
                write=list(account.write_layers),
                into=account.write_layer,
                now=account.created,
                actor=account.created_by,
            )
            added = bool(rows[0]["id"] == account.id)
            if added:
                await add_layers_in(writing, account.tenant, named)
                await append_in(
                    writing,
                    tenant=account.tenant,
                    actor=account.created_by,
                    action="service_account.create",
                    target=account.id,
                    layers={*account.read_layers, *account.write_layers} - {""},
                    detail={"scopes": " ".join(account.scopes)},
                )
            return added

        return await self._control.write(work)

    async def find(self, account_id: str) -> ServiceAccount | None:
        """The account, None when there is none (any more)."""
        rows = await self._control.read(FIND, id=account_id)
        return ServiceAccount.of(rows[0]) if rows else None

    async def of_tenant(self, tenant: str) -> list[ServiceAccount]:
        """A tenant's accounts, by name."""
        return [ServiceAccount.of(row) for row in await self._control.read(OF_TENANT, of=tenant)]

    async def renew(
        self, account_id: str, *, tenant: str, secret: str, grant: str, actor: str
    ) -> ServiceAccount | None:
        """Exchange the secret's hash; the old secret ends at once, its tokens within 5 s. None: no such account."""

        async def work(writing: Writing) -> ServiceAccount | None:
            rows = await writing.run(
                RENEW, id=account_id, of=tenant, secret=secret, grant=grant, now=int(time.time() * 1000)
            )
            if not rows:
                return None
            await revoke_in(writing, Revocation.of_grant(rows[0]["ended"]))
            await append_in(writing, tenant=tenant, actor=actor, action="service_account.renew", target=account_id)
            return ServiceAccount.of(rows[0])

        return await self._control.write(work)

    async def remove(self, account_id: str, *, tenant: str, actor: str) -> bool:
        """Delete an account; its tokens end within 5 s. Whether there was one."""

        async def work(writing: Writing) -> bool:
            rows = await writing.run(REMOVE, id=account_id, of=tenant)
            if rows:
                await revoke_in(writing, Revocation.of_grant(rows[0]["ended"]))
                await append_in(writing, tenant=tenant, actor=actor, action="service_account.remove", target=account_id)
            return bool(rows)

        return await self._control.write(work)

    async def note_use(self, account: ServiceAccount) -> None:
        """Note that the account was given a token just now."""
        await self._control.write(lambda writing: writing.run(USED, id=account.id, now=int(time.time() * 1000)))

"""``graphkeep stdio``: the gateway's own tools for one local client, without HTTP, through the same rules."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from app.access.accounts import Accounts
from app.access.authorize import check_tool
from app.access.service import accounts_of
from app.cli.database import connected, reachable
from app.context import Principal, RequestContext, Role
from app.edge import logs
from app.errors import NotFound
from app.main import Services, opened
from app.protocol.envelope import Envelope
from app.protocol.stdio import LocalProtocol, standard_streams
from app.settings import Settings
from app.store.control.tenants import HOME_TENANT

__all__ = ["first_owner", "run"]


def run(settings: Settings, *, tenant: str | None, user: str | None) -> None:
    """Serve until the client closes standard input.

    Raises:
        StartError: no way to the database. NotFound: no such tenant or member.
    """
    import uvloop

    # A client shows what comes on standard error: only warnings, unless a level was asked for.
    logs.configure(settings.run.log_level if "log_level" in settings.run.model_fields_set else "warning")
    uvloop.run(_run(settings, tenant=tenant or HOME_TENANT, user=user))


async def _run(settings: Settings, *, tenant: str, user: str | None) -> None:
    async with standard_streams() as (reader, writer), reachable(settings) as used:
        async with connected(used) as database:
            accounts = accounts_of(used, database)
            await accounts.ensure_home()
            principal = await accounts.local_principal(user or await first_owner(accounts, tenant), tenant)
        async with opened(used) as services:
            with structlog.contextvars.bound_contextvars(tenant=principal.tenant):
                await _protocol(services, principal).serve(reader, writer)


def _protocol(services: Services, principal: Principal) -> LocalProtocol:
    def identify() -> RequestContext:
        known = services.access.snapshot.view.tenants.get(principal.tenant)
        now = principal if known is None else replace(principal, data=known.data, tenant_layers=known.all_layers())
        return RequestContext(f"stdio-{secrets.token_hex(8)}", "stdio", principal=now)

    @asynccontextmanager
    async def admit(envelope: Envelope, context: RequestContext) -> AsyncIterator[RequestContext]:
        staged = envelope.staged or ""
        tool = services.registry.get(staged) or services.offering.stage(staged)
        if tool is not None and context.principal is not None:
            check_tool(tool, context.principal, services.access.snapshot)
        async with services.limits.admit(context, tool) as admitted:
            yield admitted

    return LocalProtocol(services.registry, services.dispatcher, services.offering, identify=identify, admit=admit)


async def first_owner(accounts: Accounts, tenant_name: str) -> str:
    """E-mail address of the tenant's owner of longest standing.

    Raises:
        NotFound: no such tenant, or it has no owner.
    """
    tenant = await accounts.tenant(tenant_name)
    owners = [member.user for member in await accounts.users.members(tenant.id) if member.role is Role.OWNER]
    found = [user for user in [await accounts.users.by_id(subject) for subject in owners] if user is not None]
    if not found:
        raise NotFound(f"the tenant {tenant.name!r} has no owner; name a member with --user.")
    return min(found, key=lambda user: (user.created, user.id)).email

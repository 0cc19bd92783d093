"""Access tokens for service accounts (RFC 6749 §4.4): no person, no consent, no refresh token."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final

from starlette.responses import Response

from app.access.service_accounts import grant_of, role_of
from app.context import SCOPES
from app.errors import OAuthError
from app.oauth.clients.client import Client
from app.oauth.errors import answer
from app.oauth.forms import Parameters
from app.oauth.rfc9068 import mint_access_token
from app.oauth.service import AuthorizationServer
from app.store.control.service_accounts import ServiceAccount

__all__ = ["client_credentials"]

MINUTE: Final = 60.0
HOUR: Final = 3600.0


async def client_credentials(
    services: AuthorizationServer, form: Parameters, caller: Client | ServiceAccount, address: str
) -> Response:
    """A token for the account that proved itself: all that its tenant's owner fixed, or what ``scope`` names of it.

    Raises:
        OAuthError: unauthorized_client, it is no service account or its tenant is not in use; invalid_scope.
    """
    if isinstance(caller, Client):
        raise OAuthError(
            "unauthorized_client",
            "this client acts for people: use authorization_code. An owner makes service accounts for programs",
        )
    tenant = await services.tenants.by_id(caller.tenant)
    if tenant is None or not tenant.in_use:
        raise OAuthError("unauthorized_client", "the tenant of this service account is not in use")
    grant = grant_of(caller)
    grant = replace(grant, scopes=_asked(form, grant.scopes))
    issued = mint_access_token(
        await services.ring(),
        address=address,
        subject=caller.id,
        client=caller.id,
        tenant=caller.tenant,
        role=role_of(caller),
        operator=False,
        grant=grant,
        seconds=services.settings.oauth.access_token_seconds,
    )
    await _note_use(services, caller)
    return answer(
        {
            "access_token": issued.text,
            "token_type": "Bearer",
            "expires_in": services.settings.oauth.access_token_seconds,
            "scope": " ".join(scope for scope in SCOPES if scope in grant.scopes),
        }
    )


async def _note_use(services: AuthorizationServer, account: ServiceAccount) -> None:
    """Its last use within a minute, and one line of the audit an hour: a program that asks in a loop fills neither."""
    idle = time.time() - (account.used or 0) / 1000
    if idle > MINUTE:
        await services.service_accounts.note_use(account)
    if idle > HOUR:
        await services.note("service_account.token", actor=account.id, tenant=account.tenant, target=account.id)


def _asked(form: Parameters, held: frozenset[str]) -> frozenset[str]:
    asked = frozenset((form.one("scope") or "").split())
    if not asked:
        return held
    # Scopes of other servers that a client adds by itself (offline_access) are passed over, as authorize does.
    if not asked & held or (asked & set(SCOPES)) - held:
        raise OAuthError(
            "invalid_scope", f"this service account holds {' '.join(sorted(held))}; an owner can change it"
        )
    return asked & held

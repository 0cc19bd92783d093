"""Token introspection (RFC 7662): a client with a proof of its own asks about the tokens that it was given."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.errors import OAuthError
from app.oauth.clients.authentication import authenticated
from app.oauth.clients.client import Client
from app.oauth.errors import answer
from app.oauth.forms import read_form
from app.oauth.jwks import BadSignature
from app.oauth.rfc9068 import TYP as ACCESS_TOKEN
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.revocations import RevocationKind
from app.store.control.service_accounts import ServiceAccount

__all__ = ["introspect"]

INACTIVE: dict[str, Any] = {"active": False}


async def introspect(services: AuthorizationServer, request: Request) -> Response:
    """What a token is good for. One that is not the caller's own is as inactive as one that does not exist (§4).

    Raises:
        OAuthError: invalid_client, also for a client that cannot prove itself; invalid_request.
    """
    form = await read_form(request)
    caller = await authenticated(services, request, form)
    if isinstance(caller, Client) and not caller.confidential:
        raise OAuthError("invalid_client", "a client that cannot prove itself may not ask about tokens", status=401)
    presented = form.required("token")
    found = await _refresh_token(services, presented, caller)
    return answer(found if found is not None else await _access_token(services, presented, caller))


async def _refresh_token(
    services: AuthorizationServer, presented: str, caller: Client | ServiceAccount
) -> dict[str, Any] | None:
    record = await services.refresh.find(digest(presented))
    if record is None:
        return None
    if isinstance(caller, ServiceAccount) or record.client != caller.key or record.expires_at <= time.time():
        return INACTIVE
    grant = await services.grants.find(record.grant)
    if record.used_at is not None or grant is None or await services.place_of(grant) is None:
        return INACTIVE
    return {
        "active": True,
        "client_id": caller.id,
        "scope": " ".join(grant.scopes),
        "sub": grant.user,
        "iss": record.issuer,
        "iat": int(record.created_at),
        "exp": int(record.expires_at),
    }


async def _access_token(
    services: AuthorizationServer, presented: str, caller: Client | ServiceAccount
) -> dict[str, Any]:
    try:
        header, claims = (await services.ring()).verify(presented)
        grant = str(claims["gk"]["grant"])
    except (BadSignature, KeyError, TypeError, ValueError):
        return INACTIVE
    if header.get("typ") != ACCESS_TOKEN or claims.get("client_id") != caller.id or claims["exp"] <= time.time():
        return INACTIVE
    if await services.revocations.names(RevocationKind.TOKEN, str(claims["jti"])):
        return INACTIVE
    if await services.revocations.ends(RevocationKind.CHANGE, grant, int(claims["gk"]["at"])):
        return INACTIVE
    if not await _in_use(services, caller, grant):
        return INACTIVE
    return {"active": True, "token_type": "Bearer", **_shown(claims)}


async def _in_use(services: AuthorizationServer, caller: Client | ServiceAccount, grant_id: str) -> bool:
    if isinstance(caller, ServiceAccount):
        tenant = await services.tenants.by_id(caller.tenant)
        return caller.grant == grant_id and tenant is not None and tenant.in_use
    grant = await services.grants.find(grant_id)
    return grant is not None and await services.place_of(grant) is not None


def _shown(claims: Mapping[str, Any]) -> dict[str, Any]:
    names = ("scope", "client_id", "sub", "aud", "iss", "exp", "iat", "jti")
    return {name: claims[name] for name in names if name in claims}

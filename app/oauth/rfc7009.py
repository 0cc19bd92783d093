"""Token revocation (RFC 7009): whichever token of a person's grant is presented, the whole grant ends.

A service account's grant is its owner's to end: it gives back the one token that it presents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.oauth.clients.authentication import authenticated
from app.oauth.clients.client import Client
from app.oauth.errors import answer
from app.oauth.forms import read_form
from app.oauth.jwks import BadSignature
from app.oauth.rfc9068 import TYP as ACCESS_TOKEN
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.revocations import Revocation
from app.store.control.service_accounts import ServiceAccount

__all__ = ["revoke"]


async def revoke(services: AuthorizationServer, request: Request) -> Response:
    """End what a refresh or access token stands for. A token that is none of this client's changes nothing; both are
    200.

    Raises:
        OAuthError: invalid_client, invalid_request.
    """
    form = await read_form(request)
    caller = await authenticated(services, request, form)
    presented = form.required("token")
    claims = await _claims(services, presented, caller)
    if isinstance(caller, ServiceAccount):
        if claims is not None:
            await services.revocations.revoke(
                Revocation.of_token(str(claims["jti"]), expires=int(claims["exp"]) * 1000)
            )
            await services.note(
                "service_account.token_revoke", actor=caller.id, tenant=caller.tenant, target=str(claims["jti"])
            )
        return answer({})
    await _end(services, caller, presented, claims)
    return answer({})


async def _end(services: AuthorizationServer, client: Client, presented: str, claims: Mapping[str, Any] | None) -> None:
    record = await services.refresh.find(digest(presented))
    grant_id = record.grant if record is not None else claims["gk"]["grant"] if claims is not None else None
    grant = await services.grants.find(grant_id) if isinstance(grant_id, str) else None
    if grant is not None and grant.client == client.key and grant.revoked_at is None:
        await services.end_grant(grant, "the client gave it back")


async def _claims(
    services: AuthorizationServer, presented: str, caller: Client | ServiceAccount
) -> Mapping[str, Any] | None:
    """The claims of an access token that was given to the caller; None for anything else."""
    try:
        header, claims = (await services.ring()).verify(presented)
        complete = {"jti", "exp"} <= claims.keys() and "grant" in claims["gk"]
    except (BadSignature, KeyError, TypeError, ValueError):
        return None
    ours = header.get("typ") == ACCESS_TOKEN and claims.get("client_id") == caller.id
    return claims if ours and complete else None

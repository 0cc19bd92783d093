"""Token revocation (RFC 7009): whichever token is presented, the whole grant ends."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.oauth.client_authentication import authenticated_client
from app.oauth.errors import answer
from app.oauth.forms import read_form
from app.oauth.jwks import BadSignature
from app.oauth.rfc7591 import Client
from app.oauth.rfc9068 import TYP as ACCESS_TOKEN
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer

__all__ = ["revoke"]


async def revoke(services: AuthorizationServer, request: Request) -> Response:
    """End the grant of a refresh or access token. A token that is none of this client's changes nothing; both are 200.

    Raises:
        OAuthError: invalid_client, invalid_request.
    """
    form = await read_form(request)
    client = await authenticated_client(services, request, form)
    presented = form.required("token")
    grant_id = await _grant_of(services, presented, client)
    grant = await services.grants.find(grant_id) if grant_id is not None else None
    if grant is not None and grant.client == client.key and grant.revoked_at is None:
        await services.end_grant(grant, "the client gave it back")
    return answer({})


async def _grant_of(services: AuthorizationServer, presented: str, client: Client) -> str | None:
    record = await services.refresh.find(digest(presented))
    if record is not None:
        return record.grant if record.client == client.key else None
    try:
        header, claims = (await services.ring()).verify(presented)
        grant = claims["gk"]["grant"]
    except (BadSignature, KeyError, TypeError, ValueError):
        return None
    if header.get("typ") != ACCESS_TOKEN or claims.get("client_id") != client.id or not isinstance(grant, str):
        return None
    return grant

"""The token endpoint (RFC 6749 §3.2, OAuth 2.1 §4.1.3 and §4.3, RFC 8707, RFC 9700 §2.2.2).

A code works once; a second use ends what the first one gave. A refresh token is replaced at each use; for a short
grace the old one yields the same, derived successor, so that parallel refreshes agree; later use ends the grant.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from contextlib import suppress
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from app.context import Grant
from app.errors import CallError, OAuthError
from app.oauth.client_credentials import client_credentials
from app.oauth.clients.authentication import authenticated
from app.oauth.clients.client import Client
from app.oauth.errors import answer
from app.oauth.forms import Parameters, read_form
from app.oauth.rfc8414 import GRANT_TYPES, OFFLINE_ACCESS
from app.oauth.rfc9068 import mint_access_token
from app.oauth.rfc9728 import is_resource
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer, Place, narrowed
from app.store.control.authorizations import CodeRecord
from app.store.control.grants import GrantRecord
from app.store.control.refresh import RefreshRecord
from app.store.control.service_accounts import ServiceAccount

__all__ = ["token"]

DAY: Final = 24 * 3600
MAX_STEPS: Final = 50

_VERIFIER: Final = re.compile(r"[A-Za-z0-9\-._~]{43,128}\Z")


async def token(services: AuthorizationServer, request: Request) -> Response:
    """Exchange a code, a refresh token or the credentials of a service account for tokens.

    Raises:
        OAuthError: as RFC 6749 §5.2 names it.
    """
    address = services.address(request)
    form = await read_form(request)
    grant_type = form.required("grant_type")
    if grant_type not in GRANT_TYPES:
        raise OAuthError("unsupported_grant_type", f"grant_type must be one of {', '.join(GRANT_TYPES)}")
    caller = await authenticated(services, request, form)
    if not all(is_resource(address, resource) for resource in form.many("resource")):
        raise OAuthError("invalid_target", f"the resource of this gateway is {address}/mcp")
    if grant_type == "client_credentials":
        return await client_credentials(services, form, caller, address)
    if isinstance(caller, ServiceAccount):
        raise OAuthError("unauthorized_client", "a service account uses the grant type client_credentials alone")
    if grant_type == "authorization_code":
        return await _exchange_code(services, form, caller, address)
    return await _refresh(services, form, caller, address)


async def _exchange_code(services: AuthorizationServer, form: Parameters, client: Client, address: str) -> Response:
    presented = form.required("code")
    verifier = form.required("code_verifier")
    now = time.time()
    code = await services.authorizations.find_code(digest(presented), client=client.key, issuer=address)
    if code is None:
        raise OAuthError("invalid_grant", "the code is unknown, has expired or belongs to another client")
    grant = await services.grants.find(code.grant)
    if code.used_at is not None:
        raise await _used_twice(services, grant)
    try:
        _check_code(code, form, verifier, now)
    except OAuthError:  # one guess at the verifier is all that a code allows
        await services.authorizations.use_code(code.id, client=client.key, issuer=address, now=now)
        raise
    place = await services.place_of(grant) if grant is not None else None
    if grant is None or place is None:
        raise OAuthError("invalid_grant", "the grant was revoked")
    secrets = await services.secrets()
    first_refresh = secrets.token("first refresh", presented)
    expires = now + services.settings.oauth.refresh_token_days * DAY
    first = RefreshRecord(digest(first_refresh), grant.id, client.key, address, created_at=now, expires_at=expires)
    made = await _issue(services, grant, place, now, refresh=first_refresh)
    if not await services.authorizations.redeem_code(code, first, now=now):
        raise await _used_twice(services, grant)
    if client.kind == "registered":
        with suppress(CallError):  # the code is used up: nothing may keep what it gave from the client any more
            await _replace_older(services, grant, now)
    return made


async def _used_twice(services: AuthorizationServer, grant: GrantRecord | None) -> OAuthError:
    """End what a code gave (OAuth 2.1 §4.1.3): two who hold it are one too many."""
    if grant is not None:
        await services.end_grant(grant, "a code was used twice")
    return OAuthError("invalid_grant", "the code was used before; what it gave has been revoked")


async def _replace_older(services: AuthorizationServer, grant: GrantRecord, now: float) -> None:
    """A client that registers is one installation, which asked anew: for more, or for another tenant. What it held
    before ends, now that it holds the new tokens. The id of a document or of a client that an operator added is shared
    by many installations of one person, each with a grant of its own."""
    for ended in await services.grants.replace_older(grant.id, now=now):
        await services.note("grant.replace", actor=grant.user, tenant=grant.tenant, target=ended, by=grant.id)


def _check_code(code: CodeRecord, form: Parameters, verifier: str, now: float) -> None:
    if code.expires_at <= now:
        raise OAuthError("invalid_grant", "the code has expired")
    redirect_uri = form.one("redirect_uri")
    if redirect_uri is None and code.redirect_given:
        raise OAuthError("invalid_request", "redirect_uri is missing; send the one of the authorization request")
    if redirect_uri is not None and redirect_uri != code.redirect_uri:
        raise OAuthError("invalid_grant", "redirect_uri is not that of the authorization request")
    if not _VERIFIER.match(verifier) or not hmac.compare_digest(_challenge_of(verifier), code.challenge):
        raise OAuthError("invalid_grant", "code_verifier does not fit the code_challenge")


def _challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).decode().rstrip("=")


async def _refresh(services: AuthorizationServer, form: Parameters, client: Client, address: str) -> Response:
    presented = form.required("refresh_token")
    now = time.time()
    record = await services.refresh.find(digest(presented))
    if record is None or record.client != client.key or record.issuer != address or record.expires_at <= now:
        raise OAuthError("invalid_grant", "the refresh token is unknown, has expired or belongs to another client")
    grant = await services.grants.find(record.grant)
    place = await services.place_of(grant) if grant is not None else None
    if grant is None or place is None:
        raise OAuthError("invalid_grant", "the grant was revoked; the person has to connect again")
    only = _narrower(form, grant)
    secrets = await services.secrets()
    successor = secrets.token("next refresh", presented)
    expires = now + services.settings.oauth.refresh_token_days * DAY
    before = await services.refresh.rotate(record.id, successor=digest(successor), now=now, expires_at=expires)
    if before is not None and now - before > services.settings.oauth.refresh_grace_seconds:
        await services.end_grant(grant, "a refresh token was used twice")
        raise OAuthError("invalid_grant", "the refresh token was used before; the grant has been revoked")
    if before is not None:
        successor = await _newest(services, successor)
    await services.grants.touch(grant.id, now=now, expires_at=expires)
    return await _issue(services, grant, place, now, refresh=successor, only=only)


async def _newest(services: AuthorizationServer, successor: str) -> str:
    """The successor, or, where it was used meanwhile, the last of its own: who comes late in the grace must not be
    handed a token whose use would end the grant."""
    secrets = await services.secrets()
    for _ in range(MAX_STEPS):
        record = await services.refresh.find(digest(successor))
        if record is None or record.used_at is None:
            break
        successor = secrets.token("next refresh", successor)
    return successor


def _narrower(form: Parameters, grant: GrantRecord) -> frozenset[str] | None:
    asked = (form.one("scope") or "").split()
    if not asked:
        return None
    if not set(asked) <= {*grant.scopes, OFFLINE_ACCESS}:
        raise OAuthError("invalid_scope", "a refresh cannot ask for more than was granted; send the person to consent")
    return frozenset(asked) - {OFFLINE_ACCESS} or None


async def _issue(
    services: AuthorizationServer,
    record: GrantRecord,
    place: Place,
    now: float,
    *,
    refresh: str,
    only: frozenset[str] | None = None,
) -> Response:
    grant = narrowed(record, place)
    if only is not None:
        grant = Grant(grant.id, grant.scopes & only, grant.read_layers, grant.write_layers, grant.write_layer)
    issued = mint_access_token(
        await services.ring(),
        address=record.issuer,
        subject=record.user,
        client=record.client_id,
        tenant=record.tenant,
        role=place.role,
        operator=place.tenant.admin,
        grant=grant,
        seconds=services.settings.oauth.access_token_seconds,
        # Issued when the place was read: whatever narrowed it since then ends this token too.
        now=now,
    )
    asked_offline = [OFFLINE_ACCESS] if OFFLINE_ACCESS in record.asked else []
    body: dict[str, Any] = {
        "access_token": issued.text,
        "token_type": "Bearer",
        "expires_in": services.settings.oauth.access_token_seconds,
        "refresh_token": refresh,
        "scope": " ".join([*sorted(grant.scopes), *asked_offline]),
    }
    return answer(body)

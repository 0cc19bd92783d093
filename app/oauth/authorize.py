"""The authorization endpoint (RFC 6749 §4.1.1 with OAuth 2.1, RFC 7636, RFC 8707, RFC 9207).

Until client and redirect URI are trusted, an error is a page: nobody is sent to an address that was not checked.
After that every error goes back to the client, with ``state`` and ``iss``.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from app.context import SCOPES
from app.errors import OAuthError
from app.oauth.clients.client import Client
from app.oauth.clients.redirect import matches
from app.oauth.forms import Parameters, read_query
from app.oauth.pages import see_other
from app.oauth.rfc8414 import OFFLINE_ACCESS
from app.oauth.rfc9728 import is_resource
from app.oauth.secrets import digest, new_token
from app.oauth.service import AuthorizationServer
from app.store.control.authorizations import PendingAuthorization

__all__ = ["authorize", "back_to_client"]

PENDING_SECONDS: Final = 15 * 60
MAX_STATE: Final = 4096
DEFAULT_SCOPES: Final = tuple(scope for scope in SCOPES if scope != "admin")

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9\-_]{43}\Z")


@dataclass(frozen=True, slots=True)
class Trusted:
    """A client and an address of its own: from here on errors are redirected."""

    client: Client
    redirect_uri: str
    redirect_given: bool
    state: str


async def authorize(services: AuthorizationServer, request: Request) -> Response:
    """Check a request and go on to the consent page.

    Raises:
        OAuthError: the client or the redirect URI is not to be trusted; to be shown as a page.
    """
    address = services.address(request)
    parameters = read_query(request)
    trusted = await _trusted(services, parameters, address)
    try:
        token = await _pend(services, parameters, trusted, address)
    except OAuthError as error:
        return back_to_client(
            trusted.redirect_uri,
            issuer=address,
            state=trusted.state,
            error=error.error,
            error_description=error.description,
        )
    return see_other(f"/consent?request={token}")


def back_to_client(redirect_uri: str, *, issuer: str, state: str, **parameters: str) -> Response:
    """Send the browser back with ``parameters``, the ``state`` if there was one, and ``iss`` (RFC 9207)."""
    values = {**parameters, **({"state": state} if state else {}), "iss": issuer}
    separator = "&" if "?" in redirect_uri else "?"
    return see_other(f"{redirect_uri}{separator}{urlencode(values)}")


async def _trusted(services: AuthorizationServer, parameters: Parameters, address: str) -> Trusted:
    client_id = parameters.required("client_id")
    try:
        client = await services.client(client_id, address, fresh=True)
    except OAuthError as error:
        # To a person this is a page: 401 would ask the browser for credentials.
        raise OAuthError(error.error, error.description, status=400 if error.status == 401 else error.status) from error
    if client is None:
        raise OAuthError(
            "invalid_client",
            "This gateway does not know the program that sent you here. Remove the connection there and add it again",
        )
    presented = parameters.one("redirect_uri")
    if presented is None and len(client.redirect_uris) != 1:
        raise OAuthError("invalid_request", "redirect_uri is missing")
    redirect_uri = presented or client.redirect_uris[0]
    # The policy may have become stricter since the client registered.
    if not matches(client.redirect_uris, redirect_uri) or not services.policy.allows(redirect_uri):
        raise OAuthError(
            "invalid_request",
            "The program wants you to be sent to an address that it did not register, or that this gateway "
            "does not allow. Nothing was sent there",
        )
    state = parameters.one("state") or ""
    if len(state) > MAX_STATE:
        raise OAuthError("invalid_request", f"state has at most {MAX_STATE} characters")
    return Trusted(client, redirect_uri, presented is not None, state)


async def _pend(services: AuthorizationServer, parameters: Parameters, trusted: Trusted, address: str) -> str:
    _check_kind(parameters)
    challenge = _challenge(parameters)
    if not all(is_resource(address, resource) for resource in parameters.many("resource")):
        raise OAuthError("invalid_target", f"the resource of this gateway is {address}/mcp")
    scopes = _scopes(parameters)
    prompts = (parameters.one("prompt") or "").split()
    if "none" in prompts:
        raise OAuthError("interaction_required", "a person has to consent on this gateway's page")
    token = new_token()
    now = time.time()
    await services.sweep()
    await services.authorizations.add_pending(
        PendingAuthorization(
            id=digest(token),
            issuer=address,
            client_id=trusted.client.id,
            redirect_uri=trusted.redirect_uri,
            redirect_given=trusted.redirect_given,
            state=trusted.state,
            scopes=scopes,
            challenge=challenge,
            sign_in_again="login" in prompts,
            created_at=now,
            expires_at=now + PENDING_SECONDS,
        )
    )
    return token


def _check_kind(parameters: Parameters) -> None:
    if parameters.required("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type must be code")
    if parameters.one("response_mode") not in (None, "query"):
        raise OAuthError("invalid_request", "response_mode must be query")
    if "request" in parameters:
        raise OAuthError("request_not_supported", "request objects are not supported")
    if "request_uri" in parameters:
        raise OAuthError("request_uri_not_supported", "request objects are not supported")


def _challenge(parameters: Parameters) -> str:
    challenge = parameters.required("code_challenge")
    # An absent method means `plain` (RFC 7636 §4.3), which protects nothing.
    if parameters.one("code_challenge_method") != "S256":
        raise OAuthError("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.match(challenge):
        raise OAuthError("invalid_request", "code_challenge must be 43 characters of base64url")
    return challenge


def _scopes(parameters: Parameters) -> list[str]:
    asked = (parameters.one("scope") or "").split()
    if not asked:
        return list(DEFAULT_SCOPES)
    known: list[str] = [scope for scope in (*SCOPES, OFFLINE_ACCESS) if scope in asked]
    if not set(known) - {OFFLINE_ACCESS}:
        if OFFLINE_ACCESS in known:
            return [*DEFAULT_SCOPES, OFFLINE_ACCESS]
        raise OAuthError("invalid_scope", f"none of these scopes exists here; choose from {' '.join(SCOPES)}")
    return known

"""How a client proves itself at the token, revocation and introspection endpoints (RFC 6749 §2.3, OAuth 2.1 §2.4)."""

from __future__ import annotations

import base64
import binascii
import hmac
from dataclasses import dataclass
from urllib.parse import unquote_plus

from starlette.requests import Request

from app.access.service_accounts import PREFIX as ACCOUNT_PREFIX
from app.access.service_accounts import secret_fits
from app.errors import OAuthError
from app.oauth.clients import rfc7523
from app.oauth.clients.client import Client
from app.oauth.forms import Parameters
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer
from app.store.control.service_accounts import ServiceAccount

__all__ = ["authenticated"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the request presents."""

    client_id: str
    secret: str | None = None
    assertion: str | None = None


async def authenticated(services: AuthorizationServer, request: Request, form: Parameters) -> Client | ServiceAccount:
    """The client or service account that sent the request: by ``none``, a secret in the header or body, or a signature.

    Raises:
        OAuthError: invalid_client (401), unknown, deleted, or a wrong or missing proof; invalid_request, two ways
            at once.
    """
    credentials = _credentials(request, form)
    if credentials.client_id.startswith(ACCOUNT_PREFIX):
        return await _account(services, credentials)
    client = await services.client(credentials.client_id, services.address(request))
    if client is None:
        raise _refused("this gateway does not know the client; register again")
    if client.authentication == "private_key_jwt":
        if client.kind == "document":  # a key that was taken out of the document must stop counting
            client = await services.client(client.id, services.address(request), fresh=True) or client
        return await rfc7523.proven(services, client, credentials.assertion, services.address(request))
    if credentials.assertion is not None:
        raise _refused("this client has no keys to sign with; it authenticates as it registered")
    # Public clients that send an empty or made-up secret prove nothing by it, and are not asked to.
    if client.confidential and not await _fits(services, client, credentials.secret):
        raise _refused("the client secret is missing or wrong")
    return client


async def _fits(services: AuthorizationServer, client: Client, secret: str | None) -> bool:
    if secret is None:
        return False
    if client.kind == "preset":
        return hmac.compare_digest(digest(secret), client.secret_hash)
    return (await services.secrets()).fits(secret, "client secret", client.id)


async def _account(services: AuthorizationServer, credentials: Credentials) -> ServiceAccount:
    account = await services.service_accounts.find(credentials.client_id)
    if account is None or credentials.secret is None or not secret_fits(account, credentials.secret):
        raise _refused("the service account is unknown, or its secret is missing or wrong")
    return account


def _credentials(request: Request, form: Parameters) -> Credentials:
    header = request.headers.get("authorization")
    client_id, secret, assertion = form.one("client_id"), form.one("client_secret"), rfc7523.assertion_of(form)
    if sum(each is not None for each in (header, secret, assertion)) > 1:
        raise OAuthError("invalid_request", "the client authenticates in one way alone")
    if header is not None:
        presented = _basic(header)
        if client_id not in (None, presented.client_id):
            raise OAuthError("invalid_request", "client_id is not the one of the Authorization header")
        return presented
    if client_id is None and assertion is not None:
        client_id = rfc7523.subject_of(assertion)
    if client_id is None:
        raise _refused("client_id is missing")
    return Credentials(client_id, secret, assertion)


def _basic(header: str) -> Credentials:
    scheme, _, encoded = header.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError("another scheme")
        text = base64.b64decode(encoded.strip(), validate=True).decode("utf-8")
    except (binascii.Error, ValueError) as error:
        raise _refused("the Authorization header must be Basic with the client's id and secret") from error
    client_id, _, secret = text.partition(":")
    return Credentials(unquote_plus(client_id), unquote_plus(secret) or None)


def _refused(reason: str) -> OAuthError:
    return OAuthError("invalid_client", reason, status=401)

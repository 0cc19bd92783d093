"""How a client proves itself at the token and revocation endpoints (RFC 6749 §2.3, OAuth 2.1 §2.4)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from urllib.parse import unquote_plus

from starlette.requests import Request

from app.errors import OAuthError
from app.oauth.forms import Parameters
from app.oauth.rfc7591 import Client
from app.oauth.service import AuthorizationServer

__all__ = ["authenticated_client"]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the request presents."""

    client_id: str
    secret: str | None


async def authenticated_client(services: AuthorizationServer, request: Request, form: Parameters) -> Client:
    """The client that sent the request: by ``none``, ``client_secret_basic`` or ``client_secret_post``.

    Raises:
        OAuthError: invalid_client (401), unknown, deleted, or a wrong or missing secret; invalid_request, two ways
            at once.
    """
    credentials = _credentials(request, form)
    client = await services.client(credentials.client_id, services.address(request))
    if client is None:
        raise _refused("this gateway does not know the client; register again")
    if not client.confidential:
        # Public clients that send an empty or made-up secret prove nothing by it, and are not asked to.
        return client
    secrets = await services.secrets()
    if credentials.secret is None or not secrets.fits(credentials.secret, "client secret", client.id):
        raise _refused("the client secret is missing or wrong")
    return client


def _credentials(request: Request, form: Parameters) -> Credentials:
    header = request.headers.get("authorization")
    client_id, secret = form.one("client_id"), form.one("client_secret")
    if header is None:
        if client_id is None:
            raise _refused("client_id is missing")
        return Credentials(client_id, secret)
    presented = _basic(header)
    if secret is not None or client_id not in (None, presented.client_id):
        raise OAuthError("invalid_request", "the client authenticates in one way alone, the header or the body")
    return presented


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

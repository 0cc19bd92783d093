"""Dynamic client registration (RFC 7591) that stores nothing.

The client id is the registered metadata itself, compressed and authenticated with a key that rotation never touches.
A flood of registrations therefore costs no storage and locks nobody out; a client is stored when a person consents.
The id of a confidential client yields its secret, which is an HMAC of the id.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import secrets as random
import time
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.errors import OAuthError
from app.oauth.clients.client import Client
from app.oauth.clients.metadata import check_flow, choice, client_name, likely_type, refused, text, web_address
from app.oauth.clients.redirect import RedirectPolicy, read_target
from app.oauth.rfc8414 import AUTHENTICATION_METHODS, REGISTERED_GRANT_TYPES
from app.oauth.secrets import Secrets, encode

__all__ = ["MAX_CLIENT_ID", "PREFIX", "client_secret", "read_client", "register", "registration_response"]

MAX_CLIENT_ID: Final = 1024
MAX_REDIRECTS: Final = 10
PREFIX: Final = "gk1."
"""How the id of a registered client begins."""

MAC_BYTES: Final = 18
MAX_METADATA: Final = 8 * 1024


def register(
    metadata: Mapping[str, Any], *, address: str, policy: RedirectPolicy, secrets: Secrets, now: float | None = None
) -> Client:
    """Judge the metadata of a client and give it an id. Stores nothing.

    Raises:
        OAuthError: invalid_redirect_uri or invalid_client_metadata (RFC 7591 §3.2.2).
    """
    redirects = _redirects(metadata.get("redirect_uris"), policy)
    check_flow(metadata)
    client = Client(
        id="",
        issuer=address,
        name=client_name(metadata, redirects),
        redirect_uris=redirects,
        authentication=choice(metadata, "token_endpoint_auth_method", AUTHENTICATION_METHODS, "none"),
        application_type=choice(metadata, "application_type", ("web", "native"), likely_type(redirects)),
        scope=text(metadata, "scope"),
        uri=web_address(metadata, "client_uri"),
        issued=int(time.time() if now is None else now),
    )
    return _with_id(client, secrets)


def read_client(client_id: str, *, address: str, secrets: Secrets) -> Client | None:
    """The client that ``client_id`` encodes, None when it is none that this gateway gave out for ``address``."""
    if len(client_id) > MAX_CLIENT_ID or not client_id.startswith(PREFIX) or not client_id.isascii():
        return None
    body, _, mac = client_id.removeprefix(PREFIX).partition(".")
    expected = encode(secrets.mac("client", body)[:MAC_BYTES])
    if not hmac.compare_digest(mac, expected):
        return None
    try:
        packed = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        values = json.loads(zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, MAX_METADATA))
    except (binascii.Error, ValueError, zlib.error):
        return None
    if values["i"] != address:
        return None
    return Client(
        id=client_id,
        issuer=values["i"],
        name=values["n"],
        redirect_uris=tuple(values["r"]),
        authentication=values["m"],
        application_type=values["t"],
        scope=values["s"],
        uri=values["u"],
        issued=values["a"],
    )


def client_secret(client_id: str, secrets: Secrets) -> str:
    """The secret of a confidential client: computed, never stored."""
    return secrets.token("client secret", client_id)


def registration_response(client: Client, secrets: Secrets) -> dict[str, Any]:
    """The answer to a registration (RFC 7591 §3.2.1)."""
    response: dict[str, Any] = {
        "client_id": client.id,
        "client_id_issued_at": client.issued,
        "client_name": client.name,
        "redirect_uris": list(client.redirect_uris),
        "token_endpoint_auth_method": client.authentication,
        "application_type": client.application_type,
        "grant_types": list(REGISTERED_GRANT_TYPES),
        "response_types": ["code"],
    }
    if client.scope:
        response["scope"] = client.scope
    if client.uri:
        response["client_uri"] = client.uri
    if client.confidential:
        response |= {"client_secret": client_secret(client.id, secrets), "client_secret_expires_at": 0}
    return response


def _with_id(client: Client, secrets: Secrets) -> Client:
    values = {
        "i": client.issuer,
        "n": client.name,
        "r": client.redirect_uris,
        "m": client.authentication,
        "t": client.application_type,
        "s": client.scope,
        "u": client.uri,
        "a": client.issued,
        # Two clients that register alike in one second are still two, with two secrets.
        "x": random.token_urlsafe(9),
    }
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    plain = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
    if len(plain) > MAX_METADATA:
        raise refused("the metadata is too long; shorten client_name, scope or redirect_uris")
    body = encode(packer.compress(plain) + packer.flush())
    client_id = f"{PREFIX}{body}.{encode(secrets.mac('client', body)[:MAC_BYTES])}"
    if len(client_id) > MAX_CLIENT_ID:
        raise refused("the metadata is too long; shorten client_name, scope or redirect_uris")
    return replace(client, id=client_id)


def _redirects(value: object, policy: RedirectPolicy) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise OAuthError("invalid_redirect_uri", "redirect_uris must be a list of at least one URI")
    if len(value) > MAX_REDIRECTS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris has at most {MAX_REDIRECTS} entries")
    for uri in value:
        if not isinstance(uri, str):
            raise OAuthError("invalid_redirect_uri", "each of redirect_uris must be a text")
        try:
            read_target(uri)
        except ValueError as error:
            raise OAuthError("invalid_redirect_uri", str(error)) from error
        if not policy.allows(uri):
            raise OAuthError(
                "invalid_redirect_uri",
                "this host or scheme is not among those that clients may be redirected to; "
                "the operator can add it to GRAPHKEEP_REDIRECT_HOSTS",
            )
    return tuple(value)

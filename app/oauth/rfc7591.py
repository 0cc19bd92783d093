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
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from urllib.parse import urlsplit

from app.errors import OAuthError
from app.oauth.redirect import RedirectPolicy, read_target
from app.oauth.rfc8414 import AUTHENTICATION_METHODS, GRANT_TYPES
from app.oauth.secrets import Secrets, encode
from app.store.control.revocations import client_key

__all__ = ["MAX_CLIENT_ID", "Client", "client_secret", "read_client", "register", "registration_response"]

MAX_CLIENT_ID: Final = 1024
MAX_NAME: Final = 100
MAX_REDIRECTS: Final = 10
PREFIX: Final = "gk1."
MAC_BYTES: Final = 18
MAX_METADATA: Final = 8 * 1024

AuthenticationMethod = Literal["none", "client_secret_basic", "client_secret_post"]
ApplicationType = Literal["web", "native"]


@dataclass(frozen=True, slots=True)
class Client:
    """A client as it registered. Nothing in it is verified but that this gateway wrote it down."""

    id: str
    issuer: str
    name: str
    redirect_uris: tuple[str, ...]
    authentication: AuthenticationMethod
    application_type: ApplicationType
    scope: str
    uri: str
    issued: int
    """Unix seconds."""

    @property
    def confidential(self) -> bool:
        """Whether it must prove itself with a secret."""
        return self.authentication != "none"

    @property
    def key(self) -> str:
        """The hash under which stores and revocations know it."""
        return client_key(self.id)


def register(
    metadata: Mapping[str, Any], *, address: str, policy: RedirectPolicy, secrets: Secrets, now: float | None = None
) -> Client:
    """Judge the metadata of a client and give it an id. Stores nothing.

    Raises:
        OAuthError: invalid_redirect_uri or invalid_client_metadata (RFC 7591 §3.2.2).
    """
    redirects = _redirects(metadata.get("redirect_uris"), policy)
    _check_grants(metadata)
    client = Client(
        id="",
        issuer=address,
        name=_name(metadata, redirects),
        redirect_uris=redirects,
        authentication=_choice(metadata, "token_endpoint_auth_method", AUTHENTICATION_METHODS, "none"),
        application_type=_choice(metadata, "application_type", ("web", "native"), _likely_type(redirects)),
        scope=_text(metadata, "scope"),
        uri=_web_address(metadata, "client_uri"),
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
        "grant_types": list(GRANT_TYPES),
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
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
    if len(text) > MAX_METADATA:
        raise _refused("the metadata is too long; shorten client_name, scope or redirect_uris")
    body = encode(packer.compress(text) + packer.flush())
    client_id = f"{PREFIX}{body}.{encode(secrets.mac('client', body)[:MAC_BYTES])}"
    if len(client_id) > MAX_CLIENT_ID:
        raise _refused("the metadata is too long; shorten client_name, scope or redirect_uris")
    return Client(
        client_id,
        client.issuer,
        client.name,
        client.redirect_uris,
        client.authentication,
        client.application_type,
        client.scope,
        client.uri,
        client.issued,
    )


def _refused(reason: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", reason)


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


def _check_grants(metadata: Mapping[str, Any]) -> None:
    responses = metadata.get("response_types", ["code"])
    if not isinstance(responses, list) or "code" not in responses:
        raise _refused("response_types must contain code")
    grants = metadata.get("grant_types", list(GRANT_TYPES))
    # What else a client lists (the connector names jwt-bearer) is left out of the answer, as RFC 7591 §3.2.1 allows.
    if not isinstance(grants, list) or "authorization_code" not in grants:
        raise _refused("grant_types must contain authorization_code")


def _choice(metadata: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> Any:
    value = metadata.get(name)
    if value is None:
        return default
    if value not in allowed:
        raise _refused(f"{name} must be one of {', '.join(allowed)}")
    return cast("str", value)


def _text(metadata: Mapping[str, Any], name: str) -> str:
    value = metadata.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.isprintable():
        raise _refused(f"{name} must be a text without control characters")
    return value.strip()


def _name(metadata: Mapping[str, Any], redirects: tuple[str, ...]) -> str:
    name = " ".join(_text(metadata, "client_name").split())
    if len(name) > MAX_NAME:
        raise _refused(f"client_name has at most {MAX_NAME} characters")
    return name or f"Client at {read_target(redirects[0]).host}"


def _web_address(metadata: Mapping[str, Any], name: str) -> str:
    uri = _text(metadata, name)
    if not uri:
        return ""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise _refused(f"{name} must be a web address") from error
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise _refused(f"{name} must be a web address")
    return uri


def _likely_type(redirects: tuple[str, ...]) -> ApplicationType:
    return "web" if read_target(redirects[0]).kind == "web" else "native"

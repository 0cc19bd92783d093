"""RFC 9068: access tokens as JWTs, and what their claims mean here.

``iss`` is the public address that issued the token, ``aud`` exactly the resource that address publishes. The ``gk``
claim holds what the person granted, layers as the data spells them (``""`` tenant-wide, ``*`` every layer).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.context import Grant, Role
from app.oauth.jwks import KeyRing

__all__ = [
    "ENDPOINT",
    "TYP",
    "IssuedToken",
    "grant_claims",
    "issuer_of",
    "mint_access_token",
    "read_grant",
    "resource_of",
]

TYP: Final = "at+jwt"
"""Header ``typ`` of an access token (RFC 9068 §2.1)."""

ENDPOINT: Final = "/mcp"
"""Path of the one protected resource."""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token that was just made. ``text`` is shown to its receiver and kept nowhere."""

    text: str
    id: str
    expires: int
    """Unix seconds."""


def issuer_of(address: str) -> str:
    """Issuer identifier of a public base address: the address itself, without a trailing slash."""
    return address.rstrip("/")


def resource_of(address: str) -> str:
    """Resource identifier (RFC 8707) that a public base address publishes, byte for byte."""
    return address.rstrip("/") + ENDPOINT


def mint_access_token(
    ring: KeyRing,
    *,
    address: str,
    subject: str,
    client: str,
    tenant: str,
    role: Role,
    operator: bool,
    grant: Grant,
    seconds: int,
    now: float | None = None,
) -> IssuedToken:
    """Sign an access token for the resource at ``address``, valid for ``seconds``.

    ``tenant`` is the control id, ``operator`` whether that tenant is the operators' own, ``now`` Unix seconds.

    Raises:
        DatabaseUnavailable: the ring can only verify.
    """
    moment = time.time() if now is None else now
    token_id = secrets.token_urlsafe(16)
    expires = int(moment) + seconds
    claims = {
        "iss": issuer_of(address),
        "aud": resource_of(address),
        "sub": subject,
        "client_id": client,
        "scope": " ".join(sorted(grant.scopes)),
        "jti": token_id,
        "iat": int(moment),
        "exp": expires,
        "gk": grant_claims(tenant=tenant, role=role, operator=operator, grant=grant, now=moment),
    }
    return IssuedToken(ring.sign(TYP, claims, now=moment), token_id, expires)


def grant_claims(*, tenant: str, role: Role, operator: bool, grant: Grant, now: float) -> dict[str, Any]:
    """The ``gk`` claim. ``at`` is ``iat`` in milliseconds: a revocation of all earlier tokens needs to be exact."""
    return {
        "tenant": tenant,
        "role": role.value,
        "operator": operator,
        "grant": grant.id,
        "read": sorted(grant.read_layers),
        "write": sorted(grant.write_layers),
        "layer": grant.write_layer,
        "at": int(now * 1000),
    }


def read_grant(claims: Mapping[str, Any]) -> Grant:
    """The grant that a verified token carries.

    Raises:
        KeyError, TypeError, ValueError: the claims do not have the shape that :func:`grant_claims` gives them.
    """
    own = claims["gk"]
    write_layer = own["layer"]
    if write_layer is not None and not isinstance(write_layer, str):
        raise TypeError("gk.layer")
    return Grant(
        id=_text(own["grant"]),
        scopes=frozenset(_text(claims["scope"]).split()),
        read_layers=_texts(own["read"]),
        write_layers=_texts(own["write"]),
        write_layer=write_layer,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value


def _texts(value: object) -> frozenset[str]:
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return frozenset(_text(item) for item in value)

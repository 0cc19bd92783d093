"""Protected resource metadata (RFC 9728), and which spellings of the resource are understood (RFC 8707)."""

from __future__ import annotations

from typing import Any

from app.context import SCOPES
from app.oauth.rfc9068 import resource_of

__all__ = ["is_resource", "protected_resource_metadata"]


def is_resource(address: str, presented: str) -> bool:
    """Whether ``presented`` names the resource of ``address``: scheme and host in any case, with or without a
    trailing slash; the token carries the one canonical form whichever was sent.
    """
    scheme, separator, rest = presented.partition("://")
    host, slash, path = rest.partition("/")
    spelled = f"{scheme.lower()}{separator}{host.lower()}{slash}{path}"
    return spelled.removesuffix("/") == resource_of(address)


def protected_resource_metadata(address: str) -> dict[str, Any]:
    """The document of the resource at ``address``. No ``offline_access``: that is between client and issuer."""
    return {
        "resource": resource_of(address),
        "authorization_servers": [address],
        "scopes_supported": [scope for scope in SCOPES if scope != "admin"],
        "bearer_methods_supported": ["header"],
        "resource_name": "graphkeep",
    }

"""Authorization server metadata (RFC 8414; RFC 9207 for ``iss``). Each public address is an issuer of its own."""

from __future__ import annotations

from typing import Any, Final

from app.context import SCOPES

__all__ = ["AUTHENTICATION_METHODS", "GRANT_TYPES", "OFFLINE_ACCESS", "authorization_server_metadata"]

OFFLINE_ACCESS: Final = "offline_access"
"""Asked for by clients that want refresh tokens; listed here alone, never by the resource. Claude's connector
asks for them only where it is listed."""

AUTHENTICATION_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
GRANT_TYPES: Final = ("authorization_code", "refresh_token")


def authorization_server_metadata(address: str) -> dict[str, Any]:
    """The document for the issuer ``address`` (public base address without a trailing slash)."""
    return {
        "issuer": address,
        "authorization_endpoint": f"{address}/authorize",
        "token_endpoint": f"{address}/token",
        "registration_endpoint": f"{address}/register",
        "revocation_endpoint": f"{address}/revoke",
        "jwks_uri": f"{address}/.well-known/jwks.json",
        "scopes_supported": [*SCOPES, OFFLINE_ACCESS],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "revocation_endpoint_auth_methods_supported": list(AUTHENTICATION_METHODS),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "protected_resources": [f"{address}/mcp"],
    }

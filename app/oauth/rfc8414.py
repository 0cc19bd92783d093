"""Authorization server metadata (RFC 8414; RFC 9207 for ``iss``). Each public address is an issuer of its own."""

from __future__ import annotations

from typing import Any, Final

from app.context import SCOPES
from app.oauth.clients.keys import ALGORITHMS

__all__ = [
    "AUTHENTICATION_METHODS",
    "GRANT_TYPES",
    "OFFLINE_ACCESS",
    "REGISTERED_GRANT_TYPES",
    "authorization_server_metadata",
]

OFFLINE_ACCESS: Final = "offline_access"
"""Asked for by clients that want refresh tokens; listed here alone, never by the resource. Claude's connector
asks for them only where it is listed."""

AUTHENTICATION_METHODS: Final = ("none", "client_secret_basic", "client_secret_post")
"""How a client that registers may choose to prove itself."""

PROOFS: Final = (*AUTHENTICATION_METHODS, "private_key_jwt")
"""How any client may: one with a document can sign."""

REGISTERED_GRANT_TYPES: Final = ("authorization_code", "refresh_token")
GRANT_TYPES: Final = (*REGISTERED_GRANT_TYPES, "client_credentials")


def authorization_server_metadata(address: str) -> dict[str, Any]:
    """The document for the issuer ``address`` (public base address without a trailing slash)."""
    return {
        "issuer": address,
        "authorization_endpoint": f"{address}/authorize",
        "token_endpoint": f"{address}/token",
        "registration_endpoint": f"{address}/register",
        "revocation_endpoint": f"{address}/revoke",
        "introspection_endpoint": f"{address}/introspect",
        "jwks_uri": f"{address}/.well-known/jwks.json",
        "scopes_supported": [*SCOPES, OFFLINE_ACCESS],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "token_endpoint_auth_methods_supported": list(PROOFS),
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": list(PROOFS),
        "revocation_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        # Whoever introspects proves themselves; a public client cannot (RFC 7662 §2.1).
        "introspection_endpoint_auth_methods_supported": [each for each in PROOFS if each != "none"],
        "introspection_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        # Claude takes client documents only where `none` is listed above as well (fault 1).
        "client_id_metadata_document_supported": True,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "protected_resources": [f"{address}/mcp"],
    }

"""``WWW-Authenticate`` as RFC 6750 §3 and RFC 9728 §5.1 want it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from app.oauth.rfc9068 import ENDPOINT

__all__ = ["challenge", "metadata_url"]

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_UNQUOTABLE: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


def metadata_url(address: str) -> str:
    """Absolute address of the resource's metadata: the path inserted after the origin (RFC 9728 §3.1)."""
    return f"{address.rstrip('/')}{WELL_KNOWN}{ENDPOINT}"


def challenge(address: str, scopes: Iterable[str], *, error: str | None = None, description: str | None = None) -> str:
    """The header's value. Without ``error`` when no token was sent (RFC 6750 §3.1)."""
    parts = {"resource_metadata": metadata_url(address), "scope": " ".join(sorted(scopes))}
    if error is not None:
        parts = {"error": error, **({"error_description": description} if description else {}), **parts}
    return "Bearer " + ", ".join(f'{name}="{_UNQUOTABLE.sub(" ", value)}"' for name, value in parts.items() if value)

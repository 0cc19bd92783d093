"""Keys derived from the one secret that all replicas share: each purpose has its own (RFC 5869, expand step)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

__all__ = ["HANDLE", "Secrets", "digest", "encode", "new_token"]

BYTES: Final = 32
HANDLE: Final = r"[A-Za-z0-9_\-]{20,128}\Z"
"""How codes, links, session and refresh tokens are spelled."""


def encode(raw: bytes) -> str:
    """URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def new_token() -> str:
    """A fresh unguessable text, 256 bits."""
    return encode(secrets.token_bytes(BYTES))


def digest(token: str) -> str:
    """What the store keeps instead of a token. These are random, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Secrets:
    """Everything that is authenticated or derived by the authorization server."""

    def __init__(self, key: bytes) -> None:
        if len(key) < BYTES:
            raise ValueError("the shared secret has at least 32 bytes")
        self._key = key

    def mac(self, purpose: str, *parts: str) -> bytes:
        """32 bytes that only this gateway can compute from ``parts``; unambiguous whatever they contain."""
        key = hmac.digest(self._key, b"graphkeep " + purpose.encode() + b"\x01", "sha256")
        message = b"".join(
            len(raw).to_bytes(4, "big") + raw for raw in (part.encode("utf-8", "surrogatepass") for part in parts)
        )
        return hmac.digest(key, message, "sha256")

    def token(self, purpose: str, *parts: str) -> str:
        """:meth:`mac` as text."""
        return encode(self.mac(purpose, *parts))

    def fits(self, presented: str, purpose: str, *parts: str) -> bool:
        """Whether ``presented`` is the token of ``parts``, compared in constant time."""
        return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), self.token(purpose, *parts).encode())

"""A client, however this gateway came to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from app.store.control.revocations import client_key

__all__ = ["ApplicationType", "AuthenticationMethod", "Client", "ClientKind"]

AuthenticationMethod = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
ApplicationType = Literal["web", "native"]
ClientKind = Literal["registered", "document", "preset"]
"""Registered by itself (RFC 7591), described by the document that its id points to, or added by an operator."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client. What a registered one says of itself is not verified; a document was found at the address that is the
    client's id, so that its host stands behind it; a preset one was typed in by an operator."""

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
    kind: ClientKind = "registered"
    secret_hash: str = ""
    """Of a preset client: the hash of its secret."""
    keys: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    """Of a client that signs (``private_key_jwt``): its public keys as JWKs."""

    @property
    def confidential(self) -> bool:
        """Whether it must prove itself."""
        return self.authentication != "none"

    @property
    def key(self) -> str:
        """The hash under which stores and revocations know it."""
        return client_key(self.id)

    @property
    def host(self) -> str:
        """Of a client with a document: the host that publishes it; else nothing."""
        return urlsplit(self.id).netloc if self.kind == "document" else ""

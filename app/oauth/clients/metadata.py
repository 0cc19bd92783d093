"""Reading the metadata of a client (RFC 7591 §2), whether it was sent here or found at the client's address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import urlsplit

from app.errors import OAuthError
from app.oauth.clients.client import ApplicationType
from app.oauth.clients.redirect import read_target

__all__ = ["MAX_NAME", "check_flow", "choice", "client_name", "likely_type", "refused", "text", "web_address"]

MAX_NAME: Final = 100


def refused(reason: str) -> OAuthError:
    """The error for metadata that cannot be used."""
    return OAuthError("invalid_client_metadata", reason)


def check_flow(metadata: Mapping[str, Any]) -> None:
    """Let pass a client that uses the authorization code.

    Raises:
        OAuthError: invalid_client_metadata, it says that it does not.
    """
    responses = metadata.get("response_types", ["code"])
    if not isinstance(responses, list) or "code" not in responses:
        raise refused("response_types must contain code")
    grants = metadata.get("grant_types", ["authorization_code"])
    # What else a client lists (the connector names jwt-bearer) is left out of the answer, as RFC 7591 §3.2.1 allows.
    if not isinstance(grants, list) or "authorization_code" not in grants:
        raise refused("grant_types must contain authorization_code")


def choice(metadata: Mapping[str, Any], name: str, allowed: tuple[str, ...], default: str) -> Any:
    """One of ``allowed``.

    Raises:
        OAuthError: invalid_client_metadata, it is another.
    """
    value = metadata.get(name)
    if value is None:
        return default
    if value not in allowed:
        raise refused(f"{name} must be one of {', '.join(allowed)}")
    return cast("str", value)


def text(metadata: Mapping[str, Any], name: str) -> str:
    """A text, empty when absent.

    Raises:
        OAuthError: invalid_client_metadata, it is no text or holds control characters.
    """
    value = metadata.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or not value.isprintable():
        raise refused(f"{name} must be a text without control characters")
    return value.strip()


def client_name(metadata: Mapping[str, Any], redirects: tuple[str, ...]) -> str:
    """The name to show; where none is given, one made of where it sends people.

    Raises:
        OAuthError: invalid_client_metadata, it is too long or no text.
    """
    name = " ".join(text(metadata, "client_name").split())
    if len(name) > MAX_NAME:
        raise refused(f"client_name has at most {MAX_NAME} characters")
    return name or f"Client at {read_target(redirects[0]).host}"


def web_address(metadata: Mapping[str, Any], name: str) -> str:
    """An address for people, empty when absent.

    Raises:
        OAuthError: invalid_client_metadata, it is no web address.
    """
    uri = text(metadata, name)
    if not uri:
        return ""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise refused(f"{name} must be a web address") from error
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise refused(f"{name} must be a web address")
    return uri


def likely_type(redirects: tuple[str, ...]) -> ApplicationType:
    """What a client is that does not say so."""
    return "web" if read_target(redirects[0]).kind == "web" else "native"

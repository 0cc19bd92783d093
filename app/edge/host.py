"""Which of the public addresses a request came to; any other host is told the right ones (RFC 9110 §15.5.20)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.answers import problem
from app.edge.context import context_of, with_context

__all__ = ["PROBES", "Host", "canonical"]

PROBES: Final = frozenset({"/healthz", "/readyz"})
"""Paths that orchestrators ask by IP address."""

NO_AUTHORITY: Final = frozenset(b"/?#@\\")
"""What a Host field never holds (RFC 9110 §7.2), and what two parsers read differently."""
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def canonical(url: str) -> str:
    """A base address in one spelling: lower case, no default port, no trailing slash.

    Raises:
        ValueError: it is no http(s) address.
    """
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("not an http(s) address")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    authority = host if port is None or port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
    return f"{scheme}://{authority}{parts.path.rstrip('/')}"


class Host:
    """Lets only the public addresses in, and records which one it was."""

    def __init__(self, app: ASGIApp, *, addresses: Iterable[str]) -> None:
        self.app = app
        self._addresses = {canonical(address): address for address in addresses}
        self._spelled = {(one.partition("://")[0], one.partition("://")[2].encode()): one for one in self._addresses}
        """The usual spelling, so that the usual request parses nothing."""
        self._authorities = {address.partition("://")[2] for address in self._addresses}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the address and go on, or answer 421."""
        asked = self._asked(scope)
        address = self._addresses.get(asked)
        if address is None and scope["path"] not in PROBES:
            await self._misdirected(scope, asked)(scope, receive, send)
            return
        context = replace(context_of(scope), address=address or next(iter(self._addresses.values())))
        await self.app(with_context(scope, context), receive, send)

    def _misdirected(self, scope: Scope, asked: str) -> ASGIApp:
        known = ", ".join(self._addresses.values())
        message = f"This gateway answers at {known}. Use one of these, or name yours in GRAPHKEEP_PUBLIC_URLS."
        if asked.partition("://")[2] in self._authorities:
            message = (
                f"This gateway answers at {known}: the host is right, the scheme is not. Behind a proxy that ends TLS, "
                "let it send X-Forwarded-Proto and name its address in GRAPHKEEP_TRUSTED_PROXIES."
            )
        return problem(scope, 421, "misdirected_request", message)

    def _asked(self, scope: Scope) -> str:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1:  # RFC 9112 §3.2: none or several are a malformed request
            return ""
        if not NO_AUTHORITY.isdisjoint(hosts[0]):
            return ""
        usual = self._spelled.get((scope["scheme"], hosts[0]))
        if usual is not None:
            return usual
        try:
            return canonical(f"{scope['scheme']}://{hosts[0].decode('latin-1')}")
        except ValueError:
            return ""

"""Who is at the other end, when proxies stand between.

Forwarded headers, and what an identity proxy says about the person, are believed from the Unix socket (Caddy, the only
one that can open it) and from the configured networks; from anyone else they are removed, so that nothing behind this
stage can believe them by mistake. Of a chain in ``X-Forwarded-For`` only the rightmost hop that is not a trusted proxy
counts: what stands left of it was written by the client.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.context import context_of, with_context
from app.errors import StartError

__all__ = ["Proxies"]

FORWARDED: Final = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-port", b"x-real-ip"}
)
VOUCHING: Final = frozenset({b"cf-access-jwt-assertion"})
"""Who the person is, as a proxy says that checked it."""
LOCAL: Final = "local"

Address = IPv4Address | IPv6Address


class Proxies:
    """Settles client address, scheme and host, and drops the forwarded headers."""

    def __init__(self, app: ASGIApp, *, trusted: Iterable[str]) -> None:
        self.app = app
        self._networks = tuple(_network(text) for text in trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Settle who called and go on."""
        forwarded = [(name, value) for name, value in scope["headers"] if name in FORWARDED]
        peer = scope["client"][0] if scope.get("client") else LOCAL
        trusted = _by_unix_socket(scope) or self._trusts(_address(peer))
        dropped = FORWARDED if trusted else FORWARDED | VOUCHING
        settled = {**scope, "headers": [pair for pair in scope["headers"] if pair[0] not in dropped]}
        if trusted:
            peer = self._client(forwarded) or peer
            self._rewrite(settled, forwarded)
        context = replace(context_of(scope), peer=peer)
        await self.app(with_context(settled, context), receive, send)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self._networks)

    def _client(self, forwarded: list[tuple[bytes, bytes]]) -> str | None:
        chain = ",".join(value.decode("latin-1") for name, value in forwarded if name == b"x-forwarded-for")
        client: str | None = None
        for hop in reversed([hop for hop in chain.split(",") if hop.strip()]):
            address = _address(hop.strip())
            if address is None:
                break
            client = str(address)
            if not self._trusts(address):
                break
        return client

    @staticmethod
    def _rewrite(scope: Scope, forwarded: list[tuple[bytes, bytes]]) -> None:
        last = dict(forwarded)
        scheme = last.get(b"x-forwarded-proto", b"").decode("latin-1").strip().lower()
        if scheme in {"http", "https"}:
            scope["scheme"] = scheme
        host = last.get(b"x-forwarded-host", b"").strip()
        if host:
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"host"] + [(b"host", host)]


def _by_unix_socket(scope: Scope) -> bool:
    # Told by our own end, (path, None): a TCP peer that is already gone has no address either.
    server = scope.get("server")
    return server is not None and server[1] is None


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise StartError(
            f"GRAPHKEEP_TRUSTED_PROXIES: {text!r} is neither an address nor a network; write 10.0.0.1 or 10.0.0.0/8.",
            exit_code=78,
        ) from error


def _address(text: str) -> Address | None:
    try:
        address = ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address

"""Which addresses may be fetched from: public ones, whatever a stranger calls them."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final
from urllib.parse import urlsplit

__all__ = ["NoPublicHost", "Resolve", "Unfetchable", "addresses_of", "check_location", "is_public", "looking_up"]

MAX_URL: Final = 1024
HTTPS: Final = 443
MAX_LOOKUPS: Final = 32

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a host, in the order to try them."""

_LABEL: Final = r"[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?"
_HOST: Final = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}\Z", re.ASCII)
_URL: Final = re.compile(r"https://[a-z0-9.\-]+(?::[0-9]{1,5})?/[A-Za-z0-9\-._~!$&'()*+,;=:@%/?]*\Z", re.ASCII)

# `ipaddress.is_global` alone lets these pass: protocol assignments, relays of 6to4, multicast (RFC 6890).
_NEVER_V4: Final = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/4", "240.0.0.0/4")))
# Of IPv6 only what is handed out to networks (RFC 4291 §2.4) can be public. That leaves out loopback, link-local,
# unique local, multicast, IPv4-mapped and NAT64 (64:ff9b::/96) addresses; the rest below lies inside of it: Teredo and
# other assignments, documentation, and 6to4, which carries an IPv4 address of any kind.
_HANDED_OUT_V6: Final = ipaddress.IPv6Network("2000::/3")
_NEVER_V6: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


class Unfetchable(Exception):
    """The document cannot be had. ``reason`` completes the sentence "the document …"; ``passing``: later it might."""

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


class NoPublicHost(Unfetchable):
    """Its host has no name that can be resolved, or an address that is not public."""


def check_location(url: str, *, allowed: Iterable[str] = ()) -> tuple[str, int]:
    """Host and port of an https address that may be fetched at all, before anything is resolved.

    ``allowed`` names hosts (``host`` or ``host:port``) for which any address and, where it is named, another port are
    fine.

    Raises:
        Unfetchable: another scheme, user information, a fragment, a literal address, another port, or dot segments.
    """
    if len(url) > MAX_URL:
        raise Unfetchable(f"has an address of more than {MAX_URL} characters")
    if not _URL.match(url):
        raise Unfetchable("must lie at an https:// address with a path, a plain lower-case host and nothing else")
    parts = urlsplit(url)
    host, _, written = parts.netloc.partition(":")
    port = int(written) if written else HTTPS
    segments = re.split(r"/", parts.path.lower().replace("%2e", "."))
    if "." in segments or ".." in segments:
        raise Unfetchable("has an address with dot segments")
    named = {host, f"{host}:{port}"}.intersection(allowed)
    if not _HOST.match(host) or host.rpartition(".")[2].isdigit() or ("." not in host and not named):
        raise Unfetchable("must lie at a host with a public name")
    if port != HTTPS and f"{host}:{port}" not in named:
        raise Unfetchable("must lie at port 443")
    return host, port


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet, whatever notation it came in."""
    try:
        parsed: Address = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed.is_global and not any(parsed in network for network in _NEVER_V4)
    if parsed.scope_id is not None or parsed not in _HANDED_OUT_V6:
        return False
    return not any(parsed in network for network in _NEVER_V6)


def looking_up(most: int) -> Resolve:
    """Asks the system for every address of a host, IPv4 first; at most ``most`` at once.

    Each look-up has a thread of its own that nothing waits for at the end: the resolver of the system can hang for half
    a minute, and would hold up a shared pool of threads, or the process when it stops. It raises OSError: the name has
    no address, or too many are being looked up.
    """
    free = threading.BoundedSemaphore(most)

    async def addresses(host: str, port: int) -> Sequence[str]:
        if not free.acquire(blocking=False):
            raise OSError("too many names are being looked up")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def told(found: list[str] | OSError) -> None:
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def look_up() -> None:
            try:
                found = _asked(host, port)
            finally:
                free.release()
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(told, found)

        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        return await answer

    return addresses


addresses_of: Final = looking_up(MAX_LOOKUPS)
"""Look-ups for whoever has no bound of their own."""


def _asked(host: str, port: int) -> list[str] | OSError:
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return error
    except UnicodeError:
        return OSError("the name cannot be asked for")
    rows.sort(key=lambda row: row[0] != socket.AF_INET)
    return list(dict.fromkeys(str(row[4][0]) for row in rows))

"""Fetching a document from an address that a stranger named, so that it can reach nothing but the public internet.

The host is resolved once. Every address of the answer must be public; the connection goes to one of exactly these, so
that a second answer of the name server changes nothing. Time and size are bounded, redirects are not followed, no proxy
of the environment is used. TLS is verified for the host's name.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2
import httpx2

__all__ = ["Fetched", "Fetcher", "Unfetchable", "addresses_of", "check_location", "is_public"]

SECONDS: Final = 5.0
MAX_BYTES: Final = 32 * 1024
MAX_URL: Final = 1024
HTTPS: Final = 443
MAX_ADDRESSES: Final = 16
MAX_LOOKUPS: Final = 32

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

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
    """The document cannot be had. ``reason`` completes the sentence "the document …"."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete answer of status 200. Header names are in lower case."""

    body: bytes
    headers: Mapping[str, str]


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


class Fetcher:
    """Fetches documents. ``resolve`` finds the addresses of a host, in the order to try them."""

    def __init__(
        self,
        *,
        allowed: Iterable[str] = (),
        seconds: float = SECONDS,
        max_bytes: int = MAX_BYTES,
        resolve: Resolve | None = None,
    ) -> None:
        self._allowed = frozenset(allowed)
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._resolve = resolve or addresses_of
        self._tls: ssl.SSLContext | None = None

    async def get(self, url: str) -> Fetched:
        """The document at ``url``.

        Raises:
            Unfetchable: it cannot be had; the reason names the cause.
        """
        host, port = check_location(url, allowed=self._allowed)
        try:
            async with asyncio.timeout(self._seconds):
                addresses = await self._addresses(host, port)
                return await self._request(url, _Pinned(host, port, addresses))
        except TimeoutError as error:
            raise Unfetchable(f"did not come within {self._seconds:g} s") from error
        except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
            if isinstance(error.__cause__ or error.__context__, ssl.SSLError):
                raise Unfetchable("lies at a host whose certificate is not valid for it") from error
            raise Unfetchable("could not be fetched: its host does not answer") from error
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise Unfetchable("could not be fetched: its host does not speak proper HTTP") from error

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise Unfetchable("lies at a host whose name cannot be resolved") from error
        if not addresses or len(addresses) > MAX_ADDRESSES:
            raise Unfetchable(f"lies at a host with no address, or more than {MAX_ADDRESSES}")
        if self._allowed.isdisjoint({host, f"{host}:{port}"}) and not all(map(is_public, addresses)):
            raise Unfetchable("lies at a host with an address that is not public")
        return addresses

    async def _request(self, url: str, backend: httpcore2.AsyncNetworkBackend) -> Fetched:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": "graphkeep",
            "Connection": "close",
        }
        async with (
            # A pool of its own: a connection kept from an earlier document would not have been resolved for this one.
            httpcore2.AsyncConnectionPool(
                ssl_context=await self._authorities(), network_backend=backend, max_connections=1, retries=0
            ) as pool,
            pool.stream("GET", url, headers=list(headers.items())) as response,
        ):
            if response.status != 200:
                raise Unfetchable(_said(response.status))
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            if found.get("content-encoding", "identity") != "identity":
                raise Unfetchable("came compressed, which was not asked for")
            return Fetched(await self._body(response), found)

    async def _authorities(self) -> ssl.SSLContext:
        if self._tls is None:
            try:
                self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
            except OSError as error:
                raise Unfetchable("was not fetched: SSL_CERT_FILE of this gateway cannot be read") from error
        return self._tls

    async def _body(self, response: httpcore2.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_stream():
            size += len(part)
            if size > self._max_bytes:
                raise Unfetchable(f"is larger than {self._max_bytes // 1024} KiB")
            parts.append(part)
        return b"".join(parts)


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were judged, and to nothing else, whatever it is asked for."""

    def __init__(self, host: str, port: int, addresses: Sequence[str]) -> None:
        self._place = (host, port)
        self._addresses = addresses
        self._plain = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if (host, port) != self._place:
            raise httpcore2.ConnectError("this connection is for another host")
        failure: Exception = httpcore2.ConnectError("no address")
        for address in self._addresses:
            try:
                return await self._plain.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_lookups: Final = threading.BoundedSemaphore(MAX_LOOKUPS)


async def addresses_of(host: str, port: int) -> Sequence[str]:
    """Every address of a host, IPv4 first.

    Each look-up has a thread of its own that nothing waits for at the end: the resolver of the system can hang for half
    a minute, and would hold up a shared pool of threads, or the process when it stops.

    Raises:
        OSError: the name has none, or too many are being looked up.
    """
    if not _lookups.acquire(blocking=False):
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
        found: list[str] | OSError
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            rows.sort(key=lambda row: row[0] != socket.AF_INET)
            found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except OSError as error:
            found = error
        except UnicodeError:
            found = OSError("the name cannot be asked for")
        finally:
            _lookups.release()
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(told, found)

    threading.Thread(target=look_up, name="look-up", daemon=True).start()
    return await answer


def _said(status: int) -> str:
    if 300 <= status < 400:
        return f"is not there: its host redirects ({status}), which is not followed"
    if status == 403:
        return "is refused by its host (403); a firewall there may take this gateway for a robot"
    return f"is not there: its host answers {status}"

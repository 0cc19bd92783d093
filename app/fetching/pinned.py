"""One GET of an https address, so that it can reach nothing but the public internet.

The host is resolved once. Every address of the answer must be public; the connection goes to one of exactly these, so
that a second answer of the name server changes nothing. Redirects are not followed, no proxy of the environment is
used. TLS is verified for the host's name. Who asks bounds time and size.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpcore2
import httpx2

from app.fetching.addresses import NoPublicHost, Resolve, Unfetchable, addresses_of, check_location, is_public

__all__ = ["Answer", "Asking"]

MAX_ADDRESSES: Final = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a host answered. Header names are in lower case; the body is there to be read once."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncIterator[bytes]

    @property
    def said(self) -> str:
        """Why another status than 200 is no document, as the end of a sentence."""
        if 300 <= self.status < 400:
            return f"is not there: its host redirects ({self.status}), which is not followed"
        if self.status == 403:
            return "is refused by its host (403); a firewall there may take this gateway for a robot"
        return f"is not there: its host answers {self.status}"


class Asking:
    """Asks hosts for documents. ``allowed``: as :func:`check_location` has it. ``accept``: the header of that name."""

    def __init__(self, *, accept: str, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._accept = accept
        self._allowed = frozenset(allowed)
        self._resolve = resolve or addresses_of
        self._tls: ssl.SSLContext | None = None

    @asynccontextmanager
    async def get(self, url: str) -> AsyncIterator[Answer]:
        """The answer of the host, its body not yet read.

        Raises:
            Unfetchable: the address may not be asked, or its host does not answer properly, also while it is read.
        """
        host, port = check_location(url, allowed=self._allowed)
        backend = _Pinned(host, port, await self._addresses(host, port))
        tls = await self._authorities()
        headers = {
            "Accept": self._accept,
            "Accept-Encoding": "identity",
            "User-Agent": "graphkeep",
            "Connection": "close",
        }
        try:
            async with (
                # A pool of its own: an earlier document's connection would not have been resolved for this one.
                httpcore2.AsyncConnectionPool(
                    ssl_context=tls, network_backend=backend, max_connections=1, retries=0
                ) as pool,
                pool.stream("GET", url, headers=list(headers.items())) as response,
            ):
                found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                if response.status == httpx2.codes.OK and found.get("content-encoding", "identity") != "identity":
                    raise Unfetchable("came compressed, which was not asked for")
                yield Answer(response.status, found, response.aiter_stream())
        except (httpcore2.TimeoutException, httpcore2.NetworkError) as error:
            if isinstance(error.__cause__ or error.__context__, ssl.SSLError):
                raise Unfetchable("lies at a host whose certificate is not valid for it") from error
            raise Unfetchable("could not be fetched: its host does not answer", passing=True) from error
        except (httpcore2.ProtocolError, httpcore2.UnsupportedProtocol) as error:
            raise Unfetchable("could not be fetched: its host does not speak proper HTTP") from error

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise NoPublicHost("lies at a host whose name cannot be resolved", passing=True) from error
        if not addresses or len(addresses) > MAX_ADDRESSES:
            raise NoPublicHost(f"lies at a host with no address, or more than {MAX_ADDRESSES}")
        if self._allowed.isdisjoint({host, f"{host}:{port}"}) and not all(map(is_public, addresses)):
            raise NoPublicHost("lies at a host with an address that is not public")
        return addresses

    async def _authorities(self) -> ssl.SSLContext:
        if self._tls is None:
            try:
                self._tls = await asyncio.to_thread(httpx2.create_ssl_context)
            except OSError as error:
                raise Unfetchable("was not fetched: SSL_CERT_FILE of this gateway cannot be read") from error
        return self._tls


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

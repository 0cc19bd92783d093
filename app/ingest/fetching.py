"""Fetching a document that a caller names by its address, where the operator of the gateway allows that.

Who may send a file may have it fetched, into the same layers and under the same limits. Each redirect is judged like
the address that was given: https alone, public addresses alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Final
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from app.context import Deadline
from app.errors import CallError, Forbidden, InvalidInput
from app.fetching.addresses import NoPublicHost, Resolve, Unfetchable, looking_up
from app.fetching.pinned import Answer, Asking
from app.ingest.files import Files, Staged, TooLargeFile
from app.ingest.names import name_of_address
from app.settings import IngestSettings

__all__ = ["Fetching", "NotFetched", "kept_address", "plain_address"]

Room = Callable[[str, int], Awaitable[None]]
"""Lets so many bytes come for a tenant, or refuses them."""

SECONDS: Final = 8.0
SHARE: Final = 0.55
"""Part of a call's time that fetching may take; the rest is for accepting what came."""
REDIRECTS: Final = 3
LOOKUPS: Final = 8
"""Names looked up at once, apart from those of clients that sign in: those never wait for documents."""

_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_SAFE: Final = "/%:@!$&'()*+,;=-._~"


class NotFetched(CallError):
    """The host did not give the document this time."""

    reason = "not_fetched"
    retryable: ClassVar[bool] = True
    status = 502


class Fetching:
    """Fetches documents. ``room`` is asked before bytes come; ``resolve`` finds the addresses of a host."""

    def __init__(self, files: Files, settings: IngestSettings, *, room: Room, resolve: Resolve | None = None) -> None:
        self._files = files
        self._settings = settings
        self._room = room
        self._asking = Asking(accept="*/*", allowed=settings.ingest_url_hosts, resolve=resolve or looking_up(LOOKUPS))

    def require_allowed(self) -> None:
        """Let pass where the operator allows it.

        Raises:
            Forbidden: this gateway fetches nothing.
        """
        if not self._settings.ingest_urls:
            raise Forbidden(
                "this gateway does not fetch addresses (its operator may allow it: GRAPHKEEP_INGEST_URLS). Send what "
                "lies there as content, or by PUT /ingest/{name}. Nothing was stored."
            )

    async def fetch(self, tenant: str, url: str, *, name: str | None, deadline: Deadline) -> tuple[str, Staged]:
        """Name and bytes of what lies at ``url``, which is as :func:`plain_address` gives it. ``name``: its file name.

        Raises:
            Forbidden: this gateway fetches nothing. InvalidInput: it may not be fetched, or nothing here reads it.
            NotFetched: its host does not give it now. TooLargeFile, QuotaExceeded: it is larger than it may be.
        """
        self.require_allowed()
        seconds = min(SECONDS, deadline.remaining() * SHARE)
        try:
            async with asyncio.timeout(seconds):
                return await self._followed(tenant, url, name)
        except TimeoutError:
            raise NotFetched(f"the document did not come within {seconds:.0f} s. Nothing was stored.") from None
        except NoPublicHost:
            # One answer for both: which names the gateway's own network knows is not for callers to find out.
            raise InvalidInput(
                "the document lies at a host that has no public address, or whose name cannot be resolved now. "
                "Nothing was stored.",
                field="url",
            ) from None
        except Unfetchable as error:
            message = f"the document {error.reason}. Nothing was stored."
            if error.passing:
                raise NotFetched(message) from None
            raise InvalidInput(message, field="url") from None

    async def _followed(self, tenant: str, url: str, name: str | None) -> tuple[str, Staged]:
        for _ in range(REDIRECTS + 1):
            async with self._asking.get(url) as answer:
                target = answer.headers.get("location") if answer.status in _MOVED else None
                if target is None:
                    return await self._taken(tenant, url, name, answer)
            url = plain_address(target, base=url)
        raise Unfetchable(f"is not there: its host redirects more than {REDIRECTS} times")

    async def _taken(self, tenant: str, url: str, name: str | None, answer: Answer) -> tuple[str, Staged]:
        if answer.status != 200:
            raise Unfetchable(answer.said, passing=answer.status >= 500)
        called = name_of_address(url, answer.headers.get("content-type", ""), name)
        declared = answer.headers.get("content-length", "0")
        size = int(declared) if declared.isascii() and declared.isdigit() else 0
        if size > self._files.limit:
            raise TooLargeFile(self._files.limit)
        await self._room(tenant, size)
        staged = await asyncio.to_thread(self._files.stage, tenant)
        try:
            async for part in answer.parts:
                await staged.write(part)
        except BaseException:
            staged.discard()
            raise
        return called, staged


def plain_address(url: str, *, base: str = "") -> str:
    """An address as it is asked for: without a fragment, its scheme and host in lower case.

    ``base``: the address that a relative one was found at.

    Raises:
        Unfetchable: it is none, or has a user name or password in it.
    """
    try:
        parts = urlsplit(urljoin(base, url.strip()))
        path, query = quote(parts.path or "/", safe=_SAFE), quote(parts.query, safe=f"{_SAFE}?")
    except ValueError:
        raise Unfetchable("must lie at an https:// address") from None
    if "@" in parts.netloc:
        raise Unfetchable("must lie at an address without a user name or password")
    return urlunsplit((parts.scheme, parts.netloc.lower(), path, query, ""))


def kept_address(address: str) -> str:
    """What is recorded of an address that :func:`plain_address` gave: not its query, which may hold a token."""
    return urlunsplit(urlsplit(address)._replace(query=""))

"""Fetching the small document that a stranger named as its metadata; time and size are bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from app.fetching.addresses import Resolve, Unfetchable
from app.fetching.pinned import Asking

__all__ = ["Fetched", "Fetcher"]

SECONDS: Final = 5.0
MAX_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    """A complete answer of status 200. Header names are in lower case."""

    body: bytes
    headers: Mapping[str, str]


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
        self._asking = Asking(accept="application/json", allowed=allowed, resolve=resolve)
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def get(self, url: str) -> Fetched:
        """The document at ``url``.

        Raises:
            Unfetchable: it cannot be had; the reason names the cause.
        """
        try:
            async with asyncio.timeout(self._seconds), self._asking.get(url) as answer:
                if answer.status != 200:
                    raise Unfetchable(answer.said)
                return Fetched(await self._body(answer.parts), answer.headers)
        except TimeoutError as error:
            raise Unfetchable(f"did not come within {self._seconds:g} s", passing=True) from error

    async def _body(self, received: AsyncIterator[bytes]) -> bytes:
        parts: list[bytes] = []
        size = 0
        async for part in received:
            size += len(part)
            if size > self._max_bytes:
                raise Unfetchable(f"is larger than {self._max_bytes // 1024} KiB")
            parts.append(part)
        return b"".join(parts)

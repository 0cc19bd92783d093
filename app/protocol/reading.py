"""Taking bodies in, so that no tenant's take all the room: one token must be able neither to fill the memory with
megabytes that never end nor to occupy every request that may be open.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from starlette.types import Receive

from app.errors import Overloaded

__all__ = ["Reading"]

AT_ONCE: Final = 250
"""Bodies of one tenant that may be on their way in: a quarter of the requests that may be open by default."""
LARGE_AT_ONCE: Final = 16
LARGE: Final = 256 * 1024
"""Bytes from which on a body counts as large."""


class Reading:
    """The bodies under way in one process, by tenant."""

    def __init__(self) -> None:
        self._all: Counter[str] = Counter()
        self._large: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._all.total()

    async def body(self, tenant: str, receive: Receive) -> bytes | None:
        """The whole body, or None when the client went away before it ended.

        Raises:
            Overloaded: too many of this tenant are being read; nothing was done.
        """
        _enter(self._all, tenant, AT_ONCE)
        large = False
        chunks: list[bytes] = []
        size = 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if not message.get("more_body", False):
                    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
                if size > LARGE and not large:
                    _enter(self._large, tenant, LARGE_AT_ONCE)
                    large = True
        finally:
            _leave(self._all, tenant)
            if large:
                _leave(self._large, tenant)


def _enter(counts: Counter[str], tenant: str, most: int) -> None:
    if counts[tenant] >= most:
        raise Overloaded(
            "Too many requests of this tenant are still being sent; nothing was done. Try again shortly.",
            retry_after_ms=1000,
        )
    counts[tenant] += 1


def _leave(counts: Counter[str], tenant: str) -> None:
    counts[tenant] -= 1
    if counts[tenant] <= 0:
        del counts[tenant]

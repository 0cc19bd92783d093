"""Token buckets: how many calls a (tenant, client) may make in a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from app.contract import Cost

__all__ = ["BEGINS", "Bucket", "LocalBucket", "Rate"]

BEGINS: Final = int(Cost.HEAVY)
"""Tokens that a call needs at most to begin; what it costs beyond is owed. A whole-graph call costs all that a bucket
holds: were that needed at once, no client could make one after any other call."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a bucket fills (tokens a minute), and what it holds at most."""

    per_minute: float
    burst: int


class Bucket(Protocol):
    """Where tokens are spent; the same promise in process and in Redis."""

    async def spend(self, key: str, cost: int, rate: Rate) -> float:
        """Spend ``cost`` tokens of ``key``, whose bucket fills at ``rate``.

        Returns the seconds until the same call could begin, 0.0 when it was paid for. A cost above ``BEGINS``,
        or above the burst, needs no more than that and leaves a debt, so it is possible and still paid for.
        """

    async def close(self) -> None:
        """Let go of what it holds."""


class LocalBucket:
    """Buckets in this process, on the monotonic clock.

    Memory is bounded by ``keys``. Only buckets that have filled up again are forgotten, since a forgotten bucket starts
    full; while none has, newcomers share one bucket, and nobody wins tokens by pushing others out.
    """

    def __init__(self, *, keys: int = 100_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """For each key the moment at which its bucket is full; the order is that of the last use."""

    def __len__(self) -> int:
        return len(self._full_at)

    async def spend(self, key: str, cost: int, rate: Rate) -> float:
        """See :class:`Bucket`."""
        now = self._clock()
        if key not in self._full_at and len(self._full_at) >= self._keys:
            self._forget(now)
            if len(self._full_at) >= self._keys:
                key = ""
        speed = rate.per_minute / 60.0
        tokens = rate.burst - max(0.0, self._full_at.get(key, now) - now) * speed
        missing = min(cost, rate.burst, BEGINS) - tokens
        if missing > 1e-9:
            return missing / speed
        self._full_at[key] = now + (rate.burst - tokens + cost) / speed
        self._full_at.move_to_end(key)
        return 0.0

    async def close(self) -> None:
        """Nothing is held outside this process."""

    def _forget(self, now: float) -> None:
        # Full ones gather at the old end; a few steps a call keep the cost flat.
        for _ in range(64):
            oldest = next(iter(self._full_at), None)
            if oldest is None:
                return
            if self._full_at[oldest] > now:
                self._full_at.move_to_end(oldest)
            else:
                del self._full_at[oldest]

"""Token buckets: how many calls a (tenant, client) may make in a minute."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

__all__ = ["Bucket", "LocalBucket"]


class Bucket(Protocol):
    """Where tokens are spent; the same promise in process and in Redis."""

    async def spend(self, key: str, cost: int) -> float:
        """Spend ``cost`` tokens of ``key``.

        Returns the seconds until the same cost could be paid, 0.0 when it was. A cost above the burst needs a full
        bucket and leaves a debt, so it is possible and still paid for.
        """

    async def close(self) -> None:
        """Let go of what it holds."""


class LocalBucket:
    """Buckets in this process, on the monotonic clock.

    Memory is bounded by ``keys``. Only buckets that have filled up again are forgotten, since a forgotten bucket starts
    full; while none has, newcomers share one bucket, and nobody wins tokens by pushing others out.
    """

    def __init__(
        self, *, per_minute: float, burst: int, keys: int = 100_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = per_minute / 60.0
        self._burst = float(burst)
        self._keys = keys
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """For each key the moment at which its bucket is full; the order is that of the last use."""

    def __len__(self) -> int:
        return len(self._full_at)

    async def spend(self, key: str, cost: int) -> float:
        """See :class:`Bucket`."""
        now = self._clock()
        if key not in self._full_at and len(self._full_at) >= self._keys:
            self._forget(now)
            if len(self._full_at) >= self._keys:
                key = ""
        tokens = self._burst - max(0.0, self._full_at.get(key, now) - now) * self._rate
        missing = min(float(cost), self._burst) - tokens
        if missing > 1e-9:
            return missing / self._rate
        self._full_at[key] = now + (self._burst - tokens + cost) / self._rate
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

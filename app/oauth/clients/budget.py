"""How often strangers may make this gateway fetch something: for all hosts together, and for each."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Budget"]

HOSTS: Final = 1024


@dataclass(slots=True)
class _Bucket:
    held: float
    at: float


class Budget:
    """Token buckets in this process; the memory of hosts is bounded. ``clock`` gives seconds."""

    def __init__(
        self,
        *,
        per_minute: float = 60,
        burst: float = 20,
        host_per_minute: float = 12,
        host_burst: float = 6,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._whole = (per_minute / 60, burst)
        self._each = (host_per_minute / 60, host_burst)
        self._clock = clock
        self._all = _Bucket(burst, clock())
        self._hosts: OrderedDict[str, _Bucket] = OrderedDict()

    def spend(self, host: str) -> bool:
        """Take one fetch from ``host``; False where it or everyone together has used up what there is."""
        now = self._clock()
        bucket = self._hosts.pop(host, None) or _Bucket(self._each[1], now)
        self._hosts[host] = bucket
        if len(self._hosts) > HOSTS:
            self._hosts.popitem(last=False)
        _fill(bucket, now, *self._each)
        _fill(self._all, now, *self._whole)
        if bucket.held < 1 or self._all.held < 1:
            return False
        bucket.held -= 1
        self._all.held -= 1
        return True


def _fill(bucket: _Bucket, now: float, per_second: float, most: float) -> None:
    bucket.held = min(most, bucket.held + (now - bucket.at) * per_second)
    bucket.at = now

"""Token buckets that several processes share, in Redis. Redis' own clock counts, so the processes' need not agree."""

from __future__ import annotations

import hashlib
import time
from typing import Final, cast

import redis.asyncio as aio
import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from app.limits.bucket import BEGINS, Bucket, Rate

__all__ = ["RedisBucket"]

log = structlog.get_logger("graphkeep.limits")

# The moment (microseconds) at which the bucket is full is all that is kept; the key expires then, since a full bucket
# and no bucket are the same. ARGV: tokens a second, burst, cost, most to begin with. Answers
# microseconds to wait, 0 = spent.
SPEND: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rate = tonumber(ARGV[1]) / 1000000
local burst = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local full = tonumber(redis.call('GET', KEYS[1]) or now)
local tokens = burst - math.max(0, full - now) * rate
local missing = math.min(cost, burst, tonumber(ARGV[4])) - tokens
if missing > 0.000001 then return math.ceil(missing / rate) end
full = now + (burst - tokens + cost) / rate
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000) + 1)
return 0
"""
ANSWER_SECONDS: Final = 0.25
REST_SECONDS: Final = 1.0
"""How long Redis is left alone after it failed."""


class RedisBucket:
    """Shared buckets; while Redis is away the process falls back to buckets of its own, with the same limits."""

    def __init__(self, url: str, *, fallback: Bucket, prefix: str = "graphkeep") -> None:
        self._redis = aio.Redis.from_url(
            url,
            socket_timeout=ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
            max_connections=32,
        )
        self._spend = self._redis.register_script(SPEND)
        self._fallback = fallback
        self._prefix = prefix
        self._away_until: float | None = None

    async def spend(self, key: str, cost: int, rate: Rate) -> float:
        """See :class:`Bucket`."""
        if self._away_until is not None and time.monotonic() < self._away_until:
            return await self._fallback.spend(key, cost, rate)
        # Hashed: ids do not belong in another system's key space.
        name = f"{self._prefix}:bucket:{hashlib.sha256(key.encode()).hexdigest()[:32]}"
        try:
            args = [rate.per_minute / 60.0, rate.burst, cost, BEGINS]
            wait = cast("int", await self._spend(keys=[name], args=args))
        except (RedisError, OSError) as error:
            if self._away_until is None:
                log.warning("Redis is away: each process counts for itself", error=type(error).__name__)
            self._away_until = time.monotonic() + REST_SECONDS
            return await self._fallback.spend(key, cost, rate)
        if self._away_until is not None:
            log.warning("Redis is back: limits are shared again")
            self._away_until = None
        return wait / 1_000_000

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

"""Token buckets keep one promise, in process and in Redis."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import sys
import time
from collections.abc import AsyncIterator

import pytest
import structlog

from app.limits.bucket import Bucket, LocalBucket
from app.limits.redis import RedisBucket
from tests.limits.conftest import RedisServer


@contextlib.asynccontextmanager
async def bucket_of(server: RedisServer, kind: str, *, per_minute: float, burst: int) -> AsyncIterator[Bucket]:
    local = LocalBucket(per_minute=per_minute, burst=burst)
    bucket: Bucket = local
    if kind == "Redis":
        bucket = RedisBucket(server.url, per_minute=per_minute, burst=burst, fallback=local)
    yield bucket
    await bucket.close()


async def test_a_burst_passes_and_the_next_waits_for_exactly_one_token(redis_server: RedisServer, kind: str) -> None:
    async with bucket_of(redis_server, kind, per_minute=60, burst=5) as bucket:
        assert [await bucket.spend("a", 1) for _ in range(5)] == [0.0] * 5
        assert 0.8 < await bucket.spend("a", 1) <= 1.0
        assert await bucket.spend("b", 1) == 0.0


async def test_tokens_come_back_with_time(redis_server: RedisServer, kind: str) -> None:
    async with bucket_of(redis_server, kind, per_minute=1200, burst=2) as bucket:
        assert await bucket.spend("a", 2) == 0.0
        began = time.monotonic()
        async with asyncio.timeout(5):
            while (wait := await bucket.spend("a", 1)) > 0:  # noqa: ASYNC110 - time itself is awaited
                await asyncio.sleep(wait)
        assert 0.04 < time.monotonic() - began < 0.5


async def test_a_refused_call_costs_nothing(redis_server: RedisServer, kind: str) -> None:
    async with bucket_of(redis_server, kind, per_minute=60, burst=5) as bucket:
        assert await bucket.spend("a", 3) == 0.0
        first = await bucket.spend("a", 5)
        for _ in range(20):
            assert await bucket.spend("a", 5) <= first
        assert await bucket.spend("a", 2) == 0.0


async def test_a_cost_above_the_burst_needs_a_full_bucket_and_is_paid_for(redis_server: RedisServer, kind: str) -> None:
    async with bucket_of(redis_server, kind, per_minute=60, burst=5) as bucket:
        assert await bucket.spend("a", 20) == 0.0
        assert 15 < await bucket.spend("a", 1) <= 16


async def test_a_full_memory_never_gives_a_spent_bucket_back() -> None:
    now = 0.0
    bucket = LocalBucket(per_minute=60, burst=5, keys=100, clock=lambda: now)
    assert await bucket.spend("abuser", 5) == 0.0
    for number in range(10_000):
        await bucket.spend(f"crowd {number}", 1)
    assert len(bucket) <= 101
    assert await bucket.spend("abuser", 1) > 0
    now = 10.0
    assert await bucket.spend("newcomer", 5) == 0.0
    assert await bucket.spend("abuser", 5) == 0.0


SPENDER = """
import asyncio, sys
from app.limits.bucket import LocalBucket
from app.limits.redis import RedisBucket

async def main():
    url, key = sys.argv[1:]
    bucket = RedisBucket(url, per_minute=0.001, burst=20, fallback=LocalBucket(per_minute=60, burst=20))
    passed = sum([await bucket.spend(key, 1) == 0.0 for _ in range(30)])
    await bucket.close()
    print(passed)

asyncio.run(main())
"""


async def test_two_processes_share_one_bucket(redis_server: RedisServer) -> None:
    command = [sys.executable, "-c", SPENDER, redis_server.url, secrets.token_hex(4)]
    running = [await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE) for _ in range(2)]
    passed = [int((await process.communicate())[0]) for process in running]
    assert sum(passed) == 20


async def test_without_redis_the_limits_hold_in_process_and_return_to_redis_by_themselves(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.limits.redis.REST_SECONDS", 0.05)
    local = LocalBucket(per_minute=0.001, burst=5)
    bucket = RedisBucket(redis_server.url, per_minute=0.001, burst=5, fallback=local)
    with structlog.testing.capture_logs() as logged:
        assert await bucket.spend("a", 1) == 0.0
        await redis_server.stop()
        passed = [await bucket.spend("a", 1) == 0.0 for _ in range(20)]
        assert passed == [True] * 5 + [False] * 15
        assert [line["event"] for line in logged] == ["Redis is away: each process counts for itself"]
        await redis_server.start()
        async with asyncio.timeout(10):
            while await bucket.spend("b", 1) > 0 or len(logged) == 1:  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(0.02)
        assert logged[1]["event"] == "Redis is back: limits are shared again"
    await bucket.close()

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

from app.limits.bucket import Bucket, LocalBucket, Rate
from app.limits.redis import RedisBucket
from tests.limits.conftest import RedisServer


@contextlib.asynccontextmanager
async def bucket_of(server: RedisServer, kind: str) -> AsyncIterator[Bucket]:
    bucket: Bucket = LocalBucket()
    if kind == "Redis":
        bucket = RedisBucket(server.url, fallback=bucket)
    yield bucket
    await bucket.close()


async def test_a_burst_passes_and_the_next_waits_for_exactly_one_token(redis_server: RedisServer, kind: str) -> None:
    rate = Rate(60, 5)
    async with bucket_of(redis_server, kind) as bucket:
        assert [await bucket.spend("a", 1, rate) for _ in range(5)] == [0.0] * 5
        assert 0.8 < await bucket.spend("a", 1, rate) <= 1.0
        assert await bucket.spend("b", 1, rate) == 0.0


async def test_tokens_come_back_with_time(redis_server: RedisServer, kind: str) -> None:
    rate = Rate(1200, 2)
    async with bucket_of(redis_server, kind) as bucket:
        assert await bucket.spend("a", 2, rate) == 0.0
        began = time.monotonic()
        async with asyncio.timeout(5):
            while (wait := await bucket.spend("a", 1, rate)) > 0:  # noqa: ASYNC110 - time itself is awaited
                await asyncio.sleep(wait)
        assert 0.04 < time.monotonic() - began < 0.5


async def test_a_refused_call_costs_nothing(redis_server: RedisServer, kind: str) -> None:
    rate = Rate(60, 5)
    async with bucket_of(redis_server, kind) as bucket:
        assert await bucket.spend("a", 3, rate) == 0.0
        first = await bucket.spend("a", 5, rate)
        for _ in range(20):
            assert await bucket.spend("a", 5, rate) <= first
        assert await bucket.spend("a", 2, rate) == 0.0


async def test_a_cost_above_a_small_burst_needs_it_all_and_is_paid_for(redis_server: RedisServer, kind: str) -> None:
    rate = Rate(60, 5)
    async with bucket_of(redis_server, kind) as bucket:
        assert await bucket.spend("a", 20, rate) == 0.0
        assert 15 < await bucket.spend("a", 1, rate) <= 16


async def test_a_call_over_the_whole_graph_is_possible_after_others_and_paid_for(
    redis_server: RedisServer, kind: str
) -> None:
    rate = Rate(60, 20)
    async with bucket_of(redis_server, kind) as bucket:
        assert [await bucket.spend("a", 1, rate) for _ in range(15)] == [0.0] * 15
        assert await bucket.spend("a", 20, rate) == 0.0
        assert 15 < await bucket.spend("a", 1, rate) <= 16
        assert 19 < await bucket.spend("a", 20, rate) <= 20


async def test_two_tenants_may_have_rates_of_their_own(redis_server: RedisServer, kind: str) -> None:
    async with bucket_of(redis_server, kind) as bucket:
        assert [await bucket.spend("few", 1, Rate(1, 2)) == 0.0 for _ in range(4)] == [True, True, False, False]
        assert [await bucket.spend("many", 1, Rate(1, 3)) == 0.0 for _ in range(4)] == [True, True, True, False]


async def test_a_full_memory_never_gives_a_spent_bucket_back() -> None:
    now, rate = 0.0, Rate(60, 5)
    bucket = LocalBucket(keys=100, clock=lambda: now)
    assert await bucket.spend("abuser", 5, rate) == 0.0
    for number in range(10_000):
        await bucket.spend(f"crowd {number}", 1, rate)
    assert len(bucket) <= 101
    assert await bucket.spend("abuser", 1, rate) > 0
    now = 10.0
    assert await bucket.spend("newcomer", 5, rate) == 0.0
    assert await bucket.spend("abuser", 5, rate) == 0.0


SPENDER = """
import asyncio, sys
from app.limits.bucket import LocalBucket, Rate
from app.limits.redis import RedisBucket

async def main():
    url, key = sys.argv[1:]
    bucket = RedisBucket(url, fallback=LocalBucket())
    passed = sum([await bucket.spend(key, 1, Rate(0.001, 20)) == 0.0 for _ in range(30)])
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
    rate = Rate(0.001, 5)
    bucket = RedisBucket(redis_server.url, fallback=LocalBucket())
    with structlog.testing.capture_logs() as logged:
        assert await bucket.spend("a", 1, rate) == 0.0
        await redis_server.stop()
        passed = [await bucket.spend("a", 1, rate) == 0.0 for _ in range(20)]
        assert passed == [True] * 5 + [False] * 15
        assert [line["event"] for line in logged] == ["Redis is away: each process counts for itself"]
        await redis_server.start()
        async with asyncio.timeout(10):
            while await bucket.spend("b", 1, rate) > 0 or len(logged) == 1:  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(0.02)
        assert logged[1]["event"] == "Redis is back: limits are shared again"
    await bucket.close()

"""Load generators. ``python -m bench.load`` takes pickled :class:`~bench.job.Job` objects on standard input and answers
each with an :class:`~bench.job.Outcome` on standard output: a process of its own, so that what is measured shares no
event loop with it.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from bench.job import Job, Outcome, Way
from bench.script import Script, Target, play
from bench.wire import Connection

__all__ = ["measure"]

Do = Callable[[Any], Awaitable[str]]
"""One call; how its refusal (a rate limit, an overload) begins, nothing if it was served."""

REFUSED: Final = b'"isError":true'
_SHOWN: Final = 400


async def measure(job: Job) -> Outcome:
    """Do a job: its calls in order, shared by its clients."""
    outcome, waiting = Outcome(), iter(job.calls)
    async with AsyncExitStack() as stack:
        doers = [await _WAYS[job.way](job, stack, number) for number in range(job.clients)]
        began, busy = time.perf_counter(), time.process_time()
        await asyncio.gather(*(_client(do, waiting, outcome, job) for do in doers))
        outcome.elapsed, outcome.processor = time.perf_counter() - began, time.process_time() - busy
    return outcome


async def _client(do: Do, waiting: Iterator[Any], outcome: Outcome, job: Job) -> None:
    started = due = time.perf_counter()
    for call in waiting:
        began = time.perf_counter()
        if refusal := await do(call):
            outcome.refused, outcome.why = outcome.refused + 1, refusal
        else:
            outcome.seconds.append(time.perf_counter() - began)
        if job.seconds is not None and time.perf_counter() - started > job.seconds:
            return
        if job.every is not None:
            due += job.every
            await asyncio.sleep(max(0.0, due - time.perf_counter()))


async def _http(job: Job, stack: AsyncExitStack, _: int) -> Do:
    connection = await Connection.open(job.url)
    stack.push_async_callback(connection.close)

    async def do(request: bytes) -> str:
        status, body = await connection.exchange(request)
        if status != 200:
            raise RuntimeError(f"{status}: {body[:500]!r}")
        return body[:_SHOWN].decode(errors="replace") if REFUSED in body else ""

    return do


async def _driver(job: Job, stack: AsyncExitStack, number: int) -> Do:
    if job.target is None:
        raise RuntimeError("a job of the driver has a target")
    opened = await _opened(stack, job.target, share=number > 0)

    async def do(script: Script) -> str:
        await play(
            opened.driver, job.target.database if job.target else "", script, opened.model if job.model else None
        )
        return ""

    if job.model and opened.model is None:
        from app.embedding.local import open_packaged

        opened.model = await open_packaged()
    return do


@dataclass
class _Opened:
    driver: Any
    model: Any = None


_kept: list[_Opened] = []


async def _opened(stack: AsyncExitStack, target: Target, *, share: bool) -> _Opened:
    """One driver for the whole job, as one gateway has; the model is kept between jobs."""
    from neo4j import AsyncGraphDatabase

    if not share:
        model = _kept[0].model if _kept else None
        driver = AsyncGraphDatabase.driver(
            target.uri, auth=(target.user, target.password), notifications_min_severity="OFF", telemetry_disabled=True
        )
        stack.push_async_callback(driver.close)
        await driver.verify_connectivity()
        _kept[:] = [_Opened(driver, model)]
    return _kept[0]


async def _sdk(job: Job, stack: AsyncExitStack, number: int) -> Do:
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {job.tokens[number % len(job.tokens)]}"}
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30))
    client = await stack.enter_async_context(Client(streamable_http_client(job.url, http_client=http)))

    async def do(call: tuple[str, dict[str, Any]]) -> str:
        answer = await client.call_tool(*call)
        return str(answer.content)[:_SHOWN] if answer.is_error else ""

    return do


_WAYS: Final[dict[Way, Callable[[Job, AsyncExitStack, int], Awaitable[Do]]]] = {
    "http": _http,
    "driver": _driver,
    "sdk": _sdk,
}


async def _serve() -> None:
    read, write = sys.stdin.buffer, sys.stdout.buffer
    while size := read.read(8):
        job: Job = pickle.loads(read.read(int.from_bytes(size, "big")))
        data = pickle.dumps(await measure(job))
        write.write(len(data).to_bytes(8, "big") + data)
        write.flush()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve())

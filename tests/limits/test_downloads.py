"""Downloads before a real server: one that is read goes on however long it takes, and holds no call's slot."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.context import context_of
from app.edge.metrics import Metrics
from app.errors import CallError
from app.limits.bulkhead import Kind
from app.limits.downloads import LimitDownloads
from app.limits.limits import Limits
from app.settings import LimitSettings
from tests.edge.conftest import Serve
from tests.limits.test_limit import TOOLS, signed_in

PIECE = b"x" * 1_000_000


def limits_with(**settings: float) -> Limits:
    return Limits(LimitSettings(**{"read_seconds": 0.2, "queue_seconds": 0.1, **settings}), pool_size=50)


def download(app: ASGIApp, limits: Limits) -> ASGIApp:
    limited = LimitDownloads(app, limits=limits, tool=TOOLS["look"], metrics=Metrics())

    async def refused(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await limited(scope, receive, send)
        except CallError as error:
            await StreamingResponse(iter([error.reason]), status_code=503)(scope, receive, send)

    return signed_in(refused)


async def test_a_download_that_is_read_goes_on_past_the_deadline_of_a_call(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.limits.downloads.OVERRUN_SECONDS", 0.0)

    async def slowly(scope: Scope, receive: Receive, send: Send) -> None:
        async def pieces():  # type: ignore[no-untyped-def]
            for _ in range(5):
                await asyncio.sleep(0.1)
                yield b"x"

        await StreamingResponse(pieces())(scope, receive, send)

    async with serve(download(slowly, limits_with())) as server, server.client() as client:
        began = time.monotonic()
        assert (await client.get("/exports/x")).content == b"xxxxx"
        assert time.monotonic() - began > 0.4


async def test_who_reads_nothing_holds_no_slot(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.limits.downloads.IDLE_SECONDS", 0.1)
    limits, ended = limits_with(), asyncio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": PIECE, "more_body": True})
        finally:
            ended.set()

    async with serve(download(endless, limits)) as server, server.client() as client:
        async with client.stream("GET", "/exports/x") as answer:
            assert answer.status_code == 200
            async with asyncio.timeout(5):
                await ended.wait()
        assert len(limits.downloads) == 0


async def test_downloads_wait_at_a_bulkhead_of_their_own(serve: Serve) -> None:
    limits, leave = limits_with(), asyncio.Event()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        principal = context_of(scope).principal
        assert principal is not None
        async with limits.bulkhead.slot(principal.tenant, Kind.READ):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await leave.wait()
        await send({"type": "http.response.body", "body": b"x"})

    async with serve(download(held, limits)) as server, server.client() as client:
        under_way = [asyncio.create_task(client.get("/exports/x", headers={"X-Client": str(n)})) for n in range(6)]
        done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        assert {each.result().text for each in done} == {"overloaded"}
        leave.set()
        assert sorted([(await each).status_code for each in under_way]) == [200] * 4 + [503] * 2


async def test_a_download_that_does_not_begin_in_time_is_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.limits.downloads.OVERRUN_SECONDS", 0.0)

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async with serve(download(endless, limits_with())) as server, server.client() as client:
        assert (await client.get("/exports/x")).text == "deadline_exceeded"

"""Many at once, and the end of the process (faults 10 to 13)."""

from __future__ import annotations

import asyncio
import time

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from tests.edge.conftest import Serve, body_of, until


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    """An endless event stream, until the client goes."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def echo_or_stream(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/events":
        await stream(scope, receive, send)
        return
    body = await Request(scope, receive).body()
    await asyncio.sleep(0.01)
    await JSONResponse({"said": body.decode()})(scope, receive, send)


async def test_hundreds_of_overlapping_requests_and_open_streams_do_not_disturb_each_other(serve: Serve) -> None:
    limits = httpx2.Limits(max_connections=400)
    async with serve(echo_or_stream) as server, server.client(limits=limits, timeout=30) as client:

        async def listen(opened: asyncio.Event, leave: asyncio.Event) -> None:
            async with client.stream("GET", "/events") as answer:
                assert answer.status_code == 200
                opened.set()
                await leave.wait()

        async def ask(number: int) -> None:
            answer = await client.post(
                "/mcp", content=f"call {number}", headers={"X-Request-Id": f"request-{number:05}"}
            )
            assert body_of(answer) == {"said": f"call {number}"}
            assert answer.headers["x-request-id"] == f"request-{number:05}"

        leave = asyncio.Event()
        opened = [asyncio.Event() for _ in range(100)]
        async with asyncio.TaskGroup() as group:
            for event in opened:
                group.create_task(listen(event, leave))
            await asyncio.gather(*(event.wait() for event in opened))
            async with asyncio.TaskGroup() as calls:
                for number in range(300):
                    calls.create_task(ask(number))
            leave.set()
        await until(lambda: len(server.instruments.drain) == 0)


async def test_stopping_ends_an_open_stream_and_exits_in_time(serve: Serve) -> None:
    async with serve(stream, stop_seconds=8) as server, server.client() as client:
        async with client.stream("GET", "/events") as answer:
            lines = answer.aiter_lines()
            assert await anext(lines) == ": hello"
            began = time.monotonic()
            server.stop.set()
            assert [line async for line in lines if line] == []
        await asyncio.wait_for(server.ended, 5)
        assert time.monotonic() - began < 3


async def test_stopping_lets_a_call_finish_and_accepts_no_new_one(serve: Serve) -> None:
    begun, finish = asyncio.Event(), asyncio.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await finish.wait()
        await JSONResponse({"done": True})(scope, receive, send)

    async with serve(slow, stop_seconds=8) as server, server.client() as client:
        call = asyncio.create_task(client.post("/mcp"))
        await begun.wait()
        server.stop.set()
        await until(lambda: server.instruments.drain.stopping)

        async def refused() -> bool:
            try:
                _, writer = await server.raw()
            except ConnectionError:
                return True
            writer.close()
            return False

        async with asyncio.timeout(5):
            while not await refused():  # noqa: ASYNC110 - a closed port has no event
                await asyncio.sleep(0.02)
        finish.set()
        assert body_of(await call) == {"done": True}


async def test_a_call_that_does_not_end_sees_its_client_hang_up_and_then_is_cancelled(serve: Serve) -> None:
    seen: list[str] = []

    async def stubborn(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        seen.append((await receive())["type"])
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cancelled")

    async with serve(stubborn, stop_seconds=2) as server:
        _, writer = await server.raw()
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 0\r\n\r\n".encode())
        await until(lambda: len(server.instruments.drain) == 1)
        began = time.monotonic()
        server.stop.set()
        await asyncio.wait_for(server.ended, 2.5)
        assert time.monotonic() - began < 2
        writer.close()
    await until(lambda: len(seen) == 2)
    assert seen == ["http.disconnect", "cancelled"]


async def test_too_many_open_requests_are_refused_early_and_probes_are_not(serve: Serve) -> None:
    leave = asyncio.Event()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/healthz":
            await leave.wait()
        await JSONResponse({})(scope, receive, send)

    async with serve(held, open_requests=3) as server, server.client() as client:
        first = [asyncio.create_task(client.post("/mcp")) for _ in range(3)]
        await until(lambda: len(server.instruments.drain) == 3)
        refused = await client.post("/mcp")
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        assert (body_of(refused)["reason"], body_of(refused)["retryable"]) == ("overloaded", True)
        assert (await client.get("/healthz")).status_code == 200
        leave.set()
        assert [(await one).status_code for one in first] == [200] * 3
        assert (await client.post("/mcp")).status_code == 200


async def test_a_loop_that_runs_late_refuses_what_comes_on_top(serve: Serve) -> None:
    leave = asyncio.Event()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        await leave.wait()
        await JSONResponse({})(scope, receive, send)

    async with serve(held) as server, server.client() as client, server.instruments.lag.measured() as lag:
        first = asyncio.create_task(client.post("/mcp"))
        await until(lambda: len(server.instruments.drain) == 1)
        while lag.seconds <= 0.5:
            time.sleep(1.0)  # noqa: ASYNC251 - the lateness itself
            await asyncio.sleep(0)
        refresh = asyncio.create_task(client.post("/token"))  # clients ask for that once
        assert (await client.post("/mcp")).status_code == 503
        await until(lambda: len(server.instruments.drain) == 2)
        leave.set()
        assert [(await one).status_code for one in (first, refresh)] == [200, 200]
        await until(lambda: lag.seconds < 0.5)


async def test_a_body_that_is_not_complete_when_the_time_is_up_is_answered_503(serve: Serve) -> None:
    async with serve(echo_or_stream, stop_seconds=2) as server:
        reader, writer = await server.raw()
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 9\r\n\r\nx".encode())
        await until(lambda: len(server.instruments.drain) == 1)
        server.stop.set()
        assert b" 503 " in await asyncio.wait_for(reader.readline(), 2)
        assert b"stopping" in await asyncio.wait_for(reader.read(), 2)
        writer.close()

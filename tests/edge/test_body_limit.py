"""Bodies that are too large or too slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.edge import body_limit, stages
from tests.edge.conftest import Serve, body_of


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    size = len(await Request(scope, receive).body())
    await JSONResponse({"size": size})(scope, receive, send)


async def chunks(count: int, size: int = 64 * 1024) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


async def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read(serve: Serve) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the request went on")

    async with serve(never) as server:
        reader, writer = await server.raw()
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: {4 * 1024 * 1024 + 1}\r\n\r\n"
        writer.write(head.encode())
        assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()


async def test_a_chunked_body_over_the_limit_is_refused_while_it_streams(serve: Serve) -> None:
    async with serve(reads) as server, server.client() as client:
        answer = await client.post("/mcp", content=chunks(70))
    assert answer.status_code == 413
    assert body_of(answer)["reason"] == "body_too_large"
    assert body_of(answer)["request_id"] == answer.headers["x-request-id"]


async def test_a_body_of_exactly_the_limit_passes(serve: Serve) -> None:
    async with serve(reads) as server, server.client() as client:
        answer = await client.post("/mcp", content=chunks(64))
    assert body_of(answer) == {"size": 4 * 1024 * 1024}


async def test_oauth_bodies_have_a_smaller_limit_and_ingest_a_larger_one(serve: Serve) -> None:
    async with serve(reads) as server, server.client() as client:
        assert (await client.post("/token", content=b"x" * (64 * 1024 + 1))).status_code == 413
        assert (await client.post("/token", content=b"x" * (64 * 1024))).status_code == 200
        document = b"x" * (5 * 1024 * 1024)
        assert (await client.post("/mcp", content=document, headers={"Mcp-Name": "graph_ingest"})).status_code == 200
        assert (await client.post("/mcp", content=document, headers={"Mcp-Name": "graph_relate"})).status_code == 413


async def test_an_app_that_swallows_the_interruption_cannot_answer_over_it(serve: Serve) -> None:
    async def swallows(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Request(scope, receive).body()
        except BaseException:  # noqa: BLE001 - what a framework's own error stage does
            await JSONResponse({}, 200)(scope, receive, send)

    async with serve(swallows) as server, server.client() as client:
        assert (await client.post("/mcp", content=chunks(70))).status_code == 413


@pytest.mark.parametrize(("path", "limit"), [("/mcp", "SECONDS"), ("/token", "PAGE_SECONDS")])
async def test_a_body_that_trickles_is_given_up(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, path: str, limit: str
) -> None:
    monkeypatch.setattr(stages, limit, 0.3)
    async with serve(reads) as server:
        reader, writer = await server.raw()
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 9\r\n\r\nx".encode())
        assert b" 408 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()


async def test_an_upload_may_take_long_but_not_pause(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "IDLE_SECONDS", 1.0)

    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"x"
            await asyncio.sleep(0.3)

    async with serve(reads) as server, server.client() as client:
        assert body_of(await client.put("/ingest/x.md", content=slowly())) == {"size": 4}
        reader, writer = await server.raw()
        writer.write(f"PUT /ingest/x HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 9\r\n\r\nx".encode())
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
    assert b" 408 " in answer.splitlines()[0]
    assert b"paused" in answer


async def test_an_upload_may_be_slow_but_not_trickle(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_limit, "RATED_SECONDS", 0.2)

    async def slowly(size: int) -> AsyncIterator[bytes]:
        for _ in range(6):
            yield b"x" * size
            await asyncio.sleep(0.1)

    async with serve(reads) as server, server.client() as client:
        assert body_of(await client.put("/ingest/x.md", content=slowly(1000))) == {"size": 6000}
        answer = await client.put("/ingest/x.md", content=slowly(10))
    assert (answer.status_code, body_of(answer)["reason"]) == (408, "body_too_slow")
    assert "2048 bytes a second" in body_of(answer)["message"]


async def test_an_app_that_never_reads_is_not_held_to_the_body(serve: Serve) -> None:
    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        await JSONResponse({}, 401)(scope, receive, send)

    async with serve(answers) as server:
        reader, writer = await server.raw()
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 100\r\n\r\n".encode())
        assert b" 401 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()

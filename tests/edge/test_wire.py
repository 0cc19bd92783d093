"""The head of a request: what one connection may cost before anything is known about it."""

from __future__ import annotations

import asyncio
import socket

import pytest

from app.edge import wire
from app.edge.listeners import bound_loopback
from tests.edge.conftest import Serve
from tests.edge.test_server import echo_or_stream
from tests.ports import free_port


async def test_header_lines_that_never_end_are_cut_off(serve: Serve) -> None:
    async with serve(echo_or_stream) as server:
        _, writer = await server.raw()
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: localhost:{server.port}\r\n".encode())
        with pytest.raises(ConnectionError):
            await _endless(writer)
        writer.close()
        async with server.client() as client:
            assert (await client.post("/mcp", content=b"x", headers={"X-Long": "x" * 40_000})).status_code == 200


@pytest.mark.parametrize("begun", [b"", b"POST /mcp HTTP/1.1\r\nHost:", b"\r\n"])
async def test_a_head_that_does_not_arrive_in_time_ends_the_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    async with serve(echo_or_stream) as server:
        reader, writer = await server.raw()
        writer.write(begun)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()


async def test_an_answer_that_takes_longer_than_a_head_may_is_still_given(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    async with serve(echo_or_stream) as server, server.client() as client:

        async def slowly() -> object:
            for _ in range(4):
                await asyncio.sleep(0.15)  # the body's own time, which has its own limit
                yield b"x"

        assert (await client.post("/mcp", content=slowly())).status_code == 200  # type: ignore[arg-type]


async def _endless(writer: asyncio.StreamWriter) -> None:
    for number in range(100):
        writer.write(f"X-{number}: {'x' * 65_536}\r\n".encode())
        await writer.drain()


async def test_no_answer_waits_for_the_acknowledgement_of_its_head() -> None:
    """Head and body are two writes: with Nagle's algorithm the second waits for the client's late ACK, 40 ms."""
    accepted: asyncio.Queue[int] = asyncio.Queue()

    async def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("socket")
        await accepted.put(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    port = free_port()
    with bound_loopback(port, "GRAPHKEEP_HTTP_PORT") as sockets:
        for listener in sockets:
            async with await asyncio.start_server(note, sock=listener.dup()):
                _, writer = await asyncio.open_connection(listener.getsockname()[0], port)
                assert await asyncio.wait_for(accepted.get(), 60)
                writer.close()

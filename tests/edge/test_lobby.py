"""Requests of whom nobody has identified: they wait in a room of their own, and a body that does not come gives way."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.edge.lobby import Lobby
from tests.edge.conftest import Running, Serve, body_of, until

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def reads(scope: Scope, receive: Receive, send: Send) -> None:
    size = len(await Request(scope, receive).body())
    await JSONResponse({"size": size})(scope, receive, send)


async def half_a_body(server: Running, path: str = "/token") -> Stream:
    under_way = len(server.instruments.drain)
    reader, writer = await server.raw()
    writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 9\r\n\r\nx".encode())
    await until(lambda: len(server.instruments.drain) > under_way)
    return reader, writer


async def test_the_body_that_was_longest_in_coming_makes_room(serve: Serve) -> None:
    async with serve(Lobby(reads, room=2)) as server, server.client() as client:
        slow = [await half_a_body(server) for _ in range(2)]
        assert body_of(await client.post("/token", content=b"whole")) == {"size": 5}
        answer = await asyncio.wait_for(slow[0][0].read(), 5)  # to its end: the connection is closed
        assert b" 503 " in answer.splitlines()[0]
        assert b'"overloaded"' in answer
        slow[1][1].write(b"x" * 8)
        assert b" 200 " in await asyncio.wait_for(slow[1][0].readline(), 5)
        for _, writer in slow:
            writer.close()


async def test_who_sent_all_of_it_gives_way_to_nobody(serve: Serve) -> None:
    leave = asyncio.Event()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        await leave.wait()
        await JSONResponse({})(scope, receive, send)

    async with serve(Lobby(held, room=2)) as server, server.client() as client:
        inside = [asyncio.create_task(client.post("/token", content=b"whole")) for _ in range(2)]
        await until(lambda: len(server.instruments.drain) == 2)
        refused = await client.post("/token", content=b"whole")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        leave.set()
        assert [(await one).status_code for one in inside] == [200, 200]
        assert (await client.post("/token", content=b"whole")).status_code == 200


async def test_a_client_that_went_away_by_itself_leaves_its_place(serve: Serve) -> None:
    async with serve(Lobby(reads, room=1)) as server, server.client() as client:
        _, writer = await half_a_body(server)
        writer.close()
        await until(lambda: len(server.instruments.drain) == 0)
        reader, writer = await half_a_body(server)
        writer.write(b"x" * 8)
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        assert (await client.get("/")).status_code == 200

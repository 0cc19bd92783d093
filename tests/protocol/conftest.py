from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from app.context import Deadline, Principal, Role
from app.edge.context import context_of, through, with_context
from app.edge.methods import PostOnly
from app.edge.request_id import RequestId
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import EnvelopeStage
from app.protocol.registry import Registry
from app.protocol.server import HttpProtocol
from tests.protocol.fixture_tools import TOOLS, Service, principal

MODERN = "2026-07-28"
LEGACY = "2025-11-25"

PRINCIPALS = {
    "ada": principal("ada"),
    "reader": principal("reader", role=Role.READER, scopes={"memory:read"}),
    "operator": principal("operator", operator=True),
}


class SignedIn:
    """Stands where authentication and limits stand: a principal by name and a deadline."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.seconds = 60.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        who = headers.get(b"authorization", b"Bearer ada").decode().removeprefix("Bearer ")
        context = context_of(scope).identified(PRINCIPALS[who]).due(Deadline.after(self.seconds))
        await self.app(with_context(scope, context), receive, send)


@dataclass
class Gateway:
    """The protocol stages behind a real HTTP server."""

    url: str
    service: Service
    signed_in: SignedIn
    client: httpx2.AsyncClient
    counter: int = field(default=0)

    async def post(self, body: Any, *, era: str | None = MODERN, who: str = "ada", **headers: str) -> httpx2.Response:
        """One POST; a dict is sent as it is, with the headers that its era asks for."""
        sent = {"accept": "application/json, text/event-stream", "authorization": f"Bearer {who}"}
        if era is not None:
            sent["mcp-protocol-version"] = era
        if isinstance(body, dict) and era == MODERN:
            sent["mcp-method"] = str(body.get("method", ""))
            params = body.get("params")
            if isinstance(params, dict) and isinstance(params.get("name"), str):
                sent["mcp-name"] = params["name"]
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, bytes | str):
            return await self.client.post(self.url, content=body, headers={**sent, "content-type": "application/json"})
        return await self.client.post(self.url, json=body, headers=sent)

    async def call(
        self, tool: str, arguments: Any = None, *, era: str | None = MODERN, who: str = "ada", **headers: str
    ) -> dict[str, Any]:
        """One ``tools/call``; the JSON-RPC answer in either era."""
        response = await self.post(
            self.request("tools/call", era=era, name=tool, arguments=arguments or {}), era=era, who=who, **headers
        )
        return answer(response)

    def request(self, method: str, *, era: str | None = MODERN, **params: Any) -> dict[str, Any]:
        self.counter += 1
        if era == MODERN:
            params["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                **params.pop("meta", {}),
            }
        return {"jsonrpc": "2.0", "id": self.counter, "method": method, "params": params}


def answer(response: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC answer, from a JSON body or the last event of a stream."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return events(response.text)[-1]
    return response.json()  # type: ignore[no-any-return]


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


class Listening(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """A real server for ``app`` on a free port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # without Nagle's 40 ms
    listener.bind(("127.0.0.1", 0))
    server = Listening(
        uvicorn.Config(app, lifespan="off", log_level="error", access_log=False, timeout_graceful_shutdown=2)
    )
    task = asyncio.create_task(server.serve([listener]))
    await server.up.wait()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await task


@asynccontextmanager
async def open_gateway(**options: Any) -> AsyncIterator[Gateway]:
    service = Service()
    registry = Registry(options.pop("tools", TOOLS))
    protocol = HttpProtocol(registry, Dispatcher(registry, {"memory": service, "ledger": service}, **options))
    signed_in = SignedIn(through(PostOnly, EnvelopeStage, to=protocol))
    async with (
        protocol.running(),
        serving(RequestId(signed_in)) as url,
        httpx2.AsyncClient(timeout=120, limits=httpx2.Limits(max_connections=500)) as client,
    ):
        yield Gateway(url, service, signed_in, client)


@pytest_asyncio.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with open_gateway(check_results=True) as opened:
        yield opened


@pytest.fixture
def named() -> Callable[[str], Principal]:
    return lambda name: PRINCIPALS[name]

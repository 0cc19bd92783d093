"""The gateway's own HTTP stack, from the sockets over the edge to the protocol room, with what the suite asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import ListenHandler
from mcp_types import (
    CallToolRequestParams,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from app.context import Deadline
from app.edge.context import context_of, through, with_context
from app.edge.listeners import bound_loopback
from app.edge.methods import PostOnly
from app.edge.routes import Routes
from app.edge.server import Served
from app.edge.stages import Instruments, edge
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import EnvelopeStage
from app.protocol.registry import Registry
from app.protocol.server import HttpProtocol, mcp_server
from app.settings import EdgeSettings, Settings
from tests.conformance import fixture_content as content
from tests.conformance.fixture_tools import DECLARED, OTHERS, SCHEMAS, TOOLS, Wire, bus, call_other
from tests.ports import free_port
from tests.protocol.fixture_tools import principal

__all__ = ["fixture_server"]


class SignedIn:
    """Stands where authentication and limits stand: the suite's server scenarios bring no token."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context = context_of(scope).identified(principal("suite")).due(Deadline.after(30))
        await self.app(with_context(scope, context), receive, send)


def _extended(server: Server[Any], names: frozenset[str]) -> Server[Any]:
    """Our server with what our product does not have. Its own handlers stay, and answer for our own tools."""
    listing, calling = server.get_request_handler("tools/list"), server.get_request_handler("tools/call")
    assert listing is not None
    assert calling is not None

    async def list_tools(ctx: Any, params: Any) -> Wire:
        ours: Any = await listing.handler(ctx, params)
        return {**ours, "tools": [*ours["tools"], *TOOLS]}

    async def call_tool(ctx: Any, params: Any) -> Any:
        return await (call_other if params.name in names else calling.handler)(ctx, params)

    async def accept(_ctx: Any, _params: Any) -> Wire:
        return {}

    for method, kind, handler in (
        ("tools/list", PaginatedRequestParams, list_tools),
        ("tools/call", CallToolRequestParams, call_tool),
        ("prompts/list", PaginatedRequestParams, content.list_prompts),
        ("prompts/get", GetPromptRequestParams, content.get_prompt),
        ("resources/list", PaginatedRequestParams, content.list_resources),
        ("resources/templates/list", PaginatedRequestParams, content.list_templates),
        ("resources/read", ReadResourceRequestParams, content.read_resource),
        ("resources/subscribe", SubscribeRequestParams, accept),
        ("resources/unsubscribe", UnsubscribeRequestParams, accept),
        ("logging/setLevel", SetLevelRequestParams, accept),
        ("completion/complete", CompleteRequestParams, content.complete),
        ("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(bus)),
    ):
        server.add_request_handler(method, kind, handler)  # type: ignore[arg-type]
    server.cache_hints |= {
        method: CacheHint(0, "private")
        for method in ("prompts/list", "resources/list", "resources/templates/list", "resources/read")
    }
    declared = server.get_tool_input_schema
    assert declared is not None
    server.get_tool_input_schema = lambda name: SCHEMAS.get(name) or declared(name)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="suite"))
    return server


@asynccontextmanager
async def fixture_server() -> AsyncIterator[str]:
    """Serve; yields the address of the MCP endpoint."""
    port = free_port()
    registry = Registry(DECLARED)
    dispatcher = Dispatcher(registry, {}, check_results=True)
    protocol = HttpProtocol(
        registry, dispatcher, server=_extended(mcp_server(registry, dispatcher.call), frozenset(OTHERS))
    )
    settings = Settings(edge=EdgeSettings(public_urls=(f"http://localhost:{port}",)))
    mcp = through(PostOnly, SignedIn, EnvelopeStage, to=protocol)
    app = through(*edge(settings, Instruments()), to=Routes({"/mcp": mcp}, otherwise=mcp))
    with bound_loopback(port, "the port of the fixture") as sockets:
        async with protocol.running():
            served = Served(app, sockets, stop_seconds=5)
            serving = asyncio.create_task(served.run())
            try:
                yield f"http://localhost:{port}/mcp"
            finally:
                served.stop()
                await serving

"""The straight way of a plain ``tools/call``.

Through the SDK a call costs about 2 ms of processor time in models, task groups and validation of what this room has
checked already; this way costs a quarter of that. It is taken only by a call that the SDK would certainly have passed
on, and that needs no stream: everything else (refusals of headers, progress, long calls with keep-alive) goes to the
SDK, so that the rules of the protocol are written in one place. A JSON answer is allowed in either era.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from mcp.shared.inbound import InboundModernRoute, classify_inbound_request, find_duplicated_routing_header
from starlette.types import ASGIApp, Receive, Scope, Send

from app.context import RequestContext
from app.contract import DeadlineClass, Progress
from app.edge.context import context_of
from app.protocol.envelope import Envelope, envelope_of
from app.protocol.progress import silent
from app.protocol.registry import Registry
from app.protocol.result import Answer
from app.protocol.tracing import Tracing

__all__ = ["Direct"]

Headers = list[tuple[str, str]]

_ACCEPTED: Final = ("application/json", "text/event-stream")


class Direct:
    """Answers plain calls itself; ``app`` answers the rest."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        registry: Registry,
        call: Callable[[Envelope, RequestContext, Progress], Awaitable[Answer]],
    ) -> None:
        self._app = app
        self._registry = registry
        self._call = call
        self._tracing = Tracing(registry.tools)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        envelope = envelope_of(scope)
        if envelope is None or not self._plain(envelope) or not _agreed(envelope, _headers(scope)):
            await self._app(scope, receive, send)
            return
        await self._answer(envelope, scope, receive, send)

    def _plain(self, envelope: Envelope) -> bool:
        tool = self._registry.get(envelope.tool or "")
        return (
            tool is not None and tool.deadline is not DeadlineClass.WHOLE_GRAPH and "progressToken" not in envelope.meta
        )

    async def _answer(self, envelope: Envelope, scope: Scope, receive: Receive, send: Send) -> None:
        call = asyncio.create_task(self._traced(envelope, scope))
        gone = asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait((call, gone), return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                await _send(send, call.result().body(envelope))
        finally:
            # A client that hung up cancels its call; a write past its commit point is shielded by the store.
            gone.cancel()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call

    async def _traced(self, envelope: Envelope, scope: Scope) -> Answer:
        with self._tracing.span(
            envelope.method, envelope.tool, version=envelope.protocol_version, meta=envelope.meta
        ) as span:
            answer = await self._call(envelope, context_of(scope), silent)
            if answer.failed:
                self._tracing.failed(span)
            return answer


def _headers(scope: Scope) -> Headers:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


def _agreed(envelope: Envelope, headers: Headers) -> bool:
    """Whether the SDK would let these headers pass."""
    found = dict(headers)
    accept = found.get("accept", "")
    if not all(kind in accept for kind in _ACCEPTED) or not found.get("content-type", "").startswith(_ACCEPTED[0]):
        return False
    if not envelope.modern:
        return True
    if find_duplicated_routing_header(headers) is not None:
        return False
    body: dict[str, Any] = {"method": envelope.method, "params": {"name": envelope.tool, "_meta": envelope.meta}}
    return isinstance(classify_inbound_request(body, headers=found), InboundModernRoute)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

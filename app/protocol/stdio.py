"""The same server for one local client over standard input and output (``graphkeep stdio``).

Each line passes the same envelope parse as a body over HTTP, then ``admit``, which stands for authorization and
limits. Both protocol eras are served; the client's first request decides which.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import anyio
import orjson
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types import INVALID_REQUEST, ErrorData, JSONRPCError, jsonrpc_message_adapter
from pydantic import ValidationError
from starlette.types import Scope

from app.context import RequestContext
from app.contract import Progress
from app.edge.context import CONTEXT
from app.errors import CallError, ProtocolError
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import ENVELOPE, Admit, Envelope, parse
from app.protocol.offering import Offering
from app.protocol.registry import Registry
from app.protocol.result import Answer, failure
from app.protocol.server import mcp_server

__all__ = ["LocalProtocol", "standard_streams"]

Identify = Callable[[], RequestContext]
"""The context of the next request: a fresh request id, and the principal as it stands now."""

MAX_LINE: Final = 4 * 1024 * 1024
"""Longest line, bytes; the body limit of HTTP."""


@dataclass(frozen=True, slots=True)
class _LocalRequest:
    """What a handler finds where HTTP has its request."""

    scope: Scope


class LocalProtocol:
    """Serves one client on a pair of binary streams."""

    def __init__(
        self,
        registry: Registry,
        dispatcher: Dispatcher,
        offering: Offering | None = None,
        *,
        identify: Identify,
        admit: Admit,
    ) -> None:
        self._registry = registry
        self._offering = offering
        self._dispatcher = dispatcher
        self._identify = identify
        self._admit = admit

    async def serve(self, reader: BinaryIO, writer: BinaryIO) -> None:
        """Serve until ``reader`` ends."""
        server: Server[Any] = mcp_server(self._registry, self._call, self._offering, admit=self._admit)
        send_in, receive_in = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        send_out, receive_out = anyio.create_memory_object_stream[SessionMessage](0)

        async def listen() -> None:
            async with send_in, send_out.clone() as refuse:
                async for line in _lines(reader):
                    try:
                        await send_in.send(self._message(line))
                    except ProtocolError as error:
                        await refuse.send(_refused(error))

        async def speak() -> None:
            async with receive_out:
                async for message in receive_out:
                    text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await asyncio.to_thread(_write, writer, text.encode() + b"\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(speak)
            tasks.start_soon(listen)
            await server.run(receive_in, send_out, server.create_initialization_options())

    def _message(self, line: bytes) -> SessionMessage:
        envelope = parse(line)
        context = self._identify().calling(envelope.staged)
        scope: Scope = {"type": "stdio", CONTEXT: context, ENVELOPE: envelope}
        try:
            message = jsonrpc_message_adapter.validate_python(orjson.loads(line))
        except ValidationError as error:
            raise ProtocolError(INVALID_REQUEST, "not a JSON-RPC message", id=envelope.id) from error
        return SessionMessage(message, metadata=ServerMessageMetadata(request_context=_LocalRequest(scope)))

    async def _call(self, envelope: Envelope, context: RequestContext, progress: Progress) -> Answer:
        try:
            async with self._admit(envelope, context) as admitted:
                return await self._dispatcher.call(envelope, admitted, progress)
        except CallError as error:
            tool = self._registry.get(envelope.tool or "")
            return failure(error, toolset=tool.toolset if tool is not None else None)


def _refused(error: ProtocolError) -> SessionMessage:
    return SessionMessage(
        JSONRPCError(jsonrpc="2.0", id=error.id, error=ErrorData(code=error.code, message=error.message))
    )


def _write(writer: BinaryIO, line: bytes) -> None:
    writer.write(line)
    writer.flush()


async def _lines(reader: BinaryIO) -> AsyncIterator[bytes]:
    """Lines of a blocking stream, read by a daemon thread so that a silent client never holds up the end."""
    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[bytes](0)

    def read() -> None:
        try:
            while line := reader.readline(MAX_LINE + 1):
                asyncio.run_coroutine_threadsafe(send.send(line), loop).result()
        except (RuntimeError, OSError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # the loop or the stream ended first
        loop.call_soon_threadsafe(send.close)

    threading.Thread(target=read, name="stdio reader", daemon=True).start()
    async with receive:
        async for line in receive:
            if line.strip():
                yield line


@asynccontextmanager
async def standard_streams() -> AsyncIterator[tuple[BinaryIO, BinaryIO]]:
    """This process's standard streams for the protocol alone.

    While the block lasts, whatever else writes to standard output reaches standard error, and what reads standard
    input finds nothing: a stray print cannot break the protocol.
    """
    sys.stdout.flush()
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    try:
        with os.fdopen(wire_in, "rb", closefd=False) as reader, os.fdopen(wire_out, "wb", closefd=False) as writer:
            yield reader, writer
    finally:
        os.dup2(wire_out, 1)
        os.dup2(wire_in, 0)

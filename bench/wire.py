"""A raw keep-alive HTTP/1.1 client for MCP's 2026-07-28 era: it costs next to nothing; the gateway is what is timed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

__all__ = ["Connection", "Refused", "tool_call"]

VERSION = "2026-07-28"


def tool_call(url: str, token: str, name: str, arguments: dict[str, Any], *, method: str = "tools/call") -> bytes:
    """The bytes of one request: ``tools/call`` of ``name``, or another method without a name."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    }
    params: dict[str, Any] = {"_meta": meta}
    if method == "tools/call":
        params |= {"name": name, "arguments": arguments}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    parts = urlsplit(url)
    head = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"Authorization: Bearer {token}",
        "Accept: application/json, text/event-stream",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"MCP-Protocol-Version: {VERSION}",
        f"Mcp-Method: {method}",
    ]
    if method == "tools/call":
        head.append(f"Mcp-Name: {name}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


class Refused(RuntimeError):
    """The gateway did not take the call. ``retryable``: it says that another attempt may be taken."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {answer}")
        self.retryable = bool(answer.get("retryable"))


class Connection:
    """One connection that is kept open; ``exchange`` sends prepared bytes and returns status and body."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        """Connect to the host and port of ``url``."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 22))

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        """Send one request and read its whole response."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        lowered = head.lower()
        if b"transfer-encoding: chunked" in lowered:
            return status, await self._chunks()
        start = lowered.find(b"content-length:")
        length = int(lowered[start + 15 : lowered.index(b"\r\n", start)]) if start >= 0 else 0
        return status, await self._reader.readexactly(length)

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return bytes(body)

    async def call(self, request: bytes) -> dict[str, Any]:
        """Send one request and return its JSON-RPC message, out of an event stream too."""
        status, body = await self.exchange(request)
        data = body
        if body.lstrip().startswith((b"event:", b":", b"data:")):
            data = next(line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6)
        message: dict[str, Any] = orjson.loads(data)
        if status != 200 or "error" in message:
            raise Refused(status, message)
        return message

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()

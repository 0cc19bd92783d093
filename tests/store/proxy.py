"""A TCP proxy in front of the server that can lose a connection at the worst moment."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal
from urllib.parse import urlsplit

COMMIT = b"\x00\x02\xb0\x12\x00\x00"
"""Bolt's COMMIT message as one chunk (Bolt specification, message signature 12)."""

Trick = Literal["none", "drop_before_commit", "drop_after_commit", "hold_commit", "delay_commit"]


class Proxy:
    """Forwards bytes to ``uri``; ``trick`` decides what happens to the next COMMIT."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._target = (parts.hostname, parts.port)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.trick: Trick = "none"
        self.commits = 0
        self.committing = asyncio.Event()
        self.release = asyncio.Event()

    @property
    def uri(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Refuse new connections and lose the present ones."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream = await asyncio.open_connection(*self._target)
        self._writers |= {writer, upstream}
        there = asyncio.create_task(self._forward(reader, upstream, (writer, upstream)))
        back = asyncio.create_task(self._copy(upstream_reader, writer))
        self._tasks |= {there, back}
        await asyncio.wait({there, back}, return_when=asyncio.FIRST_COMPLETED)
        for end in (writer, upstream):
            end.transport.abort()
            self._writers.discard(end)
        await asyncio.gather(there, back, return_exceptions=True)
        self._tasks -= {there, back}

    async def _forward(self, reader, upstream, both) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if COMMIT in data:
                    self.commits += 1
                    self.committing.set()
                    if not await self._commit(data, upstream, both):
                        return
                    continue
                upstream.write(data)
                await upstream.drain()

    async def _commit(self, data: bytes, upstream, both) -> bool:
        if self.trick == "drop_before_commit":
            return False
        if self.trick == "drop_after_commit":
            both[0].transport.pause_reading()
            both[0].transport.abort()
            upstream.write(data)
            await upstream.drain()
            await self.release.wait()
            return False
        if self.trick in {"hold_commit", "delay_commit"}:
            await self.release.wait()
        upstream.write(data)
        await upstream.drain()
        return True

    @staticmethod
    async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()

"""The head of a request on the wire: bounded in size and time, which the server underneath leaves to a proxy.

Without bounds one connection that never ends its header lines takes all memory, and connections that send nothing take
all descriptors (slowloris). The loopback port and the Unix socket need not have a proxy in front that is careful.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

__all__ = ["LARGEST_HEAD", "Wire"]

LARGEST_HEAD: Final = 128 * 1024
"""Bytes of request line and header lines; the largest token that is read has 32 KiB."""
HEAD_SECONDS: Final = 20.0
"""Time from the first byte, or from the connection, to the end of the head."""


class Wire(HttpToolsProtocol):
    """HTTP/1.1 as uvicorn speaks it, closed on heads that are too long or too slow."""

    _head = 0
    _in_head = False
    _between = True
    """Whether the next byte begins a request."""
    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and count what belongs to no body."""
        super().data_received(data)
        if not self._in_head and not self._idle():
            return
        self._head += len(data)
        if self._head > LARGEST_HEAD:
            self._stop_waiting()
            self.send_400_response("The head of this request is too long.")
        elif self._due is None and not self.transport.is_closing():
            self._wait()

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._between, self._head = True, False, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """White space around a value is none of it (RFC 9110 §5.5); the parser leaves what stands behind."""
        super().on_header(name, value.rstrip(b" \t"))

    def on_headers_complete(self) -> None:
        """It is complete; what follows is the body, which has limits of its own."""
        self._in_head, self._head = False, 0
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._between = True
        super().on_message_complete()

    def _idle(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # none before the first request
        return self._between and (cycle is None or cycle.response_complete)

    def _wait(self) -> None:
        self._due = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _give_up(self) -> None:
        self._due = None
        if self._in_head or self._idle():
            self.transport.close()

"""Ports for servers of tests, and what their clients share."""

from __future__ import annotations

import random
import socket
import ssl

__all__ = ["NO_TLS", "free_port"]

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain addresses, made once: reading the system's authorities for each takes longer than a request."""

_own = random.SystemRandom()


def free_port() -> int:
    """A port that nobody listens at, below those that the system gives to outgoing connections (from 32768 on): one of
    these could take it while the server that it is meant for is being started again."""
    while True:
        port = _own.randrange(18_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port

"""Ports for servers of tests."""

from __future__ import annotations

import random
import socket

__all__ = ["free_port"]

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

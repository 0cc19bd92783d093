"""Where the process listens: loopback, a Unix socket for Caddy, and a loopback port for metrics."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.errors import StartError

__all__ = ["bound_loopback", "bound_unix"]

UNAVAILABLE: Final = 69
CANNOT_CREATE: Final = 73


@contextlib.contextmanager
def bound_loopback(port: int, variable: str) -> Iterator[list[socket.socket]]:
    """Listen at ``port`` of the loopback interface, IPv6 too where there is any (``localhost`` may mean either).

    Raises:
        StartError: the port is taken; ``variable`` names the setting that moves it.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(_listening(socket.AF_INET, "127.0.0.1", port, variable))]
        with contextlib.suppress(_NoInterface):
            sockets.append(stack.enter_context(_listening(socket.AF_INET6, "::1", port, variable)))
        yield sockets


@contextlib.contextmanager
def bound_unix(path: Path) -> Iterator[socket.socket]:
    """Listen at a Unix socket that only its owner and group may open: its forwarded headers are believed.

    Raises:
        StartError: another process listens there, or the socket cannot be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.parent.stat().st_uid not in {os.getuid(), 0}:
            raise StartError(f"{path.parent} belongs to someone else; set GRAPHKEEP_SOCKET.", exit_code=CANNOT_CREATE)
        _clear(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(os.fspath(path))
        path.chmod(0o660)  # for a group that shares the folder, such as Caddy's
    except OSError as error:
        raise StartError(f"The socket {path} cannot be made: {error.strerror}.", exit_code=CANNOT_CREATE) from error
    try:
        listener.listen(2048)
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


class _NoInterface(Exception):
    """This machine has no loopback of that family."""


@contextlib.contextmanager
def _listening(family: socket.AddressFamily, host: str, port: int, variable: str) -> Iterator[socket.socket]:
    try:
        # By its protocol asyncio knows to switch Nagle's algorithm off; else each answer waits 40 ms for a late ACK.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _NoInterface from error
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise _NoInterface from error
            raise StartError(
                f"Port {port} cannot be used: {error.strerror}. Stop what listens there, or set {variable}.",
                exit_code=UNAVAILABLE,
            ) from error
        listener.listen(2048)
        yield listener


def _clear(path: Path) -> None:
    """Remove the socket that a killed process left behind."""
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise StartError(f"{path} is in the way and no socket; move it.", exit_code=CANNOT_CREATE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(os.fspath(path))
        except OSError:
            path.unlink()
            return
    raise StartError(f"Another gateway already serves this home ({path}).", exit_code=UNAVAILABLE)

"""What must hold before anything is started: the home folder is ours alone, has room, and the ports are free."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.cli.client.console import EX_UNAVAILABLE
from app.errors import StartError

__all__ = ["EX_CANTCREAT", "EX_TEMPFAIL", "check_ports", "check_room", "ipv6_loopback", "own_home"]

EX_CANTCREAT: Final = 73
EX_TEMPFAIL: Final = 75
"""Exit codes of sysexits.h."""

_LEAST_FREE: Final = 256 * 1024 * 1024
"""Bytes; fetching the engine asks for its own share."""


@contextmanager
def own_home(home: Path) -> Iterator[None]:
    """Hold ``home`` for this process; the lock goes with the process, however it ends.

    Raises:
        StartError: the folder cannot be made or written (exit code 73), or another process holds it (75).
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartError(
            f"The folder {home} cannot be used: {error.strerror}. Set GRAPHKEEP_HOME to one that can be written.",
            exit_code=EX_CANTCREAT,
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(lock, 20).decode("ascii", "replace").strip() or "unknown"
            raise StartError(
                f"graphkeep already runs from {home} (process {holder}). Stop it, or set GRAPHKEEP_HOME to another "
                "folder (and GRAPHKEEP_HTTP_PORT, GRAPHKEEP_HTTPS_PORT to other ports) to run a second one.",
                exit_code=EX_TEMPFAIL,
            ) from error
        os.ftruncate(lock, 0)
        os.write(lock, f"{os.getpid()}\n".encode("ascii"))
        yield
    finally:
        os.close(lock)


def check_room(home: Path) -> None:
    """Refuse a disk on which the database would soon stand still.

    Raises:
        StartError: too little is free (exit code 73).
    """
    free = shutil.disk_usage(home).free
    if free < _LEAST_FREE:
        raise StartError(
            f"The disk of {home} has {free // 1024**2} MiB left; {_LEAST_FREE // 1024**2} MiB are needed. Free some, "
            "or set GRAPHKEEP_HOME to a folder on another disk. Nothing was started.",
            exit_code=EX_CANTCREAT,
        )


def check_ports(ports: dict[str, int]) -> None:
    """Make sure that each port (by the variable that sets it) is free on loopback.

    Raises:
        StartError: one is taken, or two are equal (exit code 69).
    """
    if len(set(ports.values())) < len(ports):
        raise StartError(f"{' and '.join(ports)} must be different ports.", exit_code=EX_UNAVAILABLE)
    for variable, port in ports.items():
        families = [(socket.AF_INET, "127.0.0.1")]
        if ipv6_loopback():
            families.append((socket.AF_INET6, "::1"))
        for family, host in families:
            _try(family, host, port, variable)


def ipv6_loopback() -> bool:
    """Whether this machine has ``::1``."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _try(family: socket.AddressFamily, host: str, port: int, variable: str) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the servers do: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = (
                "is taken by another program"
                if error.errno == errno.EADDRINUSE
                else f"cannot be used: {error.strerror}"
            )
            raise StartError(
                f"Port {port} {why}. Set {variable} to a free one. Nothing was started.", exit_code=EX_UNAVAILABLE
            ) from error

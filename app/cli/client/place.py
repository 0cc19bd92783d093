"""Where the light client finds its gateway and keeps what it has to remember."""

from __future__ import annotations

import os
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from app.cli.client.console import EX_CONFIG
from app.errors import StartError

__all__ = ["ADDRESS_VARIABLE", "TOKEN_VARIABLE", "client_folder", "read_address", "read_token"]

ADDRESS_VARIABLE: Final = "GRAPHKEEP_ADDRESS"
TOKEN_VARIABLE: Final = "GRAPHKEEP_TOKEN"  # noqa: S105 - the name of a variable
_USUAL_PORT: Final = 8080


def client_folder() -> Path:
    """The folder of this person's settings: ``~/.config/graphkeep``, on other systems where programs keep theirs."""
    return Path(typer.get_app_dir("graphkeep"))


def read_token() -> str:
    """The personal access token: ``GRAPHKEEP_TOKEN``, or the file ``token`` in ``client_folder()``.

    Raises:
        StartError: there is none, or others may read the file (exit code 78).
    """
    named = os.environ.get(TOKEN_VARIABLE, "").strip()
    if named:
        return named
    path = client_folder() / "token"
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise StartError(f"others may read {path}; run: chmod 600 {path}", exit_code=EX_CONFIG)
        kept = path.read_text("utf-8").strip()
    except OSError:
        kept = ""
    if not kept:
        raise StartError(
            f"no token: set {TOKEN_VARIABLE}, or put one into {path}. `graphkeep token create` on the gateway's "
            "machine prints one, and so does the console (My tokens).",
            exit_code=EX_CONFIG,
        )
    return kept


def read_address() -> str:
    """The gateway's address without a trailing slash: ``GRAPHKEEP_ADDRESS``, or the file ``address`` in
    ``client_folder()``, or the one on this machine, at the port that the settings give.

    Raises:
        StartError: a token would go to it in the clear, or the settings give no port (exit code 78).
    """
    named = os.environ.get(ADDRESS_VARIABLE, "").strip()
    try:
        kept = named or (client_folder() / "address").read_text("utf-8").strip()
    except OSError:
        kept = ""
    address = (kept or f"http://localhost:{_port()}").rstrip("/").removesuffix("/mcp")
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and _loopback(parts.hostname or "")):
        raise StartError(
            f"a token is sent over https alone, but to this machine; give such an address in {ADDRESS_VARIABLE}",
            exit_code=EX_CONFIG,
        )
    return address


def _port() -> int:
    """Where the gateway of this machine listens. The settings take half a second to import, and a session waits: they
    are read only where something may have set the port."""
    if not Path(".env").is_file() and not any(name.upper().endswith("_PORT") for name in os.environ):
        return _USUAL_PORT
    from app.settings import RunSettings

    try:
        return RunSettings().http_port
    except ValueError as error:
        raise StartError(
            "GRAPHKEEP_HTTP_PORT is no port: give a number from 1 to 65535", exit_code=EX_CONFIG
        ) from error


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""Which gateway a device asks, and with which token."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from app.errors import StartError

__all__ = ["Target", "target"]

EX_NOPERM: Final = 77
_DEFAULT: Final = "http://localhost:8080"


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway's address without a trailing slash, and a bearer token for it."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request carries."""
        return {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}


def target(folder: Path | None = None) -> Target:
    """The gateway named by GRAPHKEEP_URL and GRAPHKEEP_TOKEN, else by the files ``url`` and ``token`` in ``folder``
    (``~/.config/graphkeep``); without an address the one on this machine.

    Raises:
        StartError: there is no token, others may read its file, or the address would send it in the clear.
    """
    place = folder or Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "graphkeep"
    url = (os.environ.get("GRAPHKEEP_URL") or _line(place / "url") or _DEFAULT).rstrip("/").removesuffix("/mcp")
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _loopback(parts.hostname or "")):
        raise StartError(f"{parts.scheme or 'this'} is no way to send a token: give an https address in GRAPHKEEP_URL")
    token = os.environ.get("GRAPHKEEP_TOKEN") or _secret(place / "token")
    if not token:
        raise StartError(
            f"no token: set GRAPHKEEP_TOKEN, or put one that `graphkeep token create` made into {place / 'token'}",
            exit_code=EX_NOPERM,
        )
    return Target(url, token)


def _secret(path: Path) -> str:
    text = _line(path)
    if text and os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StartError(f"others may read {path}: chmod 600 it first", exit_code=EX_NOPERM)
    return text


def _line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

"""Where a browser may be sent back to (RFC 6749 §3.1.2, RFC 8252 §7, RFC 9700 §2.1, §4.1).

A URI is judged by its exact bytes: whatever two parsers could read differently (user info, back-slashes, white space,
percent-encoded or non-ASCII hosts, dots at the end) is refused rather than interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import SplitResult, urlsplit

__all__ = ["MAX_URI", "RedirectPolicy", "Target", "matches", "read_target"]

MAX_URI: Final = 512
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
# Schemes that a browser or an operating system gives a meaning of its own.
NEVER: Final = frozenset(
    {"about", "blob", "chrome", "data", "file", "filesystem", "ftp", "http", "https", "intent", "javascript", "mailto"}
    | {"ms-settings", "resource", "shell", "sms", "ssh", "tel", "telnet", "vbscript", "view-source", "ws", "wss"}
)
_SAFE: Final = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+\Z")
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.\-]*):", re.ASCII)
_LABEL: Final = r"[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?"
_AUTHORITY: Final = re.compile(rf"((?:{_LABEL}\.)*{_LABEL}|\[::1\])(?::([0-9]{{1,5}}))?\Z", re.ASCII)

Kind = Literal["web", "loopback", "private"]


@dataclass(frozen=True, slots=True)
class Target:
    """A redirect URI taken apart. ``host`` holds a port only where one was written; for a private-use scheme it is
    the scheme itself."""

    uri: str
    kind: Kind
    host: str
    origin: str
    """What a content security policy names for it."""
    rest: str
    """Path and query."""


def read_target(uri: str) -> Target:
    """Take a redirect URI apart.

    Raises:
        ValueError: it is none that anyone may be redirected to; the message says why.
    """
    if len(uri) > MAX_URI:
        raise ValueError(f"a redirect URI has at most {MAX_URI} characters")
    if "#" in uri:
        raise ValueError("a redirect URI has no fragment")
    if not _SAFE.match(uri):
        raise ValueError("a redirect URI consists of the printable ASCII characters of RFC 3986 alone")
    scheme = _SCHEME.match(uri)
    if scheme is None:
        raise ValueError("a redirect URI begins with a lower-case scheme")
    parts = urlsplit(uri)
    if scheme[1] in ("https", "http"):
        return _web(uri, parts)
    if scheme[1] in NEVER:
        raise ValueError("this scheme is never a redirect target")
    return Target(uri, "private", f"{scheme[1]}:", f"{scheme[1]}:", uri[len(scheme[0]) :])


def _web(uri: str, parts: SplitResult) -> Target:
    authority = _AUTHORITY.match(parts.netloc)
    if not uri.startswith(f"{parts.scheme}://") or authority is None:
        raise ValueError("the host must be a plain lower-case name, without user information or escapes")
    host, port = authority[1], authority[2]
    if port is not None and not 0 < int(port) < 65536:
        raise ValueError("the port is none")
    rest = parts.path + (f"?{parts.query}" if parts.query else "")
    if host in LOOPBACK and parts.scheme == "http":
        return Target(uri, "loopback", host, f"http://{parts.netloc}", rest)
    if parts.scheme == "http":
        raise ValueError("http is for loopback alone; use https")
    shown = host if port in (None, "443") else f"{host}:{port}"
    return Target(uri, "web", shown, f"https://{parts.netloc}", rest)


def matches(registered: Iterable[str], presented: str) -> bool:
    """Whether ``presented`` is one of the registered URIs: equal byte for byte, on loopback but for the port."""
    known = list(registered)
    if presented in known:
        return True
    try:
        wanted = read_target(presented)
    except ValueError:
        return False
    if wanted.kind != "loopback":
        return False
    return any(_same_loopback(uri, wanted) for uri in known)


def _same_loopback(uri: str, wanted: Target) -> bool:
    try:
        target = read_target(uri)
    except ValueError:
        return False
    return (target.kind, target.host, target.rest) == (wanted.kind, wanted.host, wanted.rest)


class RedirectPolicy:
    """The allow-list: https hosts (``https://host``, ``host``, ``*.host`` for one more label), private-use schemes
    (``scheme://``), loopback always, ``*`` for anything that is well formed."""

    def __init__(self, allowed: Iterable[str]) -> None:
        entries = [entry.strip().lower().rstrip("/") for entry in allowed]
        self.open = "*" in entries
        self._schemes = {entry for entry in entries if entry.endswith(":")}
        self._hosts = {entry.removeprefix("https://") for entry in entries if not entry.endswith(":")} - {"", "*"}

    def allows(self, uri: str) -> bool:
        """Whether a client may register ``uri`` and be sent to it."""
        try:
            target = read_target(uri)
        except ValueError:
            return False
        return self.open or self._named(target)

    def verified(self, uri: str) -> bool:
        """Whether the list names this host or scheme; a loopback program can be any program, so it never is."""
        try:
            target = read_target(uri)
        except ValueError:
            return False
        return target.kind != "loopback" and self._named(target)

    def _named(self, target: Target) -> bool:
        if target.kind == "loopback":
            return True
        if target.kind == "private":
            return target.host in self._schemes
        return target.host in self._hosts or f"*.{target.host.partition('.')[2]}" in self._hosts

"""``graphkeep pending``: the line that a session begins with, or nothing.

It runs at the start of every session, so it never fails, never asks and never takes longer than a second. That the
gateway refuses the token is the one trouble that it tells, apart from the answer: it does not pass by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, Final
from urllib.parse import urlsplit

from app.cli.client.console import note, say
from app.cli.client.place import read_address, read_token
from app.cli.client.push.found import folder
from app.cli.client.push.sent import unsent
from app.counting import counted

__all__ = ["line", "run"]

_SECONDS: Final = 0.8
_LARGEST: Final = 64 * 1024
_LONGEST: Final = 64
_REFUSED: Final = (
    "graphkeep pending: the gateway refuses this token; it needs one that is valid and has the scope memory:read "
    "(GRAPHKEEP_TOKEN, or the file `token` of the graphkeep folder)."
)


class _TokenRefused(Exception):
    """The gateway answered that the token is not valid, or may not ask this."""


def run() -> None:
    """Print the line, if there is one; of what goes wrong, only that the token is refused is said (stderr)."""
    with suppress(Exception):
        try:
            found = _asked()
        except _TokenRefused:
            note(_REFUSED)
            return
        text = line(found, unsent(folder()))
        if text:
            say(text)


def line(found: Mapping[str, Any], unsent: int = 0) -> str:
    """The line for what the gateway answered; empty when there is nothing to say (contract §16).

    ``unsent``: conversations of this device that `graphkeep push` has not dealt with yet.
    """
    waiting = [
        (int(found["unprocessed_transcripts"]), "unprocessed transcript", ""),
        (int(found["pending_ingests"]), "pending ingest doc", ""),
        (unsent, "session", " of this device not sent"),
    ]
    said = ", ".join(counted(number, what) + where for number, what, where in waiting if number)
    if not said:
        return ""
    running = found["running"]
    if running is not None:
        what, minutes = _plain(running["source"]), int(running["minutes"])
        return f"[graph-memory] Dream process running ({what}, started {minutes} min ago)"
    hours = found["hours_since_last_dream"]
    command = f"Run {'graphkeep push, then ' if unsent else ''}/graph-dream to process.{_warning(found)}"
    if hours is None:
        return f"[graph-memory] {said}. No dream process has run yet. {command}"
    if hours < found["cooldown_hours"]:
        return ""
    return f"[graph-memory] {said}. Last dream: {counted(round(hours), 'hour')} ago. {command}"


def _warning(found: Mapping[str, Any]) -> str:
    strange = int(found.get("strange_transcripts", 0))
    if not strange:
        return ""
    said = counted(strange, "transcript")
    return f" Format warning: {said} in a form that the gateway does not know; update graphkeep."


def _plain(text: str) -> str:
    """One short line of it: an agent reads it, and a terminal would obey its control characters."""
    return "".join(ch if ch.isprintable() else " " for ch in text[:_LONGEST])


def _asked() -> Mapping[str, Any]:
    """What waits, asked without the heavier client: half of the second would go by before that is imported.

    It follows no redirect, so the token goes to the address that was configured and to no other.

    Raises:
        _TokenRefused: the gateway refuses the token. OSError, ValueError, StartError: there is no answer.
    """
    parts = urlsplit(read_address())
    headers = {"Authorization": f"Bearer {read_token()}", "Accept": "application/json"}
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.netloc, timeout=_SECONDS)
    try:
        connection.request("GET", f"{parts.path}/pending", headers=headers)
        answer = connection.getresponse()
        body = answer.read(_LARGEST)
    finally:
        connection.close()
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise _TokenRefused
    if answer.status != HTTPStatus.OK:
        raise ConnectionError(answer.status)
    found: Mapping[str, Any] = json.loads(body)
    return found

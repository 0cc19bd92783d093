"""Where a browser goes on after signing in: our own handles and pages alone, so that no link leads elsewhere."""

from __future__ import annotations

import re
from typing import Final

from app.oauth.secrets import HANDLE

__all__ = ["INVITATION", "LANDING", "is_continuation", "is_pending", "path_of"]

LANDING: Final = "/signed-in"
INVITATION: Final = "invitation."
"""Before the token of an invitation."""

_PENDING: Final = re.compile(HANDLE)
_INVITED: Final = re.compile(r"invitation\." + HANDLE)
_CONSOLE: Final = re.compile(r"/console(?:/[A-Za-z0-9_\-]{1,64}){0,5}\Z")


def is_pending(text: str) -> bool:
    """Whether it is spelled like the handle of a pending authorization."""
    return _PENDING.match(text) is not None


def is_continuation(text: str) -> bool:
    """Whether signing in can lead on to it."""
    return is_pending(text) or _INVITED.match(text) is not None or _CONSOLE.match(text) is not None


def path_of(text: str) -> str:
    """The path behind ``text``: a pending authorization, an invitation or a page of the console; else the landing."""
    if is_pending(text):
        return f"/consent?request={text}"
    if _INVITED.match(text):
        return f"/invitation?token={text.removeprefix(INVITATION)}"
    return text if _CONSOLE.match(text) else LANDING

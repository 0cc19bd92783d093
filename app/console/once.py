"""Secrets that a page shows once after a form was posted: neither in an address nor readable in the database.

The text is encrypted with a key of this gateway, this very browser's cookie and the page's handle; the first look takes
it, and after ten minutes it is gone.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Final

from app.oauth.login.sessions import Visit
from app.oauth.sealing import Sealer, UnreadableSeal
from app.oauth.secrets import digest, new_token
from app.store.control.shown import ShownStore

__all__ = ["Shown", "keep", "take"]

SECONDS: Final = 10 * 60
PURPOSE: Final = "shown once"


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown: a title, a sentence, the lines to copy, and where to go on."""

    title: str
    about: str
    lines: list[str]
    back: str
    tenant: str = ""
    """Name of the tenant that it concerns."""


async def keep(store: ShownStore, seen: Visit, shown: Shown) -> str:
    """Keep it for this browser; the handle of the page that shows it."""
    handle = new_token()
    sealed = (await _sealer(seen, handle)).seal(json.dumps(asdict(shown)).encode(), PURPOSE)
    await store.put(digest(handle), sealed, time.time() + SECONDS)
    return handle


async def take(store: ShownStore, seen: Visit, handle: str) -> Shown | None:
    """What was kept, once; None for another browser or a second look."""
    sealed = await store.take(digest(handle), time.time())
    if sealed is None:
        return None
    try:
        return Shown(**json.loads((await _sealer(seen, handle)).open(sealed, PURPOSE)))
    except UnreadableSeal:
        return None


async def _sealer(seen: Visit, handle: str) -> Sealer:
    return Sealer((await seen.services.secrets()).mac("shown once", seen.address, seen.token, handle))

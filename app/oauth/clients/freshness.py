"""For how long an answer counts as fresh by its headers (RFC 9111 §4.2), within bounds of our own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["LONGEST_SECONDS", "SHORTEST_SECONDS", "USUAL_SECONDS", "fresh_seconds"]

SHORTEST_SECONDS: Final = 60.0
"""Also of what is never to be stored: the steps of one sign-in need the same document."""

LONGEST_SECONDS: Final = 24 * 3600.0
USUAL_SECONDS: Final = 3600.0
"""Where the headers say nothing."""

_DIRECTIVE: Final = re.compile(r"([a-z\-]+)(?:=\"?([0-9]{1,10})\"?)?", re.ASCII)


def fresh_seconds(headers: Mapping[str, str], now: float) -> float:
    """Seconds from now on; names of ``headers`` are in lower case, ``now`` is Unix seconds."""
    directives = dict(_DIRECTIVE.findall(headers.get("cache-control", "").lower().replace(" ", "")))
    if directives.keys() & {"no-store", "no-cache"}:
        return SHORTEST_SECONDS
    life = _life(directives, headers, now)
    age = headers.get("age", "").strip()
    used = float(age) if age.isascii() and age.isdecimal() and len(age) < 10 else 0.0
    return min(max(life - used, SHORTEST_SECONDS), LONGEST_SECONDS)


def _life(directives: Mapping[str, str], headers: Mapping[str, str], now: float) -> float:
    if directives.get("max-age"):
        return float(directives["max-age"])
    if "expires" not in headers:
        return USUAL_SECONDS
    try:
        until = parsedate_to_datetime(headers["expires"])
        return (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, OverflowError):
        return 0.0  # RFC 9111 §5.3: an invalid date has passed

"""What is left of a weight or a confidence after a time, for what is decided outside of the database.

The same function as graph_decay's statements compute (``app.memory.fading.queries`` says what ``decay_state`` holds).
Whatever adds to what fades lets it fade first: then no weight depends on when graph_decay ran.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from app.memory.moments import stored_moment

__all__ = ["FLOOR", "rest", "state_at"]

FLOOR: Final = 0.01
"""Nothing fades below it."""

_DAY: Final = 86_400


def rest(held: float, seen: datetime | None, state: Sequence[float] | None, rate: float, now: datetime) -> float:
    """What a record should hold ``now``: ``held`` is what it holds, last seen or confirmed at ``seen``.

    ``state`` is its ``decay_state``, ``rate`` the part that is left after each whole day.
    """
    if seen is None:
        return held
    base, since = held, float(math.floor(seen.timestamp()))
    if state is not None and since <= state[1]:
        base, since = (state[0], state[1]) if held == state[3] else (held, state[1] + _DAY * state[2])
    days = math.floor((math.floor(now.timestamp()) - since) / _DAY)
    if days < 1:
        return held
    return base if base <= FLOOR else max(FLOOR, base * rate**days)


def state_at(held: float, moment: str | datetime | None) -> list[float] | None:
    """The ``decay_state`` of what held ``held`` at ``moment``, wherever it faded before."""
    at = stored_moment(moment)
    return None if at is None else [held, float(math.floor(at.astimezone(UTC).timestamp())), 0.0, held]

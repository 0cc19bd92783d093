"""What a person took out of the queue leaves a record that says so, and nothing of what it held.

Whoever sends all that there is on a device asks first what is known of each file, and lets such a one be.
"""

from __future__ import annotations

from typing import Any, Final

from app.store.control.queue import Item, change_in
from app.store.control.queue_statements import FORGET_CANCELLED
from app.store.session import Writing

__all__ = ["CANCELLED", "cancel_in"]

CANCELLED: Final = "cancelled"
"""The state of such a record."""

KEPT: Final = 1000
"""Records of one tenant; the oldest go first."""

_STAYS: Final = frozenset(
    {
        *("id", "tenant", "layer", "name", "sha256", "size", "media_type", "kind", "subject"),
        *("created_at", "due", "attempts", "claims"),
    }
)


async def cancel_in(writing: Writing, item: Item, now: float) -> None:
    """Cancel a locked item."""
    gone: dict[str, Any] = dict.fromkeys(item.record().keys() - _STAYS)
    stands = {"state": CANCELLED, "meta": "{}", "stored": False, "text": False, "updated_at": now}
    await change_in(writing, item.id, gone | stands)
    await writing.run(FORGET_CANCELLED, of=item.tenant, keep=KEPT)

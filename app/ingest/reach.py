"""Who may see what of the queue: sending needs ``ingest:write`` alone, what others sent and any text ``memory:read``.

Who may only send sees how it stands with what was sent by the same person, and no text.
"""

from __future__ import annotations

from typing import Final

from app.context import Principal
from app.errors import InsufficientScope

__all__ = ["READING", "require_reading", "sender"]

READING: Final = "memory:read"


def sender(principal: Principal) -> str | None:
    """The subject whose items alone this connection may see; None: those of all that its layers hold."""
    return None if READING in principal.grant.scopes else principal.subject


def require_reading(principal: Principal, action: str) -> None:
    """Let pass who may read what was sent.

    Raises:
        InsufficientScope: this connection may only send.
    """
    if sender(principal) is not None:
        raise InsufficientScope(
            f"{action} reads what was sent, which needs the scope {READING}; this connection was granted sending "
            "alone. Connect again and allow it. Nothing was applied.",
            scopes=principal.grant.scopes | {READING},
        )

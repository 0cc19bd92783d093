"""Who may see what of the queue: sending needs ``ingest:write`` alone, what others sent and any text ``memory:read``.

Who may only send sees how it stands with what was sent by the same person, and no text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from app.access.layers import scope_for
from app.context import Principal, RequestContext, layer_name
from app.errors import Forbidden, InsufficientScope, InternalError, OAuthError
from app.store.control.standing import require_active
from app.store.session import Writing

__all__ = ["READING", "require_reading", "sender", "still_sending"]

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


def still_sending(context: RequestContext, layer: str) -> Callable[[Writing, str], Awaitable[None]]:
    """Asks, in the transaction that accepts what came slowly, whether its sender may send to ``layer`` still.

    It raises Overloaded if the tenant is not active, Forbidden if the connection was ended or changed meanwhile.
    """
    again = context.again
    if again is None:
        raise InternalError("an upload reached its route without the stage that knows its token")

    async def standing(writing: Writing, data: str) -> None:
        await require_active(writing, data)
        try:
            principal = again()
        except OAuthError as error:
            raise Forbidden(f"while the upload came, {error.description}. Nothing was stored.") from None
        scope_for(principal, [layer_name(layer)], writes=True)

    return standing

"""What every changing call leaves: an entry in the tenant's audit trail, and its answer under the caller's key.

Both belong to the change's own transaction, so that neither is there without the other.
"""

from __future__ import annotations

from collections.abc import Collection

from app.contract import Call
from app.store.control.audit import append_in
from app.store.database import Idempotency, Writing

__all__ = ["noted", "once"]


async def noted(
    writing: Writing, call: Call, target: str, layers: Collection[str], **detail: str | float | bool | None
) -> None:
    """Append an entry for this call; ``layers`` are those that it changed, and only their readers see the entry.

    ``target`` and ``detail`` may be of what is remembered (ids, relations, the caller's reason): the search over all
    tenants leaves them out of every action that begins with ``memory.``.
    """
    await append_in(
        writing.control(),
        tenant=call.principal.tenant,
        actor=call.principal.subject,
        action=call.tool.replace("graph_", "memory.", 1),
        target=target,
        layers=layers,
        detail={name: value for name, value in detail.items() if value is not None},
    )


def once(call: Call, key: str | None) -> Idempotency | None:
    """The call's idempotency record, where the caller gave a key."""
    return None if key is None else Idempotency(key, call.tool, call.arguments_digest)

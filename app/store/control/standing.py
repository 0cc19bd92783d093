"""Whether a data id is still an active tenant's: asked by writers that may outlive an exchange or an erasure.

A call is let in once, and most are over before an exchange or an erasure goes on. What may take longer asks again in
the transaction that writes, and best as the last thing it does there: the tenant's record stays locked until its end,
so that what comes to the tenant comes wholly before or wholly after (partition rule 22).
"""

from __future__ import annotations

import time
from typing import Final

from app.errors import Overloaded
from app.store.session import Writing
from app.store.statement import statement

__all__ = ["lock_tenant", "require_active", "require_in_place", "require_kept"]

RETRY_MS: Final = 5000

# What is read beside the lock may be what was there before it was had: the question is a statement of its own.
LOCK = statement(
    "standing.lock_tenant", "MATCH (t:_Tenant {data: $of}) SET t.touched = $now", writes=True, control=True
)
STANDING = statement(
    "standing.read_tenant",
    """
    OPTIONAL MATCH (t:_Tenant {data: $of})
    OPTIONAL MATCH (m:_Move {id: $of, state: 'leaving'})
    RETURN t.state AS state, m IS NOT NULL AS left
    """,
    control=True,
)


async def lock_tenant(writing: Writing, data: str) -> None:
    """Hold the tenant's record until the transaction ends: who counts what it has comes after whoever did before."""
    await writing.run(LOCK, of=data, now=int(time.time() * 1000))


async def require_active(writing: Writing, data: str) -> None:
    """Go on only if an active tenant has this data id, and keep it so until the transaction ends.

    ``writing`` is one of control records: a tenant's own gives it by ``writing.control()``.

    Raises:
        Overloaded: there is none, or it is being moved, suspended or deleted; the transaction applies nothing.
    """
    state, _ = await _standing(writing, data)
    if state != "active":
        raise _away()


async def require_in_place(writing: Writing, data: str) -> None:
    """The same for a call that is over before a data id that was left is forgotten, and before an erasure begins.

    Raises:
        Overloaded: the tenant with this data id is not active, or it has left it.
    """
    state, left = await _standing(writing, data)
    if left or state not in {None, "active"}:
        raise _away()


async def require_kept(writing: Writing, data: str) -> None:
    """The same for an operator's work on what a tenant holds: a suspended one's too.

    Raises:
        Overloaded: no tenant has this data id any more, or its data is being moved; the transaction applies nothing.
    """
    state, _ = await _standing(writing, data)
    if state not in {"active", "suspended"}:
        raise _away()


async def _standing(writing: Writing, data: str) -> tuple[str | None, bool]:
    await lock_tenant(writing, data)
    row = (await writing.run(STANDING, of=data))[0]
    return row["state"], bool(row["left"])


def _away() -> Overloaded:
    return Overloaded(
        "this tenant's data is being restored, or it was suspended meanwhile. Nothing more was applied; try again "
        "in a few seconds.",
        retry_after_ms=RETRY_MS,
    )

"""Removing what has expired, beside the calls: idempotency keys and revocations."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from app.errors import CallError
from app.store.control.revocations import Revocations
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["keep_swept", "sweep"]

_SWEPT_AT_ONCE: Final = 1000

SWEEP: Final = statement(
    "idempotency.sweep_expired",
    """
    MATCH (i:_Idempotency) WHERE i.created_at < datetime() - duration('PT24H')
    WITH i LIMIT $limit
    DETACH DELETE i
    RETURN count(*) AS swept
    """,
    writes=True,
    control=True,
)


async def sweep(control: ControlSession) -> int:
    """Remove up to 1,000 expired idempotency keys; how many went.

    Raises:
        CallError: the database does not answer.
    """

    async def work(writing: Writing) -> int:
        return int((await writing.run(SWEEP, limit=_SWEPT_AT_ONCE))[0]["swept"])

    return await control.write(work)


async def keep_swept(control: ControlSession, *, every: float = 3600.0) -> None:
    """Sweep every ``every`` seconds, for ever; a database that is away is asked again next time."""
    revocations = Revocations(control)
    while True:
        with contextlib.suppress(CallError):
            while await sweep(control) == _SWEPT_AT_ONCE:
                pass
            await revocations.sweep(time.time())
        await asyncio.sleep(every)

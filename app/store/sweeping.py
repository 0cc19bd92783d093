"""Removing what has expired or is too much, beside the calls: idempotency keys, undo records, revocations, old runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

from app.errors import CallError
from app.store.control.revocations import Revocations
from app.store.control.run_events import RunEvents
from app.store.control.runs import RunStore
from app.store.session import ControlSession, Writing
from app.store.statement import statement
from app.store.trimming import trim, trim_if_grown

__all__ = ["keep_swept", "sweep", "sweep_changes"]

_SWEPT_AT_ONCE: Final = 1000
_LARGE_SWEPT_AT_ONCE: Final = 50
_LOOK_SECONDS: Final = 60.0
"""How often it is asked, between sweeps, whether much was written."""
_UNKNOWN: Final = 2**63 - 1
_DAY: Final = 24 * 3600 * 1000
_RUNS_KEPT: Final = 400 * _DAY
_REPORTS_KEPT: Final = 180 * _DAY

# The write lock is taken before the age is asked again: a key that is used again has begun anew meanwhile.
SWEEP: Final = statement(
    "idempotency.sweep_expired",
    """
    MATCH (i:_Idempotency) WHERE i.created_at < datetime() - duration('PT24H')
    WITH i LIMIT $limit
    SET i.locked = true
    WITH i WHERE i.locked
    REMOVE i.locked
    WITH i WHERE i.created_at < datetime() - duration('PT24H')
    DETACH DELETE i
    RETURN count(*) AS swept
    """,
    writes=True,
    control=True,
)
SWEEP_CHANGES: Final = statement(
    "undo.sweep_expired",
    """
    MATCH (u:_Undo) WHERE u.expires_at <= $now
    WITH u LIMIT $limit
    DELETE u
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


async def sweep_changes(control: ControlSession, now: float) -> int:
    """Remove up to 50 changes that can no longer be undone at ``now`` (Unix seconds); how many went.

    Raises:
        CallError: the database does not answer.
    """

    async def work(writing: Writing) -> int:
        swept = await writing.run(SWEEP_CHANGES, now=int(now * 1000), limit=_LARGE_SWEPT_AT_ONCE)
        return int(swept[0]["swept"])

    return await control.write(work)


async def keep_swept(control: ControlSession, *, every: float = 3600.0) -> None:
    """Sweep every ``every`` seconds, for ever, and trim between where a burst of records came.

    A database that is away is asked again next time.
    """
    revocations = Revocations(control)
    while True:
        with contextlib.suppress(CallError):
            while await sweep(control) == _SWEPT_AT_ONCE:
                pass
            while await sweep_changes(control, time.time()) == _LARGE_SWEPT_AT_ONCE:
                pass
            await revocations.sweep(time.time())
            now = int(time.time() * 1000)
            await RunStore(control).sweep(now - _RUNS_KEPT)
            await RunEvents(control).sweep(now - _REPORTS_KEPT)
            await trim(control)
        await _kept_trimmed(control, every)


async def _kept_trimmed(control: ControlSession, seconds: float) -> None:
    until, held = time.monotonic() + seconds, _UNKNOWN
    while (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(_LOOK_SECONDS, left))
        with contextlib.suppress(CallError):
            held = await trim_if_grown(control, held)

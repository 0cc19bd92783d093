"""What waits for a run and when the last one was: the tenant's own, of the layers that the call reads."""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.contract import Call, Json
from app.memory.runs.lease import readable
from app.memory.runs.shown import last_dream, when
from app.store.control.queue import QueueStore, Summary
from app.store.control.runs import Run, RunStore
from app.store.database import Database

__all__ = ["Pending", "pending"]

_HOUR: float = 3_600_000.0


@dataclass(frozen=True, slots=True)
class Pending:
    """The queue's figures and the last run that learnt."""

    queue: Summary
    last: Run | None

    @property
    def last_dream_run(self) -> str | None:
        """When the last run that learnt ended, or began if it has not."""
        return None if self.last is None else when(self.last.ended_at or self.last.begun_at)

    def work(self) -> Json:
        """As ``graph_build_context`` shows it."""
        at = None if self.last is None else (self.last.ended_at or self.last.begun_at)
        return {
            "unprocessed_transcripts": self.queue.unprocessed_transcripts,
            "pending_ingests": self.queue.pending,
            "failed_ingests": self.queue.failed,
            "last_dream_run": self.last_dream_run,
            "hours_since_last_dream": None if at is None else round((time.time() * 1000 - at) / _HOUR, 1),
        }

    def dream(self) -> Json | None:
        """The last run, or None."""
        return None if self.last is None else last_dream(self.last)


async def pending(database: Database, call: Call) -> Pending:
    """Read both.

    Raises:
        CallError: what the store raises.
    """
    control = database.control.until(call.deadline, call.request_id)
    queue = await QueueStore(control).summary(call.scope.tenant, call.scope.layers)
    return Pending(queue, await RunStore(control).last(call.scope.tenant, readable(call)))

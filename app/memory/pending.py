"""What waits for a run and when the last one was: the tenant's own, of the layers that the call reads."""

from __future__ import annotations

import time
from dataclasses import dataclass

from app.context import Scope
from app.contract import Json
from app.memory.runs.shown import last_dream, when
from app.store.control.queue import QueueStore, Summary
from app.store.control.runs import Run, RunStore
from app.store.session import ControlSession

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
        """As ``graph_build_context`` and ``GET /pending`` show it."""
        at = None if self.last is None else (self.last.ended_at or self.last.begun_at)
        return {
            "unprocessed_transcripts": self.queue.unprocessed_transcripts,
            "pending_ingests": self.queue.pending,
            "failed_ingests": self.queue.failed,
            "last_dream_run": self.last_dream_run,
            "hours_since_last_dream": None if at is None else round(max(0.0, time.time() * 1000 - at) / _HOUR, 1),
        }

    def dream(self) -> Json | None:
        """The last run, or None."""
        return None if self.last is None else last_dream(self.last)


async def pending(control: ControlSession, scope: Scope) -> Pending:
    """Read both, for a call that reads.

    Raises:
        CallError: what the store raises.
    """
    queue = await QueueStore(control).summary(scope.tenant, scope.layers)
    return Pending(queue, await RunStore(control).last(scope.tenant, scope.layers))

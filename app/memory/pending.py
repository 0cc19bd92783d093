"""What waits for a run, when the last one ended and which one is under way: the tenant's own, of the layers that the
call reads."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from app.context import Scope
from app.contract import Json
from app.memory.runs.shown import last_dream, when
from app.store.control.queue import QueueStore, Summary
from app.store.control.runs import LEARNING, Kind, Run, RunStore
from app.store.session import ControlSession

__all__ = ["Pending", "pending"]

_HOUR: Final = 3_600_000.0
_MINUTE: Final = 60_000
_TOLD: Final[tuple[Kind, ...]] = (*LEARNING, "weekly-maintenance")
"""Kinds whose run is told of while it is under way: a capture is a session's own and keeps nobody waiting."""


@dataclass(frozen=True, slots=True)
class Pending:
    """The queue's figures and the runs at the moment ``now``, Unix milliseconds."""

    queue: Summary
    latest: Run | None
    """The run that learnt and began last, whatever became of it."""
    last: Run | None
    """The last run that learnt and came to its end."""
    running: Run | None
    now: int

    @property
    def last_dream_run(self) -> str | None:
        """When the last run that learnt came to its end."""
        return None if self.last is None else when(self.last.ended_at)

    def work(self) -> Json:
        """As ``graph_build_context`` and ``GET /pending`` show it."""
        ended = None if self.last is None else self.last.ended_at
        return {
            "unprocessed_transcripts": self.queue.unprocessed_transcripts,
            "pending_ingests": self.queue.pending,
            "failed_ingests": self.queue.failed,
            "last_dream_run": self.last_dream_run,
            "hours_since_last_dream": None if ended is None else round(max(0, self.now - ended) / _HOUR, 1),
            "running": self._under_way(),
        }

    def dream(self) -> Json | None:
        """The latest run with what it is now, or None."""
        return None if self.latest is None else last_dream(self.latest, self.now)

    def _under_way(self) -> Json | None:
        """Every member's session begins with this: nothing that another member worded stands in it."""
        if self.running is None:
            return None
        return {"source": self.running.kind, "minutes": max(0, self.now - self.running.begun_at) // _MINUTE}


async def pending(control: ControlSession, scope: Scope) -> Pending:
    """Read all of it, for a call that reads.

    Raises:
        CallError: what the store raises.
    """
    store, now = RunStore(control), int(time.time() * 1000)
    queue = await QueueStore(control).summary(scope.tenant, scope.layers)
    last = latest = await store.last(scope.tenant, scope.layers)
    if latest is not None and latest.state != "completed":
        last = await store.last(scope.tenant, scope.layers, completed=True)
    running = await store.running(scope.tenant, scope.layers, now, kinds=_TOLD)
    return Pending(queue, latest, last, running, now)

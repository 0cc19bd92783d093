"""Tools of runs: who leads one, how far it got, what it did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call, Cost, DeadlineClass, Tool
from app.memory.runs.answers import AuditAnswer, RunAnswer
from app.memory.runs.leading import Leading
from app.memory.runs.reporting import report
from app.memory.runs.schemas import AuditInput, RunInput
from app.memory.runs.standing import standing
from app.memory.service import MemoryService

__all__ = ["RUNS"]

_WRITE: Final = "memory:write"


async def _run(service: MemoryService, call: Call, arguments: RunInput) -> Mapping[str, Any]:
    if arguments.action == "status":
        return await standing(service.database, call, arguments)
    return await Leading(service.database, call, arguments).answer()


async def _audit(service: MemoryService, call: Call, arguments: AuditInput) -> Mapping[str, Any]:
    return await report(service.database, call, arguments)


RUNS: Final = (
    Tool(
        name="graph_run",
        title="Lead a run",
        description=(
            "Lead a run that learns (dream, bootstrap, weekly-maintenance, capture), so that two devices never do one "
            "at once. `begin` answers with a `lease`, which heartbeat, progress and finish take, or refuses with "
            "retry_after_ms while another device leads; name your `device`, and the same device takes an interrupted "
            "run up again, with a new lease: the old one leads no more. A run that was silent for 30 minutes may be "
            "gone on with by others. `progress` after each conversation stores how far it was read (session_id, "
            "through, last_event_id, line_count) and what came of it; `heartbeat` keeps the lease during long work, "
            "as graph_audit with it does too. `finish` ends the run with a changelog for people, `abort` gives it up, "
            "from any of your devices. `status` shows the run under way, the last one, watermarks and what was "
            "reported. Each answer says in `next` what to do."
        ),
        toolset="memory",
        input=RunInput,
        output=RunAnswer,
        run=_run,
        scope=_WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        volatile=frozenset(
            {
                *("run_id", "resumes", "started_at", "last_heard_at", "lease_until", "ended_at", "duration_ms"),
                *("processed_at", "timestamp", "next_cursor", "retry_after_ms", "lease"),
            }
        ),
        example={"action": "begin", "kind": "dream", "device": "laptop", "source": "manual-graph-dream"},
    ),
    Tool(
        name="graph_audit",
        title="Report what a run did",
        description=(
            "Append to the tenant's trail what a run did or decided: one entry for each transcript begun, finished or "
            "skipped, entity created or resolved, relation changed, merge flagged, contradiction found, document "
            "ingested, decay applied, warning or error. Who reported, when and in which run is set by graphkeep and "
            "cannot be set by `data`. Usual keys of `data`: session_id, file_path, reason; entity_resolved: "
            "candidate_name, action (matched_existing, created_new, skipped_ambiguous, alias_attached), chosen_id, "
            "reason, similarity_score. `logged` is true once the entry is stored. No secrets and no long text. "
            "graph_run status shows the trail."
        ),
        toolset="memory",
        input=AuditInput,
        output=AuditAnswer,
        run=_audit,
        scope=_WRITE,
        cost=Cost.PLAIN,
        deadline=DeadlineClass.WRITE,
        read_only=False,
        volatile=frozenset({"run_id", "timestamp"}),
        example={
            "event": "entity_resolved",
            "data": {"candidate_name": "Graphkeep", "action": "matched_existing", "reason": "same project"},
        },
    ),
)

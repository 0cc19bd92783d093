"""What ``graph_run`` and ``graph_audit`` take."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from app.contract import WriteArguments
from app.memory.moments import Moment
from app.memory.schemas import Cursor, Name, Short, Text
from app.store.control.runs import Kind

__all__ = ["EVENTS", "AuditInput", "Event", "RunInput"]

Event = Literal[
    "run_start",
    "run_end",
    "transcript_start",
    "transcript_end",
    "transcript_skipped",
    "entity_created",
    "entity_resolved",
    "edge_created",
    "edge_modified",
    "merge_flagged",
    "contradiction_found",
    "ingest_start",
    "ingest_end",
    "decay_applied",
    "format_warning",
    "error",
]

EVENTS: tuple[str, ...] = get_args(Event)
"""What may be reported."""

Label = Annotated[str, Field(pattern=r"^[\w .:-]{0,64}$")]
"""A word or two that other members are shown: no lines, no escapes, no room for instructions."""

Count = Annotated[int | None, Field(ge=0, le=10_000_000)]


class RunInput(WriteArguments):
    """Input of ``graph_run``."""

    action: Literal["begin", "heartbeat", "progress", "finish", "abort", "status"]
    kind: Kind = Field(default="dream", description="begin: what kind of run.")
    device: Label = Field(default="", description="begin: name of this device; the same one takes its run up again.")
    source: Label = Field(default="", description="begin: what started it, e.g. scheduled-nightly, manual-graph-dream.")
    lease: Short | None = Field(default=None, description="heartbeat, progress, finish: as begin answered it last.")
    run_id: Name | None = Field(default=None, description="abort, status: a run; abort by default: yours under way.")
    session_id: Name | None = Field(default=None, description="progress: the conversation that was read.")
    through: Moment | None = Field(default=None, description="progress: when its last message that was read was said.")
    last_event_id: Short | None = Field(default=None, description="progress: id of that message.")
    line_count: Count = Field(default=None, description="progress: lines of the transcript that were read.")
    documents: Count = Field(default=None, description="progress: documents more; finish: in all.")
    entities: Count = Field(default=None, description="progress: entities made of it; finish: in all.")
    edges: Count = Field(default=None, description="progress: relations made of it; finish: in all.")
    errors: Count = Field(default=None, description="progress: errors more; finish: in all.")
    changelog: Text = Field(default="", description="finish: what changed, in Markdown, for people.")
    reason: Short = Field(default="", description="abort: why.")
    session_ids: list[Name] = Field(default_factory=list, max_length=500, description="status: watermarks of these.")
    limit: int = Field(default=20, ge=1, le=200, description="status: most entries of each list.")
    cursor: Cursor = None


class AuditInput(WriteArguments):
    """Input of ``graph_audit``."""

    event: Event
    data: dict[str, Any] = Field(
        default_factory=dict, max_length=100, description='What happened, e.g. {"session_id": "s1"}; at most 8 KiB.'
    )
    lease: Short | None = Field(default=None, description="Of the run it belongs to; keeps the run's lease, too.")
    run_id: Name | None = Field(default=None, description="The run it belongs to; default: your run under way.")

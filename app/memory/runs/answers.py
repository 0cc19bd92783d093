"""What ``graph_run`` and ``graph_audit`` answer. Moments are ISO text in UTC."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

__all__ = ["AuditAnswer", "RunAnswer"]


class RunShown(BaseModel):
    """A run."""

    run_id: str
    kind: str
    state: str = Field(description="running, completed, aborted, expired (its lease is over).")
    yours: bool
    device: str
    source: str
    layers: list[str]
    started_at: str
    last_heard_at: str
    lease_until: str | None
    ended_at: str | None
    duration_ms: int | None
    transcripts_processed: int
    ingest_processed: int
    entities_created: int
    edges_created: int
    errors: int
    changelog: str | None = None
    reason: str | None = None
    resumes: str | None = Field(default=None, description="The interrupted run that it goes on with.")


class WatermarkShown(BaseModel):
    """How far a conversation was read."""

    session_id: str
    through: str | None
    last_event_id: str | None
    line_count: int
    run_id: str
    processed_at: str


class EventShown(BaseModel):
    """What was reported with graph_audit."""

    event: str
    timestamp: str
    run_id: str | None
    principal: str
    origin: str = Field(description="gateway: recorded by graphkeep itself; agent: told by graph_audit.")
    data: dict[str, Any]


class RunAnswer(BaseModel):
    """Answer of ``graph_run``."""

    action: str
    run: RunShown | None
    resumed: bool | None = None
    lease: str | None = Field(default=None, description="begin: to be given with heartbeat, progress and finish.")
    watermark: WatermarkShown | None = None
    last_completed: RunShown | None = None
    runs: list[RunShown] | None = None
    watermarks: list[WatermarkShown] | None = None
    events: list[EventShown] | None = None
    warnings: list[str] | None = None
    next: str = Field(description="What to do now.")
    next_cursor: str | None = None


class AuditAnswer(BaseModel):
    """Answer of ``graph_audit``."""

    logged: bool
    event: str
    timestamp: str
    run_id: str | None
    principal: str
    ignored: list[str] = Field(description="Keys of data that graphkeep sets itself.")
    missing: list[str] = Field(description="Usual keys of this event that data lacks.")

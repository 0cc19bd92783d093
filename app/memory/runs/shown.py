"""Runs, watermarks and reports in the form that answers show."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from app.context import layer_name
from app.contract import Call, Json
from app.memory.moments import moment_text
from app.store.control.run_events import RunEvent
from app.store.control.runs import Run, Watermark

__all__ = ["event_shown", "last_dream", "mark_shown", "run_shown", "when"]


def when(milliseconds: int | None) -> str | None:
    """A moment in Unix milliseconds as ISO text."""
    return None if milliseconds is None else moment_text(datetime.fromtimestamp(milliseconds / 1000, UTC))


def run_shown(run: Run, call: Call, now: int, *, whole: bool = False) -> Json:
    """A run; its changelog only where the whole is wanted."""
    state = run.state_at(now)
    shown: dict[str, Any] = {
        "run_id": run.id,
        "kind": run.kind,
        "state": state,
        "yours": run.subject == call.principal.subject,
        "device": run.device,
        "source": run.source,
        "layers": _names(run.layers),
        "started_at": when(run.begun_at),
        "last_heard_at": when(run.beat_at),
        "lease_until": when(run.expires_at) if state == "running" else None,
        **_counts(run),
    }
    if whole and run.changelog:
        shown["changelog"] = run.changelog
    return shown | {name: value for name, value in (("reason", run.reason), ("resumes", run.resumes)) if value}


def last_dream(run: Run, now: int) -> Json:
    """A run as ``graph_build_context`` tells of the last dream (contract §7.17), with what it is at this moment."""
    told = {"run_id": run.id, "state": run.state_at(now), "started_at": when(run.begun_at), "source": run.source}
    return told | _counts(run)


def mark_shown(mark: Watermark) -> Json:
    """A watermark."""
    return {
        "session_id": mark.session,
        "through": mark.through or None,
        "last_event_id": mark.last_event_id or None,
        "line_count": mark.line_count,
        "run_id": mark.run,
        "processed_at": when(mark.at),
    }


def event_shown(entry: RunEvent) -> Json:
    """What was reported: the data below, what graphkeep vouches for beside it."""
    return {
        "event": entry.event,
        "timestamp": when(entry.at),
        "run_id": entry.run or None,
        "principal": entry.subject,
        "origin": entry.origin,
        "data": dict(entry.data),
    }


def _counts(run: Run) -> Json:
    return {
        "ended_at": when(run.ended_at),
        "duration_ms": None if run.ended_at is None else run.ended_at - run.begun_at,
        "transcripts_processed": run.transcripts,
        "ingest_processed": run.documents,
        "entities_created": run.entities,
        "edges_created": run.edges,
        "errors": run.errors,
    }


def _names(layers: Iterable[str]) -> list[str]:
    return sorted(map(layer_name, layers))

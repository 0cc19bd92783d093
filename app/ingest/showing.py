"""Items of the queue as the tools show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson

from app.context import layer_name
from app.store.control.queue import Item

__all__ = ["candidate", "completed", "failed", "moment", "named", "queued"]


def moment(seconds: float) -> str:
    """ISO 8601 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def named(item: Item) -> dict[str, Any]:
    """Which item an answer is about."""
    return {"id": item.id, "file": item.name, "state": item.state, "layer": layer_name(item.layer)}


def queued(item: Item, since: float | None = None, *, lease: bool = False) -> dict[str, Any]:
    """An item that waits or is being worked on; with ``lease`` for who holds it."""
    shown: dict[str, Any] = {
        **named(item),
        "kind": item.kind,
        "sender": item.subject,
        "queued_at": moment(item.created_at),
        "size": f"{item.size / 1024:.1f} KB",
        "meta": orjson.loads(item.meta),
    }
    if since is not None:
        shown["since"] = moment(since)
    if item.facts is not None:
        facts = orjson.loads(item.facts)
        shown["facts"] = {name: facts[name] for name in ("message_count", "bad_lines", "session_id", "cwd", "last_at")}
    if item.attempts > 1:
        shown["attempts"] = item.attempts
    if lease:
        shown |= {"lease": item.lease, "lease_until": moment(item.due)}
    return shown


def candidate(item: Item) -> dict[str, Any]:
    """One of several transcripts of a name."""
    return {
        "id": item.id,
        "sender": item.subject,
        "layer": layer_name(item.layer),
        "state": item.state,
        "queued_at": moment(item.created_at),
    }


def completed(item: Item) -> dict[str, Any]:
    """An item that a run has completed."""
    return {
        "id": item.id,
        "file": item.name,
        "processed_at": moment(item.completed_at or item.updated_at),
        "entities": item.entities or 0,
        "edges": item.edges or 0,
    }


def failed(item: Item) -> dict[str, Any]:
    """A dead letter."""
    return {
        "id": item.id,
        "file": item.name,
        "failed_at": moment(item.updated_at),
        "reason": item.reason or "unknown",
        "attempts": max(item.attempts, item.claims),
    }

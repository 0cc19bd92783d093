"""``graph_undo``: lists what may be undone, and undoes it exactly or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from app.contract import Call, Cursor, Json
from app.memory.calls import noted, once
from app.memory.census import Census
from app.memory.ends import sorted_names
from app.memory.evidence import evidence_notes, searched_again
from app.memory.merging.entity import lines
from app.memory.undoing.schemas import UndoInput
from app.store.database import Database, Writing
from app.store.images import Image, Key
from app.store.undo import Change, Notes, Recording, Retention, changes

__all__ = ["undo"]

_QUESTION: Final = {"tool": "graph_undo"}


async def undo(
    database: Database, census: Census, retention: Retention, call: Call, arguments: UndoInput
) -> Mapping[str, Any]:
    """List, or undo one change and keep for as long as ``retention`` says what would make it again.

    Raises:
        NotFound: there is no such change for this caller.
        Conflict: it was undone already, or what it touched has changed since; the message names what.
        InvalidInput: the cursor is not one of this list.
        QuotaExceeded: what would be there again is more than the tenant may hold.
        CallError: what the store raises.
    """
    if arguments.undo_id is None:
        return await _listed(database, call, arguments)
    id_ = arguments.undo_id
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    recording = Recording(call.scope, call.tool, retention)
    tally = await census.of(call.scope.tenant, call.principal.tenant_layers | set(call.scope.layers))
    grown = (0, 0)

    async def work(writing: Writing) -> Json:
        nonlocal grown
        done = await recording.undo(writing, id_, settle=_settle)
        grown = done.grown
        census.check(tally, call.principal.rules, entities=max(0, grown[0]), relations=max(0, grown[1]))
        await noted(writing, call, id_, done.change.layers, tool=done.change.tool, undo_id=done.undo_id)
        restored = {"entities": done.entities, "relations": done.relations, "aliases": done.aliases}
        return {
            "undone": _shown(done.change),
            "restored": restored,
            "audit_logged": True,
            "undo_id": done.undo_id,
        }

    answer = await session.write(work, idempotency=once(call, arguments.idempotency_key))
    census.less(call.scope.tenant, entities=-grown[0], relations=-grown[1])
    return answer


async def _settle(
    writing: Writing, restored: Mapping[Key, Image | None], found: Mapping[Key, Image], notes: Notes
) -> Notes:
    """Ends without an image of their own whose relations gain or lose evidence: what is searched of them follows."""
    now, then = _said(restored), _said({key: found.get(key) for key in restored})
    ends = {
        end for end in now.keys() | then.keys() if now.get(end) != then.get(end) and ("entity", *end) not in restored
    }
    return evidence_notes(await searched_again(writing, sorted({id_ for _, id_ in ends}), notes))


def _said(images: Mapping[Key, Image | None]) -> dict[tuple[str, str], set[str]]:
    """By (layer, id), the evidence that relations give."""
    said: dict[tuple[str, str], set[str]] = {}
    for key, image in images.items():
        if key[0] == "relation" and image is not None:
            pieces = lines(copy["properties"].get("evidence") or "" for copy in image["copies"])
            for end in key[2::2]:
                said.setdefault((key[1], end), set()).update(pieces)
    return {end: pieces for end, pieces in said.items() if pieces}


async def _listed(database: Database, call: Call, arguments: UndoInput) -> Json:
    until = None
    if arguments.cursor is not None:
        position = Cursor.decode(arguments.cursor, call.scope, _QUESTION, (float, str)).position
        until = (int(position[0]), str(position[1]))
    control = database.control.until(call.deadline, call.request_id)
    found = await changes(control, call.scope, until=until, limit=arguments.limit + 1)
    page = found[: arguments.limit]
    more = len(found) > len(page)
    last = Cursor((page[-1].at, page[-1].id)).encode(call.scope, _QUESTION) if more else None
    return {"changes": [_shown(change) for change in page], "next_cursor": last}


def _shown(change: Change) -> dict[str, Any]:
    return {
        "undo_id": change.id,
        "tool": change.tool,
        "summary": change.summary,
        "at": _moment(change.at),
        "expires_at": _moment(change.expires_at),
        "layers": sorted_names(change.layers),
    }


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

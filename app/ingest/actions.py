"""What a run does with the queue through ``graph_ingest``: look, claim, complete, fail, retry, cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from app.contract import Call, Cursor, Json
from app.errors import Conflict, InvalidInput, NotFound
from app.ingest import showing
from app.ingest.files import Files
from app.ingest.names import Way, file_type
from app.ingest.reach import require_reading, sender
from app.ingest.schemas import IngestInput
from app.settings import IngestSettings
from app.store.control.cancelled import cancel_in
from app.store.control.queue import Item, QueueStore, change_in, claim_in, take_in
from app.store.idempotency import Idempotency
from app.store.session import Writing

__all__ = ["CLAIMS", "NEVER_COMPLETED", "Actions"]

CLAIMS: Final = 5
"""Times that runs may claim an item without completing it."""
NEVER_COMPLETED: Final = f"it was claimed {CLAIMS} times and never completed; retry gives it back"

CLOUD: Final = "claude-code-cloud"
"""``meta.source`` of messages whose session has a cursor."""
CURSORS: Final = 200
RECENT: Final = 5
AT_ONCE: Final = 8
"""Items of one claim: each must be shown whole, since its lease is."""
ROWS: Final = 25_000
"""Characters of the rows of one page of pending items."""
DEAD: Final = 20


class Actions:
    """The actions on queued items; each answers one call."""

    def __init__(
        self, files: Files, store: QueueStore, settings: IngestSettings, *, arrived: Callable[[], None]
    ) -> None:
        self._files = files
        self._store = store
        self._settings = settings
        self._arrived = arrived

    async def status(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """What waits, what was completed or failed, and how far the caller queued each session.

        What others say of a session moves no cursor of the caller's, or they could have messages passed over.
        """
        tenant, layers = call.scope.tenant, call.scope.layers
        question = {"tool": call.tool, "action": "status"}
        after = (0.0, "")
        if arguments.cursor is not None:
            position = Cursor.decode(arguments.cursor, call.scope, question, (float, str)).position
            after = (float(position[0]), str(position[1]))
        limit = arguments.limit or 50
        session = arguments.meta.session_id if arguments.meta is not None else None
        own = sender(call.principal)
        summary, waiting, done, dead, cursors = await asyncio.gather(
            self._store.summary(tenant, layers, sender=own),
            self._store.pending(tenant, layers, after=after, limit=limit + 1, sender=own),
            self._store.completed(tenant, layers, limit=RECENT, sender=own),
            self._store.failed(tenant, layers, limit=DEAD, sender=own),
            self._store.cursors(
                tenant, layers, source=CLOUD, session=session, limit=CURSORS, sender=call.principal.subject
            ),
        )
        shown = _fitting([showing.queued(item, None if own else since) for item, since in waiting[:limit]])
        last = waiting[len(shown) - 1][0] if len(shown) < len(waiting) else None
        return {
            "action": "status",
            "pending": shown,
            "pending_count": summary.pending + summary.unprocessed_transcripts,
            "unprocessed_transcripts": summary.unprocessed_transcripts,
            "recently_completed": [showing.completed(item) for item in done],
            "completed_count": summary.completed,
            "failed": [showing.failed(item) for item in dead],
            "failed_count": summary.failed,
            "session_cursors": {row.pop("session"): row for row in cursors},
            "next_cursor": None if last is None else Cursor((last.created_at, last.id)).encode(call.scope, question),
        }

    async def claim(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """Take what is ready, for a while."""
        require_reading(call.principal, "claim")
        now = time.time()
        await self._store.give_up(call.scope.tenant, now=now, claims=CLAIMS, reason=NEVER_COMPLETED)

        async def work(writing: Writing) -> Json:
            taken = await claim_in(
                writing,
                call.scope.tenant,
                call.scope.writable,
                item=arguments.id,
                now=now,
                until=now + self._settings.claim_seconds,
                limit=min(arguments.limit or 1, AT_ONCE),
            )
            if arguments.id is not None and not taken:
                await self._refuse_claim(writing, call, arguments.id)
            return {"action": "claimed", "items": [showing.queued(item, lease=True) for item in taken]}

        answer = await self._store.write(call.scope, _idempotency(call, arguments), work)
        ids = [shown["id"] for shown in answer["items"] if shown["kind"] == "transcript"]
        before = await self._store.read_before(call.scope.tenant, call.scope.layers, ids) if ids else {}
        for shown in answer["items"]:
            if shown["id"] in before:
                shown["since"] = showing.moment(before[shown["id"]])
        return answer

    async def complete(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """A claimed item is done."""
        counts = {"entities": arguments.entities or 0, "edges": arguments.edges or 0}

        def changes(item: Item, now: float) -> dict[str, Any]:
            if item.state == "completed" and item.lease is not None and item.lease == arguments.lease:
                return {}
            _hold(item, arguments.lease)
            return {"state": "completed", "completed_at": now, **counts}

        return {**await self._change(call, arguments, "completed", changes), **counts}

    async def fail(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """A claimed item cannot be learned from."""
        if arguments.reason is None:
            raise InvalidInput("fail needs a reason, which the status shows. Nothing was applied.", field="reason")

        def changes(item: Item, now: float) -> dict[str, Any]:
            _hold(item, arguments.lease)
            return {"state": "failed", "reason": arguments.reason, "lease": None}

        return await self._change(call, arguments, "failed", changes)

    async def retry(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """A failed item, or one that the caller holds, waits again."""

        def changes(item: Item, now: float) -> dict[str, Any]:
            if item.state == "claimed":
                _hold(item, arguments.lease)
            elif item.state != "failed":
                raise Conflict(f"this item is {item.state}; only a failed one is tried again. Nothing was applied.")
            ready = item.text or file_type(item.name).way in {Way.TEXT, Way.TRANSCRIPT}
            again = {"attempts": 0, "claims": 0, "reason": None} if item.state == "failed" else {}
            return {"state": "pending" if ready else "received", "lease": None, "due": now, **again}

        answer = await self._change(call, arguments, "retried", changes)
        self._arrived()
        return answer

    async def cancel(self, call: Call, arguments: IngestInput) -> Mapping[str, Any]:
        """An item goes, with its file, and `graphkeep push` lets it be. What was learned from it stays."""

        async def work(writing: Writing) -> Json:
            item = await self._taken(writing, call, arguments)
            if item.state == "claimed" and item.due > time.time() and item.lease != arguments.lease:
                raise Conflict(
                    "a run is working on this item; cancel it when its lease has ended. Nothing was applied."
                )
            await cancel_in(writing, item, time.time())
            return {"action": "cancelled", **showing.named(item)}

        answer = await self._store.write(call.scope, _idempotency(call, arguments), work)
        await asyncio.to_thread(self._files.drop, call.scope.tenant, answer["id"])
        return answer

    async def _change(
        self, call: Call, arguments: IngestInput, action: str, changes: Callable[[Item, float], dict[str, Any]]
    ) -> Json:
        async def work(writing: Writing) -> Json:
            item = await self._taken(writing, call, arguments)
            now = time.time()
            changed = changes(item, now)
            if changed:
                await change_in(writing, item.id, {**changed, "updated_at": now})
            return {"action": action, **showing.named(item), "state": changed.get("state", item.state)}

        return await self._store.write(call.scope, _idempotency(call, arguments), work)

    async def _taken(self, writing: Writing, call: Call, arguments: IngestInput) -> Item:
        if arguments.id is None:
            raise InvalidInput(f"{arguments.action} needs the id of an item. Nothing was applied.", field="id")
        item = await take_in(writing, call.scope.tenant, call.scope.writable, arguments.id)
        if item is None or sender(call.principal) not in {None, item.subject}:
            raise _unknown()
        return item

    async def _refuse_claim(self, writing: Writing, call: Call, id_: str) -> None:
        item = await take_in(writing, call.scope.tenant, call.scope.writable, id_)
        if item is None:
            raise _unknown()
        raise Conflict(f"this item is {item.state} and cannot be claimed now. Nothing was applied.")


def _fitting(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first rows that fit; what an answer would lose at its end must be on the next page instead."""
    room, kept = ROWS, 0
    for row in rows:
        room -= len(orjson.dumps(row))
        if room < 0 and kept:
            break
        kept += 1
    return rows[:kept]


def _unknown() -> NotFound:
    return NotFound("there is no such item in the queue that this connection may change; status shows those that are.")


def _hold(item: Item, lease: str | None) -> None:
    """Let pass who holds the item.

    Raises:
        Conflict: nobody does, or somebody else.
    """
    if item.state != "claimed":
        raise Conflict(f"this item is {item.state}, not claimed; claim it first. Nothing was applied.")
    if lease is None or item.lease != lease:
        raise Conflict("another run holds this item, or your lease ended and it was taken over. Nothing was applied.")


def _idempotency(call: Call, arguments: IngestInput) -> Idempotency | None:
    key = arguments.idempotency_key
    return None if key is None else Idempotency(key, call.tool, call.arguments_digest)

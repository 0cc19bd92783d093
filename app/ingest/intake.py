"""Taking files into the queue: bytes on the disk first, then all records of one call in one transaction.

A crash before the commit leaves files without a record, which nobody sees and the sweep removes; after it all is there.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from app.context import Scope, layer_name
from app.contract import Json
from app.errors import CallError, InvalidInput, NotFound, QuotaExceeded
from app.ingest.files import PUT_AWAY, Arrived, Files, Staged, prefix_hashes
from app.ingest.meta import Meta, instant
from app.ingest.names import FileType, Way, file_type
from app.ingest.threads import in_thread
from app.ingest.transcripts import examine
from app.settings import IngestSettings
from app.store.control.cancelled import CANCELLED
from app.store.control.queue import (
    Item,
    QueueStore,
    Usage,
    accept_in,
    change_in,
    remove_in,
    take_in,
    usage_in,
)
from app.store.control.standing import require_in_place
from app.store.idempotency import Idempotency
from app.store.session import Writing

__all__ = ["Incoming", "Intake", "Mismatch"]

Standing = Callable[[Writing, str], Awaitable[None]]

TOO_MANY_VERSIONS: Final = 50
"""Kept versions of one transcript that a new one is compared with."""


class Mismatch(InvalidInput):
    """The bytes are not those that the sender named."""

    reason = "checksum_mismatch"
    status = 422
    retryable = True


@dataclass(frozen=True, slots=True)
class Incoming:
    """A file that has arrived whole. ``sha256``: what the sender says that it is."""

    name: str
    staged: Staged | Arrived
    meta: Meta = field(default_factory=Meta)
    sha256: str | None = None


class _Fresh(Exception):
    """The idempotency key has no answer yet."""


@dataclass(slots=True)
class _Prepared:
    item: Item
    continued: list[Item]
    """Shorter versions of the same transcript by the same sender, whose bytes it begins with."""
    held: Item | None = None
    """A longer version that holds all of it already."""


class Intake:
    """``arrived`` is called when something was accepted that has to be converted."""

    def __init__(
        self, files: Files, store: QueueStore, settings: IngestSettings, *, arrived: Callable[[], None]
    ) -> None:
        self._files = files
        self._store = store
        self._settings = settings
        self._arrived = arrived

    async def room(self, tenant: str, size: int = 0) -> None:
        """Let a file of ``size`` bytes come, from a sender who has just been let in.

        Raises:
            QuotaExceeded: the tenant holds all it may.
        """
        self._within(await self._store.usage(tenant), more=size, files=1)
        await asyncio.to_thread(self._files.prepare, tenant)

    async def before(self, scope: Scope, idempotency: Idempotency | None) -> list[Json] | None:
        """What the same call was answered before, if it was: then nothing has to arrive again.

        Raises:
            Conflict: another call had this key. CallError: what the store raises.
        """
        if idempotency is None:
            return None

        async def work(_: Writing) -> Json:
            raise _Fresh

        try:
            answer = await self._store.write(scope, idempotency, work)
        except _Fresh:
            return None
        items: list[Json] = answer["items"]
        return items

    async def accept(
        self,
        scope: Scope,
        incoming: Sequence[Incoming],
        *,
        sender: str | None,
        idempotency: Idempotency | None = None,
        standing: Standing = require_in_place,
    ) -> list[Json]:
        """Queue files, all or none; for each what stands in the queue now. The staged files are used up.

        ``sender``: the subject whose items alone the caller may see, None for all (:func:`app.ingest.reach.sender`).
        What another sent is then neither shown nor compared with. What another sent is never replaced.
        ``standing`` asks, when all is written, whether the tenant may still be given something: of what comes
        slowly with :func:`require_active`, since it may have begun before the tenant was erased.

        Raises:
            InvalidInput: a name or checksum is wrong. QuotaExceeded: the tenant holds all it may.
            Overloaded: the tenant was moved, suspended or deleted meanwhile; nothing is kept.
            CallError: what the store raises, with what is known of the outcome.
        """
        try:
            types = [file_type(each.name) for each in incoming]
            for each in incoming:
                await each.staged.finish()
                if each.sha256 is not None and each.sha256.lower() != each.staged.sha256:
                    raise Mismatch(
                        f"{each.name!r} did not arrive as it was sent (SHA-256). Nothing was stored; send it again."
                    )
            prepared = [
                await self._prepared(scope, each, kind, sender) for each, kind in zip(incoming, types, strict=True)
            ]
            staged = [each.staged for each in incoming]
            return await self._queued(scope, prepared, staged, sender, idempotency, standing)
        finally:
            for each in incoming:
                each.staged.discard()

    async def _queued(
        self,
        scope: Scope,
        prepared: list[_Prepared],
        staged: Sequence[Staged | Arrived],
        sender: str | None,
        idempotency: Idempotency | None,
        standing: Standing,
    ) -> list[Json]:
        ours = {each.item.id for each in prepared}
        try:
            for each, arrived in zip(prepared, staged, strict=True):
                await asyncio.to_thread(self._files.keep, arrived.path, scope.tenant, each.item.id)
        except FileNotFoundError:
            await self._drop(scope.tenant, ours)
            raise NotFound(PUT_AWAY) from None
        fresh: set[str] = set()
        dropped: set[str] = set()

        async def work(writing: Writing) -> Json:
            fresh.clear()
            dropped.clear()
            shown = [await self._accept_one(writing, each, sender, fresh, dropped) for each in prepared]
            await standing(writing, scope.tenant)
            self._within(await usage_in(writing, scope.tenant))  # behind its lock: no other call's files slip past
            return {"items": shown}

        try:
            answer = await self._store.write(scope, idempotency, work)
        except CallError as error:
            if error.outcome == "not_applied":
                await self._drop(scope.tenant, ours)
            raise
        await self._drop(scope.tenant, (ours - fresh) | dropped)
        if any(each.item.state == "received" for each in prepared):
            self._arrived()
        items: list[Json] = answer["items"]
        return items

    async def _accept_one(
        self, writing: Writing, each: _Prepared, sender: str | None, fresh: set[str], dropped: set[str]
    ) -> Json:
        held = each.held and await take_in(writing, each.held.tenant, [each.held.layer], each.held.id)
        if held is not None and held.stored and held.state != "failed":
            return _shown(held, created=False)
        item, new = await accept_in(writing, each.item, sender=sender)
        if item.state == CANCELLED:  # who sends it all the same wants it
            await change_in(writing, item.id, each.item.record())
            item, new = each.item, True
        elif not new and not item.stored:  # the longer version that had taken its place was cancelled, or failed
            await change_in(writing, item.id, {"id": each.item.id, "stored": True})
            item = replace(item, id=each.item.id, stored=True)
        if item.id == each.item.id:
            fresh.add(item.id)
            await self._replace(writing, each.continued, dropped)
        elif item.state == "failed":  # who sends it again wants it tried again
            again = {"state": each.item.state, "attempts": 0, "claims": 0, "reason": None, "due": each.item.due}
            await change_in(writing, item.id, {**again, "updated_at": each.item.updated_at})
            item = replace(item, state=each.item.state)
        return _shown(item, created=new)

    async def _replace(self, writing: Writing, continued: list[Item], dropped: set[str]) -> None:
        """Let go of what the new version holds too; what a run has claimed stays till it is done."""
        for old in sorted(continued, key=lambda item: item.id):
            held = await take_in(writing, old.tenant, [old.layer], old.id)
            if held is None or held.state in {"claimed", "converting"}:
                continue
            if held.state == "completed":
                await change_in(writing, held.id, {"stored": False})
            else:
                await remove_in(writing, held.id)
            dropped.add(held.id)

    async def _drop(self, tenant: str, items: set[str]) -> None:
        for item in items:
            await asyncio.to_thread(self._files.drop, tenant, item)

    async def _prepared(self, scope: Scope, each: Incoming, kind: FileType, sender: str | None) -> _Prepared:
        item = await in_thread(_item, scope, each, kind)
        if kind.way is not Way.TRANSCRIPT:
            return _Prepared(item, [])
        found = await self._store.versions(scope.tenant, item.layer, item.name, sender=sender)
        versions = found[-TOO_MANY_VERSIONS:]
        shorter = [old for old in versions if old.size < item.size and old.subject == item.subject]
        hashes = await in_thread(prefix_hashes, each.staged.path, [old.size for old in shorter])
        continued = [old for old in shorter if hashes.get(old.size) == old.sha256]
        for old in versions:
            if old.size > item.size and old.state != "failed" and await self._begins_with(old, item):
                return _Prepared(item, [], held=old)
        return _Prepared(item, continued)

    async def _begins_with(self, old: Item, new: Item) -> bool:
        path = self._files.original(old.tenant, old.id)
        try:
            hashes = await in_thread(prefix_hashes, path, [new.size])
        except FileNotFoundError:
            return False
        return hashes.get(new.size) == new.sha256

    def _within(self, usage: Usage, *, more: int = 0, files: int = 0) -> None:
        if usage.size + more > self._settings.quota_file_bytes:
            raise QuotaExceeded(
                f"the files of this tenant may have {self._settings.quota_file_bytes} bytes in all "
                "(GRAPHKEEP_QUOTA_FILE_BYTES), and nothing was stored. Remove what is done with (graph_ingest cancel), "
                "or ask an operator for more."
            )
        if usage.files + files > self._settings.quota_files:
            raise QuotaExceeded(
                f"this tenant may have {self._settings.quota_files} files (GRAPHKEEP_QUOTA_FILES), and nothing was "
                "stored. Remove what is done with (graph_ingest cancel), or ask an operator for more."
            )


def _item(scope: Scope, each: Incoming, kind: FileType) -> Item:
    now = time.time()
    facts = examine(each.staged.path) if kind.way is Way.TRANSCRIPT else None
    meta = each.meta
    return Item(
        id=f"in-{secrets.token_hex(12)}",
        tenant=scope.tenant,
        layer=scope.write_layer or "",
        name=each.name,
        sha256=each.staged.sha256,
        size=each.staged.size,
        media_type=kind.media_type,
        kind="transcript" if facts is not None else "document",
        state="received" if kind.way is Way.CONVERT else "pending",
        meta=orjson.dumps(meta.given()).decode(),
        subject=scope.subject,
        created_at=now,
        updated_at=now,
        due=now,
        facts=None if facts is None else facts.record(),
        last_at=None if facts is None or facts.last_at is None else instant(facts.last_at),
        source=meta.source,
        session_id=meta.session_id or (facts.session_id if facts is not None else None),
        through=meta.through,
        through_at=None if meta.through is None else instant(meta.through),
        last_event_id=meta.last_event_id,
    )


def _shown(item: Item, *, created: bool) -> dict[str, Any]:
    return {
        "id": item.id,
        "file": item.name,
        "state": item.state,
        "size_bytes": item.size,
        "sha256": item.sha256,
        "layer": layer_name(item.layer),
        "created": created,
        "meta_written": item.meta != "{}",
    }

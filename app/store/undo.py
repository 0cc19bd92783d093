"""What is kept of a change so that it can be undone (partition rule 18).

A tool that changes what exists reads images before and after, inside its own transaction::

    recording = Recording(session.scope, call.tool, service.retention)

    async def work(writing: Writing) -> Json:
        before = await recording.before(writing, ids=neighbours, around=[id_])     # locks them too
        ...                                                                       # the tool's own statements
        undo_id = await recording.after(writing, before, summary=f"deleted {name}")
        return {..., "undo_id": undo_id}

``ids`` are the entities (and aliases) whose copies may change, ``around`` those that may come or go with all of their
relations, ``triples`` single relations (source, relation, target) that may change. Name everything that the change
writes to, what it creates included: what was not named is not restored. Only what differs is kept, in one record of
the same transaction, in the layers that differ. ``work`` may run several times: a recording holds no state.

:meth:`Recording.undo` restores exactly that, or refuses naming what has changed since, and records itself: undoing an
undo does the change again. A record belongs to a data id; it is there only for who may write every layer of it.
"""

from __future__ import annotations

import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import orjson

from app.context import Scope
from app.errors import Conflict, InternalError, NotFound
from app.store.images import Asked, Image, Images, Key, marks, read_images, spelt, write_images
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["DEFAULT_RETENTION", "LARGEST", "Change", "Recording", "Retention", "Undone", "changes", "moved_relations"]

LARGEST: Final = 8 * 1024 * 1024
"""Bytes of one record, compressed: a larger change is refused and rolled back."""

_LEAST: Final = 4096
"""Bytes that a record counts for beside its images."""
_OLDEST: Final = 500
"""Records that make room for a new one at most: the next change goes on."""
_SHOWN: Final = 20
_NOTES: Final = "notes"
_DAY_MS: Final = 86_400_000
_QUIET: Final = frozenset({"names", "words", "thread", "position", "embedding", "embedding_of", "partition"})
"""Properties that only follow others: not worth naming where others are named."""

RECORD: Final = statement(
    "undo.record_change",
    """
    CREATE (u:_Undo {id: $id, tenant: $of, layers: $touched, tool: $tool, subject: $subject, at: $at,
                     expires_at: $expires_at, summary: $summary, size: $size,
                     images: $images})
    """,
    writes=True,
    control=True,
)
FIND: Final = statement(
    "undo.find_change",
    """
    MATCH (u:_Undo {id: $id, tenant: $of})
    WHERE u.expires_at > $at AND all(layer IN u.layers WHERE layer IN $may)
    SET u.asked_at = $at
    WITH u WHERE u.asked_at = $at
    RETURN u.id AS id, u.layers AS layers, u.tool AS tool, u.subject AS subject, u.at AS at,
           u.expires_at AS expires_at, u.summary AS summary, u.undone_by AS undone_by, u.images AS images
    """,
    writes=True,
    control=True,
)
HELD: Final = statement(
    "undo.sum_sizes", "MATCH (u:_Undo {tenant: $of}) RETURN coalesce(sum(u.size), 0) AS held", control=True
)
OLDEST: Final = statement(
    "undo.list_oldest",
    """
    MATCH (u:_Undo {tenant: $of})
    WITH u ORDER BY u.tenant, u.at, u.id LIMIT $limit
    RETURN collect([u.id, u.size]) AS rows
    """,
    control=True,
)
FORGET: Final = statement(
    "undo.forget_changes",
    "UNWIND $ids AS id MATCH (u:_Undo {id: id, tenant: $of}) DELETE u",
    writes=True,
    control=True,
)
USE: Final = statement(
    "undo.mark_undone",
    "MATCH (u:_Undo {id: $id, tenant: $of}) SET u.undone_by = $by",
    writes=True,
    control=True,
)
LIST: Final = statement(
    "undo.list_changes",
    """
    MATCH (u:_Undo {tenant: $of})
    WHERE u.at <= $until AND NOT (u.at = $until AND u.id >= $before) AND u.expires_at > $at AND u.undone_by IS NULL
      AND all(layer IN u.layers WHERE layer IN $may)
    RETURN u.id AS id, u.layers AS layers, u.tool AS tool, u.subject AS subject, u.at AS at,
           u.expires_at AS expires_at, u.summary AS summary, u.undone_by AS undone_by
    ORDER BY u.at DESC, u.id DESC LIMIT $limit
    """,
    control=True,
)
MOVED: Final = statement(
    "undo.count_moved",
    """
    MATCH (u:_Undo {tenant: $of})
    WHERE u.at >= $since AND u.tool IN $tools AND any(layer IN u.layers WHERE layer IN $read)
    RETURN count(u) AS times
    """,
    control=True,
)
_MOVING: Final = ("graph_merge", "graph_unmerge", "graph_undo")
"""Tools that give relations which existed before to another source."""


Notes = Mapping[str, Any]
"""JSON that a change keeps beside its images, for whoever undoes it."""
Settle = Callable[[Writing, Mapping[Key, Image | None], Mapping[Key, Image], Notes], Awaitable[Notes]]


@dataclass(frozen=True, slots=True)
class Change:
    """A change that can be undone. Moments are Unix milliseconds; layers as the data spells them."""

    id: str
    layers: tuple[str, ...]
    tool: str
    subject: str
    at: int
    expires_at: int
    summary: str
    undone_by: str | None
    """Id of the change that undid it."""


@dataclass(frozen=True, slots=True)
class Undone:
    """What undoing did: numbers of records made as they were before, and the change that it is itself."""

    change: Change
    entities: int
    relations: int
    aliases: int
    undo_id: str
    grown: tuple[int, int]
    """By how many copies of entities and of relations there are more than before; negative: less."""


class Retention(NamedTuple):
    """How many days a change can be undone, and how many bytes of a tenant's changes are kept: the oldest go first."""

    days: int
    most: int


DEFAULT_RETENTION: Final = Retention(30, 256 * 1024 * 1024)


@dataclass(frozen=True, slots=True)
class Recording:
    """Records the changes of one call. ``scope`` is the one that the call's session was opened with."""

    scope: Scope
    tool: str
    retention: Retention

    async def before(
        self,
        writing: Writing,
        ids: Iterable[str] = (),
        *,
        around: Iterable[str] = (),
        triples: Iterable[tuple[str, str, str]] = (),
    ) -> Images:
        """Lock what the change may touch and read it: one round trip.

        Raises:
            Conflict: it touches more relations than can be undone.
        """
        return await read_images(writing, Asked.of(ids, around, triples))

    async def after(self, writing: Writing, before: Images, *, summary: str, notes: Notes | None = None) -> str | None:
        """Read the same again and record what differs; the id of the record, None when nothing does.

        ``summary`` is shown to those who may undo the change; ``notes`` are given to ``settle`` then.

        Raises:
            Conflict: the change is too large to be undone; nothing of it is applied.
        """
        now = await read_images(writing, before.asked)
        return await self._record(writing, before.records, now.records, summary, notes)

    async def _record(
        self,
        writing: Writing,
        before: Mapping[Key, Image],
        after: Mapping[Key, Image],
        summary: str,
        notes: Notes | None,
    ) -> str | None:
        keys = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
        if not keys:
            return None
        kept: list[Any] = [[key, before.get(key), marks(after[key]) if key in after else None] for key in keys]
        kept += [[(_NOTES,), notes, None]] if notes else []
        images = zlib.compress(orjson.dumps(kept), 1)
        if len(images) > LARGEST:
            raise Conflict(
                f"this change is too large to be undone later ({len(images) // 2**20} MiB of {LARGEST // 2**20}); "
                "do it in smaller parts. Nothing was applied."
            )
        now = int(time.time() * 1000)
        id_ = f"un-{secrets.token_hex(12)}"
        await writing.control().run(
            RECORD,
            id=id_,
            of=self.scope.tenant,
            touched=sorted({key[1] for key in keys}),
            tool=self.tool,
            subject=self.scope.subject,
            at=now,
            expires_at=now + self.retention.days * _DAY_MS,
            summary=summary,
            size=len(images) + _LEAST,
            images=images,
        )
        await self._make_room(writing.control(), but=id_)
        return id_

    async def _make_room(self, control: Writing, *, but: str) -> None:
        """Forget the tenant's oldest changes where all together are too large."""
        over = (await control.run(HELD, of=self.scope.tenant))[0]["held"] - self.retention.most
        going: list[str] = []
        if over > 0:
            for id_, size in (await control.run(OLDEST, of=self.scope.tenant, limit=_OLDEST))[0]["rows"]:
                if over > 0 and id_ != but:
                    going.append(id_)
                    over -= size or 0
            await control.run(FORGET, ids=going, of=self.scope.tenant)

    async def undo(self, writing: Writing, id_: str, *, settle: Settle | None = None) -> Undone:
        """Restore what the change ``id_`` found, exactly, and record that as a change of its own.

        ``settle`` is called with the images restored, those found and the change's notes, before that is recorded: it
        may make what only follows from them follow, on the ends of relations that have no image in the change. Of that
        only the notes that it gives are kept, so that what is said of those ends later does not stand in the way of
        undoing the undo.

        Raises:
            NotFound: there is no such change for this scope, or it has expired.
            Conflict: it was undone already, or what it touched has changed since; nothing was applied.
        """
        change, before, after, notes = await self._found(writing, id_)
        present = await read_images(writing, _asked(before))
        changed = list(_since(before, after, present))
        if changed:
            raise Conflict(_refusal(changed))
        await write_images(writing, before, present.records)
        left = {} if settle is None else await settle(writing, before, present.records, notes)
        restored = await read_images(writing, replace(present.asked, beside=()))
        if any(restored.records.get(key) != image for key, image in before.items()):
            raise InternalError("what was restored differs from what was recorded; nothing was applied")
        summary = f"undid: {change.summary}" if not change.summary.startswith("undid: ") else change.summary[7:]
        found, made = _of(before, present.records), _of(before, restored.records)
        undo_id = await self._record(writing, found, made, summary, left)
        await writing.control().run(USE, id=id_, of=self.scope.tenant, by=undo_id or "nothing")
        kinds = [key[0] for key in before]
        grown = _more("entity", found, made), _more("relation", found, made)
        return Undone(
            change, kinds.count("entity"), kinds.count("relation"), kinds.count("alias"), undo_id or "", grown
        )

    async def _found(
        self, writing: Writing, id_: str
    ) -> tuple[Change, dict[Key, Image | None], dict[Key, dict[str, str] | None], Notes]:
        rows = await writing.control().run(
            FIND, id=id_, of=self.scope.tenant, at=int(time.time() * 1000), may=list(self.scope.writable)
        )
        if not rows:
            raise NotFound(
                "there is no change with this id that this connection may undo, or it has expired; graph_undo without "
                "an id lists those that it may. Nothing was applied."
            )
        row = rows[0]
        kept = orjson.loads(zlib.decompress(row.pop("images")))
        change = _change(row)
        if change.undone_by is not None:
            raise Conflict(
                f"this change was undone already; to make it again, undo {change.undone_by}. Nothing was applied."
            )
        before = {tuple(key): image for key, image, _ in kept}
        notes = before.pop((_NOTES,), None) or {}
        return change, before, {tuple(key): after for key, _, after in kept if tuple(key) in before}, notes


async def moved_relations(control: ControlSession, data: str, layers: Iterable[str], *, since: int) -> int:
    """How many changes since ``since`` (ms since 1970) gave relations of ``data`` in ``layers`` other ends.

    Who reads page by page, source by source, may have missed one that went behind the page: asked before and after with
    the same ``since``, a minute before (a change bears the moment at which it began), the answers must be equal.

    Raises:
        CallError: the database does not answer.
    """
    rows = await control.read(MOVED, of=data, since=since, tools=list(_MOVING), read=list(layers))
    return int(rows[0]["times"])


async def changes(
    control: ControlSession, scope: Scope, *, until: tuple[int, str] | None = None, limit: int = 20
) -> list[Change]:
    """Changes that ``scope`` may undo, newest first; ``until`` is (at, id) of the last one of the page before.

    ``control`` is the database's control session, with the call's deadline.
    """
    at, before = until or (2**53, "~")
    rows = await control.read(
        LIST,
        of=scope.tenant,
        until=at,
        before=before,
        at=int(time.time() * 1000),
        may=list(scope.writable),
        limit=limit,
    )
    return [_change(row) for row in rows]


def _change(row: Mapping[str, Any]) -> Change:
    return Change(**{**row, "layers": tuple(row["layers"])})


def _asked(before: Mapping[Key, Image | None]) -> Asked:
    """All that was recorded, the ends of relations, and whatever hangs now on what is to go."""
    nodes = {key[2] for key in before if key[0] != "relation"}
    triples = {(key[2], key[3], key[4]) for key in before if key[0] == "relation"}
    going = {key[2] for key, image in before.items() if key[0] == "entity" and image is None}
    return Asked.of(nodes, going, triples, {end for triple in triples for end in triple[::2]})


def _of(before: Mapping[Key, Image | None], records: Mapping[Key, Image]) -> dict[Key, Image]:
    """Those of the records that the change recorded."""
    return {key: image for key, image in records.items() if key in before}


def _more(kind: str, before: Mapping[Key, Image], after: Mapping[Key, Image]) -> int:
    return sum(key[0] == kind for key in after) - sum(key[0] == kind for key in before)


def _since(
    before: Mapping[Key, Image | None], after: Mapping[Key, dict[str, str] | None], found: Images
) -> Iterable[str]:
    """What has changed since, as sentences without a full stop."""
    present = found.records
    for key, mark in after.items():
        now = marks(present[key]) if key in present else None
        if now == mark:
            continue
        if mark is None:
            yield f"{spelt(key)} is new"
        elif now is None:
            yield f"{spelt(key)} is gone"
        else:
            yield f"{spelt(key)} has changed ({_differing(mark, now)})"
    going = {key[1:] for key, image in before.items() if key[0] == "entity" and image is None}
    for key in sorted(present):
        if key[0] == "relation" and key not in after and {(key[1], key[2]), (key[1], key[4])} & going:
            yield f"{spelt(key)} is new"
    for layer, end in sorted(_ends(before)):
        if (layer, end) not in found.standing and not before.get(("entity", layer, end)):
            yield f"entity {end!r} is gone"


def _ends(before: Mapping[Key, Image | None]) -> Collection[tuple[str, str]]:
    """(layer, id) of the ends of every relation that is to be there again."""
    return {(key[1], end) for key, image in before.items() if key[0] == "relation" and image for end in key[2::2]}


def _differing(mark: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = {name for name in mark.keys() | now.keys() if mark.get(name) != now.get(name)}
    return ", ".join(sorted(names - _QUIET or names))


def _refusal(changed: Sequence[str]) -> str:
    shown = "; ".join(changed[:_SHOWN]) + (f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else "")
    return f"this can no longer be undone, since what it touched is not as it left it: {shown}. Nothing was applied."

"""The durable queue of what people send to be learned from: documents and transcripts, by tenant and layer.

An item is accepted in one transaction and stays until somebody removes it: it is converted, waits for a run of an
agent, is claimed by one and completed, or ends among the failed ones with the reason. Who works on it holds a lease; an
expired lease is taken over. Items show only to those who may read the layer they were sent into (partition rule 18).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.context import Scope
from app.contract import Json
from app.errors import QuotaExceeded
from app.store.control.queue_statements import (
    ACCEPT,
    ACCEPTED,
    CHANGE,
    CLAIM,
    CLAIM_CONVERSION,
    CLAIMED_OUT,
    COMPLETED,
    CURSORS,
    FAILED,
    FIND,
    GIVEN_UP,
    KNOWN,
    NEWEST,
    PENDING,
    READ_BEFORE,
    REMOVE,
    SUMMARY,
    TAKE,
    TENANT_OF,
    TRANSCRIPTS,
    USAGE,
    VERSIONS,
)
from app.store.control.standing import lock_tenant
from app.store.idempotency import Idempotency, claim, record
from app.store.session import ControlSession, Writing
from app.store.statement import Statement

__all__ = ["Item", "QueueStore", "Summary", "Usage", "item_key"]

LONGEST_LIST: Final = 500
SENDERS: Final = 20
_UNKNOWN_FORM: Final = '"format_version":"unknown"'


@dataclass(frozen=True, slots=True)
class Item:
    """One queued document or transcript. Times are Unix seconds; ``layer`` as the data spells it."""

    id: str
    tenant: str
    """Data id."""
    layer: str
    name: str
    sha256: str
    size: int
    media_type: str
    kind: str
    """``document`` or ``transcript``."""
    state: str
    """received, converting, pending, claimed, completed, failed or cancelled."""
    meta: str
    """JSON object, as the sender gave it."""
    subject: str
    created_at: float
    updated_at: float
    due: float
    """From when on somebody may take it: the end of a wait before the next attempt, or of a lease."""
    attempts: int = 0
    """Conversions begun."""
    claims: int = 0
    """Times that a run took it."""
    lease: str | None = None
    reason: str | None = None
    """Why it failed."""
    stored: bool = True
    """Whether its own bytes are kept: those of a transcript that a longer one continues are not."""
    text: bool = False
    """Whether its text was converted into a file of its own."""
    text_size: int | None = None
    """Bytes of that file."""
    facts: str | None = None
    """JSON object: what a transcript holds."""
    last_at: float | None = None
    """Of a transcript: when its last message was said."""
    source: str | None = None
    session_id: str | None = None
    through: str | None = None
    through_at: float | None = None
    last_event_id: str | None = None
    completed_at: float | None = None
    entities: int | None = None
    edges: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Item:
        """An item from its record."""
        return cls(**{name: value for name, value in properties.items() if name in cls.__slots__})

    def record(self) -> dict[str, Any]:
        """Its record, without what is unknown."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Summary:
    """What of a tenant's queue is visible in some layers."""

    pending: int = 0
    """Documents that no run has completed yet."""
    completed: int = 0
    failed: int = 0
    unprocessed_transcripts: int = 0
    strange_transcripts: int = 0
    """Of those: how many have a form that this version does not know."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant's queue takes, in all layers."""

    files: int
    size: int
    """Bytes, those of converted texts included."""


def item_key(tenant: str, layer: str, name: str, sha256: str, *sender: str) -> str:
    """What an item is unique by: the same content under the same name in the same layer is one item.

    With a ``sender`` it is that sender's own, beside another's: see :func:`accept_in`.
    """
    return hashlib.sha256("\0".join((tenant, layer, name, sha256, *sender)).encode()).hexdigest()


class QueueStore:
    """The store of queued items.

    ``tenant`` is a data id, ``layers`` are those that the caller may read or write; ``sender`` is the subject whose
    items alone it may see, None if it may see all.
    """

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def summary(self, tenant: str, layers: Collection[str], *, sender: str | None = None) -> Summary:
        """Counts over what these layers hold."""
        asked = {"of": tenant, "readable": sorted(layers), "sender": sender, "unknown_form": _UNKNOWN_FORM}
        rows = await self._control.read(SUMMARY, **asked)
        counts = {(row["kind"], row["state"]): int(row["many"]) for row in rows}

        def of(kind: str | None, *states: str) -> int:
            return sum(many for (k, state), many in counts.items() if state in states and kind in (None, k))

        waiting = ("received", "converting", "pending", "claimed")
        return Summary(
            pending=of("document", *waiting),
            completed=of(None, "completed"),
            failed=of(None, "failed"),
            unprocessed_transcripts=of("transcript", *waiting),
            strange_transcripts=sum(int(row["strange"]) for row in rows),
        )

    async def usage(self, tenant: str) -> Usage:
        """What all items of the tenant take."""
        rows = await self._control.read(USAGE, of=tenant)
        return Usage(int(rows[0]["files"]), int(rows[0]["size"]))

    async def pending(
        self,
        tenant: str,
        layers: Collection[str],
        *,
        after: tuple[float, str] = (0.0, ""),
        limit: int,
        sender: str | None = None,
    ) -> list[tuple[Item, float | None]]:
        """What waits, oldest first, each with the moment up to which a run has read the same transcript before."""
        most = min(limit, LONGEST_LIST)
        rows = await self._control.read(
            PENDING, of=tenant, readable=sorted(layers), sender=sender, at=after[0], id=after[1], limit=most
        )
        return [(Item.of(row["item"]), row["since"]) for row in rows]

    async def read_before(self, tenant: str, layers: Collection[str], ids: Sequence[str]) -> dict[str, float]:
        """Of transcripts that a run has read a part of before: up to which moment, by id."""
        rows = await self._control.read(READ_BEFORE, of=tenant, readable=sorted(layers), ids=list(ids))
        return {row["id"]: float(row["since"]) for row in rows}

    async def completed(
        self, tenant: str, layers: Collection[str], *, limit: int, sender: str | None = None
    ) -> list[Item]:
        """What runs have completed, newest first."""
        most = min(limit, LONGEST_LIST)
        return await self._items(COMPLETED, of=tenant, readable=sorted(layers), sender=sender, limit=most)

    async def failed(
        self, tenant: str, layers: Collection[str], *, limit: int, sender: str | None = None
    ) -> list[Item]:
        """The dead letters, newest first."""
        most = min(limit, LONGEST_LIST)
        return await self._items(FAILED, of=tenant, readable=sorted(layers), sender=sender, limit=most)

    async def cursors(
        self,
        tenant: str,
        layers: Collection[str],
        *,
        source: str,
        session: str | None,
        limit: int,
        sender: str,
    ) -> list[dict[str, Any]]:
        """How far the subject ``sender`` queued each session of ``source``, newest first: {session, through,
        last_event_id, file}."""
        asked = {"of": tenant, "readable": sorted(layers), "sender": sender}
        most = min(limit, LONGEST_LIST)
        return await self._control.read(CURSORS, **asked, source=source, session=session, limit=most)

    async def find(self, tenant: str, layers: Collection[str], item: str) -> Item | None:
        """The item with this id."""
        found = await self._items(FIND, of=tenant, readable=sorted(layers), id=item)
        return found[0] if found else None

    async def newest(
        self,
        tenant: str,
        layers: Collection[str],
        name: str,
        *,
        first: str,
        sender: str | None = None,
        cancelled: bool = False,
    ) -> Item | None:
        """The newest item of this name whose bytes are kept, or that was ``cancelled``: that of the subject ``first``,
        another's only if it sent none."""
        asked = {"of": tenant, "readable": sorted(layers), "name": name, "first": first, "sender": sender}
        found = await self._items(NEWEST, **asked, cancelled=cancelled)
        return found[0] if found else None

    async def transcripts(self, tenant: str, layers: Collection[str], name: str, *, first: str) -> list[Item]:
        """Of each sender and layer the newest kept transcript of this name: those of the subject ``first`` come first,
        the newest of them before the others. At most 20."""
        asked = {"of": tenant, "readable": sorted(layers), "name": name, "first": first}
        return await self._items(TRANSCRIPTS, **asked, limit=SENDERS)

    async def versions(self, tenant: str, layer: str, name: str, *, sender: str | None = None) -> list[Item]:
        """Kept transcripts of one name in one layer, oldest first."""
        return await self._items(VERSIONS, of=tenant, layer_of=layer, name=name, sender=sender)

    async def known(self, ids: Collection[str]) -> frozenset[str]:
        """Which of these ids have a record."""
        rows = await self._control.read(KNOWN, ids=sorted(ids))
        return frozenset(row["id"] for row in rows)

    async def tenant_of(self, data: str) -> str | None:
        """The id of the tenant whose data id this is, which log lines carry; None if it has been moved or erased."""
        found: str | None = (await self._control.read(TENANT_OF, of=data))[0]["id"]
        return found

    async def write(
        self, scope: Scope, idempotency: Idempotency | None, work: Callable[[Writing], Awaitable[Json]]
    ) -> Json:
        """Do ``work`` on the queue in one transaction; see ``TenantSession.write``.

        Raises:
            CallError: with what is known of the outcome. Conflict: the key was used with other arguments or layers.
        """

        async def whole(writing: Writing) -> Json:
            async def run(statement: Statement, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
                return await writing.run(statement, **parameters)

            if idempotency is None:
                return await work(writing)
            answer = await claim(run, scope, idempotency)
            if answer is None:
                answer = await work(writing)
                await record(run, scope, idempotency, answer)
            return answer

        return await self._control.write(whole)

    async def claim_conversion(self, *, now: float, until: float, after: str = "") -> Item | None:
        """Take the oldest item that waits for its conversion, or whose converter's lease has expired, of one tenant.

        ``after`` is the data id that the caller was given last: each other tenant that has something comes before it.
        """
        rows = await self._control.write(
            lambda writing: writing.run(CLAIM_CONVERSION, now=now, until=until, after=after, lease=new_lease())
        )
        return Item.of(rows[0]["item"]) if rows else None

    async def finish(self, item: Item, changes: Mapping[str, Any], *, most: int | None = None) -> bool:
        """Change an item whose lease is held; False if somebody else took it over or removed it meanwhile.

        Raises:
            QuotaExceeded: all items of the tenant would take more than ``most`` bytes; nothing was changed.
        """

        async def work(writing: Writing) -> bool:
            held = await take_in(writing, item.tenant, [item.layer], item.id)
            if held is None or held.lease != item.lease or held.state != item.state:
                return False
            await change_in(writing, item.id, changes)
            if most is not None:
                await lock_tenant(writing, item.tenant)
                if (await usage_in(writing, item.tenant)).size > most:
                    raise QuotaExceeded("the files of this tenant would take more than they may. Nothing was changed.")
            return True

        return await self._control.write(work)

    async def give_up(self, tenant: str, *, now: float, claims: int, reason: str) -> None:
        """Put aside what runs of the tenant have claimed ``claims`` times and never completed."""
        given = {"of": tenant, "now": now, "claims": claims, "reason": reason}
        await self._control.write(lambda writing: writing.run(GIVEN_UP, **given))

    async def claimed_out(self, *, now: float, claims: int) -> list[str]:
        """The data ids of tenants that have something to give up."""
        return [str(row["tenant"]) for row in await self._control.read(CLAIMED_OUT, now=now, claims=claims)]

    async def _items(self, statement: Statement, /, **parameters: Any) -> list[Item]:
        return [Item.of(row["item"]) for row in await self._control.read(statement, **parameters)]


def new_lease() -> str:
    """What proves a hold on an item; not guessable."""
    return f"le-{secrets.token_hex(12)}"


async def accept_in(writing: Writing, item: Item, *, sender: str | None = None) -> tuple[Item, bool]:
    """Queue an item in a transaction that is under way; the item that stands there now, and whether it is this one.

    What somebody else sent already is that item, except to a ``sender`` who may not see it: an item of its own is
    queued beside it then, and nothing in the answer tells that from what is new.
    """
    content = (item.tenant, item.layer, item.name, item.sha256)
    own = item_key(*content, item.subject)
    if rows := await writing.run(ACCEPTED, key=own):
        return Item.of(rows[0]["item"]), False
    row = (await writing.run(ACCEPT, key=item_key(*content), record=item.record()))[0]
    if sender is not None and row["item"]["subject"] != sender:
        row = (await writing.run(ACCEPT, key=own, record=item.record()))[0]
    return Item.of(row["item"]), bool(row["fresh"])


async def usage_in(writing: Writing, tenant: str) -> Usage:
    """What all items of the tenant take, this transaction's own included."""
    rows = await writing.run(USAGE, of=tenant)
    return Usage(int(rows[0]["files"]), int(rows[0]["size"]))


async def take_in(writing: Writing, tenant: str, layers: Sequence[str], item: str) -> Item | None:
    """Lock the item and read it."""
    rows = await writing.run(TAKE, of=tenant, writable=sorted(layers), id=item)
    return Item.of(rows[0]["item"]) if rows else None


async def change_in(writing: Writing, item: str, changes: Mapping[str, Any]) -> None:
    """Change a locked item; None removes a property."""
    await writing.run(CHANGE, id=item, changes=dict(changes))


async def remove_in(writing: Writing, item: str) -> None:
    """Remove a locked item."""
    await writing.run(REMOVE, id=item)


async def claim_in(
    writing: Writing, tenant: str, layers: Sequence[str], *, item: str | None, now: float, until: float, limit: int
) -> list[Item]:
    """Take up to ``limit`` items that are ready and that nobody holds, oldest first, all under one new lease."""
    rows = await writing.run(
        CLAIM,
        of=tenant,
        writable=sorted(layers),
        id=item,
        now=now,
        until=until,
        lease=new_lease(),
        limit=limit,
    )
    return [Item.of(row["item"]) for row in rows]

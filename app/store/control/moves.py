"""A tenant's way to another data id (partition rule 22): filled out of sight, exchanged in one transaction.

A move that nobody goes on with is found by its heartbeat; what it filled, and what a finished one left behind, is
waiting to be erased.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from app.errors import Conflict
from app.store.control.audit import append_in
from app.store.control.queue import item_key
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["ABANDONED_SECONDS", "Leftover", "Move", "Moves", "new_data_id"]

ABANDONED_SECONDS: Final = 120.0
"""A move without a heartbeat for so long was interrupted."""

# Each step takes this lock before it looks: of two that contradict each other, the later one finds what the other did.
LOCK = statement("moves.lock_tenant", "MATCH (t:_Tenant {id: $of}) SET t.touched = $now", writes=True, control=True)
LOCK_MOVED = statement(
    "moves.lock_moved_tenant",
    "MATCH (m:_Move {id: $id}) MATCH (t:_Tenant {id: m.tenant}) SET t.touched = $now",
    writes=True,
    control=True,
)
BEGIN = statement(
    "moves.begin",
    """
    MATCH (t:_Tenant {id: $of}) WHERE t.state IN ['active', 'suspended'] AND t.mover IS NULL
    SET t.mover = $id
    CREATE (m:_Move {id: $id, tenant: $of, state: 'filling', from: t.data, beat: $now})
    RETURN t.data AS data
    """,
    writes=True,
    control=True,
)
FREEZE = statement(
    "moves.freeze",
    """
    MATCH (t:_Tenant {id: $of, mover: $id})
    SET t.frozen = true
    SET t.state = CASE WHEN t.state = 'active' THEN 'moving' ELSE t.state END
    RETURN t.state AS state
    """,
    writes=True,
    control=True,
)
BEAT = statement(
    "moves.beat",
    "MATCH (m:_Move {id: $id, state: 'filling'}) SET m.beat = $now RETURN m.id AS id",
    writes=True,
    control=True,
)
FLIP = statement(
    "moves.flip",
    """
    MATCH (t:_Tenant {id: $of, mover: $id}) WHERE t.state <> 'deleted'
    MATCH (m:_Move {id: $id, state: 'filling'})
    CREATE (old:_Move {id: t.data, tenant: $of, state: 'leaving', beat: $now, to: $id})
    SET t.data = $id, t.state = CASE WHEN t.state = 'moving' THEN 'active' ELSE t.state END,
        t.layers = t.layers + [layer IN $names WHERE NOT layer IN t.layers]
    REMOVE t.mover, t.frozen
    DELETE m
    RETURN t.name AS name
    """,
    writes=True,
    control=True,
)
# What waits to be learned and how far it was read belongs to the tenant, not to the memory that is exchanged.
CARRY = statement(
    "moves.carry_beside",
    """
    MATCH (n:_IngestItem|_Run|_RunEvent|_RunSlot|_Watermark) WHERE n.tenant = $old
    SET n.tenant = $id
    RETURN count(n) AS carried
    """,
    writes=True,
    control=True,
)
ITEMS = statement(
    "moves.list_items",
    """
    MATCH (i:_IngestItem {tenant: $id}) WHERE i.key IS NOT NULL
    RETURN i.id AS item, i.layer AS layer, i.name AS name, i.sha256 AS sha256 ORDER BY item
    """,
    control=True,
)
REKEY = statement(
    "moves.rekey_items",
    "UNWIND $rows AS row MATCH (i:_IngestItem {id: row.item}) SET i.key = row.key",
    writes=True,
    control=True,
)
GIVE_UP = statement(
    "moves.give_up",
    """
    MATCH (m:_Move {id: $id, state: 'filling'})
    SET m.state = 'leaving', m.beat = $now
    WITH m
    OPTIONAL MATCH (t:_Tenant {id: m.tenant, mover: $id})
    SET t.state = CASE WHEN t.state = 'moving' THEN 'active' ELSE t.state END
    REMOVE t.mover, t.frozen
    RETURN m.id AS id
    """,
    writes=True,
    control=True,
)
ARRIVED = statement("moves.find_arrived", "MATCH (t:_Tenant {data: $id}) RETURN t.id AS id", control=True)
STALE = statement(
    "moves.list_abandoned",
    "MATCH (m:_Move {state: 'filling'}) WHERE m.beat < $before RETURN m.id AS id ORDER BY id",
    control=True,
)
LEFT = statement(
    "moves.list_left",
    """
    MATCH (m:_Move {state: 'leaving'}) WHERE m.beat < $before OR m.to IS NULL
    RETURN m.id AS id, m.to AS to, m.tenant AS tenant ORDER BY id
    """,
    control=True,
)
OF_TENANT = statement(
    "moves.of_tenant", "MATCH (m:_Move {tenant: $of}) RETURN m.id AS id, m.to AS to ORDER BY id", control=True
)
DONE = statement("moves.forget", "MATCH (m:_Move {id: $id, state: 'leaving'}) DELETE m", writes=True, control=True)


@dataclass(frozen=True, slots=True)
class Move:
    """One move under way."""

    id: str
    """The new data id."""
    tenant: str
    """Control id."""
    before: str
    """The data id that the tenant has until then."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A data id that no tenant has any more. ``to`` is the one that took its place, where there is one."""

    data: str
    to: str | None


def new_data_id() -> str:
    """A data id that nothing has."""
    return f"d{secrets.token_hex(12)}"


class Moves:
    """The store of moves."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def begin(self, tenant: str) -> Move:
        """Begin to fill a new data id for a tenant.

        Raises:
            Conflict: it is moved already, or it is deleted.
        """
        new = new_data_id()

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK, of=tenant, now=_now())
            return await writing.run(BEGIN, of=tenant, id=new, now=_now())

        rows = await self._control.write(work)
        if not rows:
            raise Conflict(
                "this tenant is being restored already, or was deleted. A restore that was interrupted is cleaned up "
                f"after {ABANDONED_SECONDS:.0f} seconds: try again then. Nothing was changed."
            )
        return Move(new, tenant, rows[0]["data"])

    async def freeze(self, move: Move) -> None:
        """Refuse the tenant's writes until the move ends; replicas follow within 5 seconds.

        Raises:
            Conflict: the move was given up meanwhile.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK, of=move.tenant, now=_now())
            return await writing.run(FREEZE, of=move.tenant, id=move.id)

        if not await self._control.write(work):
            raise _given_up()

    async def beat(self, move: Move) -> None:
        """Say that the move goes on.

        Raises:
            Conflict: it was given up meanwhile.
        """
        if not await self._control.write(lambda writing: writing.run(BEAT, id=move.id, now=_now())):
            raise _given_up()

    async def flip(self, move: Move, layers: Collection[str], *, actor: str, action: str) -> None:
        """Make the new data id the tenant's own, with ``layers`` beside those it has; in one small transaction.

        Raises:
            Conflict: the move was given up meanwhile.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK, of=move.tenant, now=_now())
            rows = await writing.run(FLIP, of=move.tenant, id=move.id, now=_now(), names=sorted(set(layers) - {""}))
            if rows:
                await writing.run(CARRY, old=move.before, id=move.id)
                items = await writing.run(ITEMS, id=move.id)
                keyed = [
                    {"item": i["item"], "key": item_key(move.id, i["layer"], i["name"], i["sha256"])} for i in items
                ]
                await writing.run(REKEY, rows=keyed)
                await append_in(writing, tenant=move.tenant, actor=actor, action=action, target=move.tenant)
            return rows

        if not await self._control.write(work):
            raise _given_up()

    async def give_up(self, move_id: str) -> bool:
        """End a move that is not finished: the tenant stays as it is, what was filled is left to be erased.

        False: it had ended, and nobody may take from that that its data id is unused.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK_MOVED, id=move_id, now=_now())
            return await writing.run(GIVE_UP, id=move_id, now=_now())

        return bool(await self._control.write(work))

    async def arrived(self, move: Move) -> bool:
        """Whether a tenant lives on the new data id. Of a move that has ended the answer stays as it is."""
        return bool(await self._control.read(ARRIVED, id=move.id))

    async def abandoned(self, *, older_than: float = ABANDONED_SECONDS) -> list[str]:
        """Moves without a heartbeat for so many seconds."""
        rows = await self._control.read(STALE, before=_now() - int(older_than * 1000))
        return [row["id"] for row in rows]

    async def left(self, *, older_than: float) -> list[Leftover]:
        """Data ids to erase: those that a reader may still be at only once they were left so many seconds ago."""
        rows = await self._control.read(LEFT, before=_now() - int(older_than * 1000))
        return [Leftover(row["id"], row["to"]) for row in rows]

    async def of_tenant(self, tenant: str) -> list[Leftover]:
        """Every data id that this tenant is moving to or has left behind."""
        return [Leftover(row["id"], row["to"]) for row in await self._control.read(OF_TENANT, of=tenant)]

    async def forget(self, data: str) -> None:
        """Nothing is left of this data id."""
        await self._control.write(lambda writing: writing.run(DONE, id=data))


def _given_up() -> Conflict:
    return Conflict("this restore was given up by another process meanwhile. Nothing was applied; begin again.")


def _now() -> int:
    return int(time.time() * 1000)

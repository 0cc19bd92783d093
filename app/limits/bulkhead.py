"""How many calls of a tenant may be under way at once, so that one tenant's storm leaves the others their room.

Each (tenant, kind) is a lane with its own number of slots, and all lanes share ``total``. Who finds no slot waits in
the lane for a short while; a slot that becomes free goes to the lanes in turn, not to whoever waits in greatest number.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum

from app.errors import Overloaded

__all__ = ["Bulkhead", "Kind"]


class Kind(StrEnum):
    """What a call does to the database."""

    READ = "read"
    WRITE = "write"
    WHOLE_GRAPH = "whole_graph"


class _Lane:
    """Calls of one tenant and kind: how many are under way, who waits."""

    __slots__ = ("busy", "slots", "waiting")

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.busy = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Bulkhead:
    """``slots`` for each kind and tenant, ``total`` over all, ``wait`` seconds at most, ``queue`` waiters of a lane."""

    def __init__(self, *, slots: Mapping[Kind, int], total: int, wait: float, queue: int) -> None:
        self._slots = dict(slots)
        self._total = total
        self._wait = wait
        self._queue = queue
        self._busy = 0
        self._lanes: OrderedDict[tuple[str, Kind], _Lane] = OrderedDict()
        """Lanes in use; the order of those that wait is the order in which they get the next slot."""

    def __len__(self) -> int:
        return len(self._lanes)

    @asynccontextmanager
    async def slot(self, tenant: str, kind: Kind) -> AsyncIterator[None]:
        """Hold a slot for the length of the block.

        Raises:
            Overloaded: none became free in time; nothing was begun.
        """
        name = (tenant, kind)
        lane = self._lanes.setdefault(name, _Lane(self._slots[kind]))
        try:
            await self._enter(lane)
        except BaseException:
            self._tidy(name, lane)
            raise
        try:
            yield
        finally:
            self._leave(lane)
            self._tidy(name, lane)

    async def _enter(self, lane: _Lane) -> None:
        if lane.busy < lane.slots and self._busy < self._total and not lane.waiting:
            self._take(lane)
            return
        if len(lane.waiting) >= self._queue or self._wait <= 0:
            raise self._refusal()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        try:
            async with asyncio.timeout(self._wait):
                await turn
        except TimeoutError:
            if not self._given(turn, lane):
                raise self._refusal() from None
        except asyncio.CancelledError:
            if self._given(turn, lane):
                self._leave(lane)
            raise

    def _given(self, turn: asyncio.Future[None], lane: _Lane) -> bool:
        """Whether the slot came in the very moment in which the waiting ended; else nobody gives it any more."""
        if turn.done() and not turn.cancelled():
            return True
        if turn in lane.waiting:
            lane.waiting.remove(turn)
        return False

    def _take(self, lane: _Lane) -> None:
        lane.busy += 1
        self._busy += 1

    def _leave(self, lane: _Lane) -> None:
        lane.busy -= 1
        self._busy -= 1
        self._hand_on()

    def _hand_on(self) -> None:
        if self._busy >= self._total:
            return
        for name, lane in self._lanes.items():
            if lane.busy < lane.slots and self._next(lane):
                self._lanes.move_to_end(name)
                return

    def _next(self, lane: _Lane) -> bool:
        while lane.waiting:
            turn = lane.waiting.popleft()
            if not turn.done():
                self._take(lane)
                turn.set_result(None)
                return True
        return False

    def _tidy(self, name: tuple[str, Kind], lane: _Lane) -> None:
        if lane.busy == 0 and not lane.waiting:
            self._lanes.pop(name, None)

    def _refusal(self) -> Overloaded:
        return Overloaded(
            "Too many calls of this tenant are under way; nothing was done. Try again shortly, with fewer at once.",
            retry_after_ms=max(1000, round(self._wait * 1000)),
        )

"""Rows on their way into a load: the next ones are made while the database writes the ones before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Final

from app.store.moving.load import BATCH, BATCH_BYTES, Load, Row

__all__ = ["Batches"]

_AHEAD: Final = 500
"""Rows that are made at a time, in a thread."""


class Batches:
    """Writes rows in their order, in batches of one kind and layer; one batch is under way at a time.

    Used in an ``async with``: leaving it, however, waits for the batch under way. ``shown`` is told how many
    are written.
    """

    def __init__(self, load: Load, shown: Callable[[int], None]) -> None:
        self._load = load
        self._shown = shown
        self._waiting: list[Row] = []
        self._size = 0
        self._under_way: asyncio.Task[None] | None = None
        self._done = 0

    async def __aenter__(self) -> Batches:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the batch under way, which its session bounds, also when cut off meanwhile.

        A commit goes on by itself: what it writes once the leftovers were erased, nobody would erase any more.
        """
        cut_off = False
        while self._under_way is not None and not self._under_way.done():
            try:
                await asyncio.wait({self._under_way})
            except asyncio.CancelledError:
                cut_off = True
        if self._under_way is not None:
            await asyncio.gather(self._under_way, return_exceptions=True)
        if cut_off:
            raise asyncio.CancelledError

    async def pour(self, rows: Iterable[Row]) -> None:
        """Take rows, made in a thread while the database writes; only one thread at a time makes any.

        Raises:
            InvalidInput, CallError: as ``Load.write`` does, for these rows or for earlier ones; what was written stays
                out of sight.
        """
        making: Iterator[Row] = iter(rows)
        while made := await asyncio.to_thread(lambda: [(row, row.size()) for row in islice(making, _AHEAD)]):
            for row, size in made:
                if self._waiting and not self._fits(row, size):
                    await self._send()
                self._waiting.append(row)
                self._size += size

    async def flush(self) -> None:
        """Write what waits, and wait until it is written.

        Raises:
            InvalidInput, CallError: as ``pour`` does.
        """
        await self._send()
        await self._written()

    def _fits(self, row: Row, size: int) -> bool:
        first = self._waiting[0]
        alike = (row.kind, row.layer) == (first.kind, first.layer)
        return alike and len(self._waiting) < BATCH and self._size + size <= BATCH_BYTES

    async def _send(self) -> None:
        await self._written()
        if self._waiting:
            self._under_way = asyncio.create_task(self._write(self._waiting))
            self._waiting, self._size = [], 0

    async def _write(self, rows: list[Row]) -> None:
        await self._load.write(rows)
        self._done += len(rows)
        self._shown(self._done)

    async def _written(self) -> None:
        if self._under_way is not None:
            await asyncio.shield(self._under_way)

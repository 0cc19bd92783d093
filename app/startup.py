"""Reaching the database when the process starts, and for as long as it takes.

A database that is away is no reason to stop: tokens verify by the snapshot, lists are served, and it is tried again
until it answers. One that refuses us, or holds what is not ours, is: waiting does not mend it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

import structlog

from app.edge.health import Finding
from app.errors import CallError, StartError
from app.store.database import Database
from app.store.schema import VERSION, SchemaStatus, migrate, status

__all__ = ["Opening"]

log = structlog.get_logger("graphkeep.start")

FIRST_SECONDS: Final = 150.0
"""Longest first attempt: a migration of a large graph builds its indexes in it."""

AGAIN_SECONDS: Final = 1.0
PROBE_SECONDS: Final = 3.0
CACHED_SECONDS: Final = 1.0


class Opening:
    """Verifies and migrates the database, now or later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.migrated = asyncio.Event()
        self.unusable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails with a :class:`StartError` when the database, away at first, turns out to be unusable."""
        self._status: SchemaStatus | None = None
        self._answers = False
        self._looked = 0.0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Opening]:
        """Try once, then in the background.

        Raises:
            StartError: the database answers and cannot be used.
        """
        await self._attempt()
        again = asyncio.create_task(self._keep_trying(), name="database start")
        try:
            yield self
        finally:
            again.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await again
            if self.unusable.done():
                self.unusable.exception()  # seen, whoever waits for it or not
            else:
                self.unusable.cancel()

    async def database(self) -> Finding:
        """Whether the database answers now."""
        await self._look()
        return Finding(self._answers, "connected" if self._answers else "the database does not answer")

    async def schema(self) -> Finding:
        """Whether the schema is this release's, with every index online."""
        await self._look()
        if not self.migrated.is_set() or self._status is None:
            return Finding(False, "not migrated yet")
        if self._status.ready:
            return Finding(True, f"version {VERSION}")
        waiting = ", ".join(self._status.waiting)
        return Finding(False, f"indexes are still being built: {waiting}" if waiting else "of another release")

    async def _attempt(self) -> None:
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                await self._database.verify()
                await migrate(self._database)
        except (CallError, TimeoutError) as error:
            log.warning("the database is away; trying again until it answers", reason=_reason(error))
        else:
            self.migrated.set()

    async def _keep_trying(self) -> None:
        while not self.migrated.is_set():
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                await self._attempt()
            except StartError as error:
                log.error("the database cannot be used", reason=error.message)
                self.unusable.set_exception(error)
                return
        log.info("the database is ready")

    async def _look(self) -> None:
        """Ask the database, at most once a second however often the probes come."""
        if time.monotonic() - self._looked < CACHED_SECONDS:
            return
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                self._status = await status(self._database)
            self._answers = True
        except (CallError, TimeoutError):
            self._answers = False
        self._looked = time.monotonic()


def _reason(error: CallError | TimeoutError) -> str:
    return error.reason if isinstance(error, CallError) else "timeout"

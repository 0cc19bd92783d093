"""Works beside the calls: converts what has arrived, and puts away what nobody needs."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping
from errno import errorcode
from typing import Any, Final

import structlog

from app.edge.errors import frames
from app.errors import CallError, QuotaExceeded
from app.ingest.actions import CLAIMS, NEVER_COMPLETED
from app.ingest.conversion import ATTEMPTS, ConversionFailed, convert
from app.ingest.files import Files
from app.settings import IngestSettings
from app.store.control.queue import Item, QueueStore

__all__ = ["Worker"]

log = structlog.get_logger("graphkeep.ingest")

POLL_SECONDS: Final = 5.0
"""How long another replica's arrival may go unseen."""
AWAY_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 600.0
FORGOTTEN_SECONDS: Final = 24 * 3600.0
DAY: Final = 24 * 3600.0
NO_ROOM: Final = (
    "its text would be more than the files of this tenant may have (GRAPHKEEP_QUOTA_FILE_BYTES); remove what is done "
    "with, then retry"
)


class Worker:
    """One converter of this process. Leases in the queue keep several apart, and free what a dead one held."""

    def __init__(self, files: Files, store: QueueStore, settings: IngestSettings) -> None:
        self._files = files
        self._store = store
        self._settings = settings
        self._wake = asyncio.Event()
        self._swept = time.monotonic()
        self._served = ""

    def arrived(self) -> None:
        """There is something to convert."""
        self._wake.set()

    async def run(self, ready: asyncio.Event) -> None:
        """Work for ever, from when the database can be used."""
        await ready.wait()
        while True:
            structlog.contextvars.unbind_contextvars("tenant")
            try:
                if not await self.step():
                    await self._sweep()
                    await self._rest()
            except CallError as error:
                log.warning("queue_away", reason=error.reason)
                await asyncio.sleep(AWAY_SECONDS)
            except Exception as error:  # noqa: BLE001 - one bad item or moment must not end the worker
                log.error("worker_failed", error=type(error).__qualname__, frames=frames(error))
                await asyncio.sleep(AWAY_SECONDS)

    async def step(self) -> bool:
        """Convert the next item; False if there is none.

        Tenants take turns: what one sends first waits for one item of each other, however many those have sent. What is
        logged from then on in this task carries the item's tenant.
        """
        self._wake.clear()
        now = time.time()
        until = now + self._settings.convert_seconds + GRACE_SECONDS
        item = await self._store.claim_conversion(now=now, until=until, after=self._served)
        if item is None:
            return False
        self._served = item.tenant
        # Bound till the next step: an error that leaves this one is logged by whoever asked for it.
        structlog.contextvars.bind_contextvars(tenant=await self._store.tenant_of(item.tenant))
        state = await self._finish(item)
        log.info("converted", item=item.id, state=state, attempts=item.attempts)
        return True

    async def _finish(self, item: Item) -> str:
        """Convert an item that this worker holds, and put it where it belongs; the state that it has then.

        Whether the tenant has room for the text is judged where the text begins to count: two converters and an upload
        that each find room may have none together.
        """
        outcome = await self._outcome(item)
        try:
            most = self._settings.quota_file_bytes if "text" in outcome else None
            there = await self._ended(item, outcome, most=most)
        except QuotaExceeded:
            await asyncio.to_thread(self._files.text(item.tenant, item.id).unlink, missing_ok=True)
            outcome = _failed(NO_ROOM)
            there = await self._ended(item, outcome)
        if not there:
            await self._forget(item)
        return str(outcome["state"])

    async def _ended(self, item: Item, outcome: Mapping[str, Any], *, most: int | None = None) -> bool:
        return await self._store.finish(item, {**outcome, "lease": None, "updated_at": time.time()}, most=most)

    async def _outcome(self, item: Item) -> Mapping[str, Any]:
        """What becomes of an item that this worker holds."""
        if item.attempts > ATTEMPTS:
            return _failed(f"its conversion was begun {ATTEMPTS} times and never ended")
        try:
            size = await self._convert(item)
        except FileNotFoundError:  # they may follow: a tenant's files move behind its records
            return _again(item, "its bytes are not here")
        except ConversionFailed as failure:
            return _again(item, failure.reason, failure.attempts)
        except OSError as error:
            code = errorcode.get(error.errno or 0, "OSError")
            return _again(item, f"the gateway's own machine could not do its part ({code})")
        return {"state": "pending", "text": True, "text_size": size, "due": time.time(), "reason": None}

    async def _convert(self, item: Item) -> int:
        """Keep the text of an item; its bytes."""
        folder = await asyncio.to_thread(self._files.scratch, item.tenant)
        try:
            made = await convert(self._files.original(item.tenant, item.id), item.name, folder, self._settings)
            size = (await asyncio.to_thread(made.stat)).st_size
            await asyncio.to_thread(self._files.put_text, item.tenant, item.id, made)
            return size
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _forget(self, item: Item) -> None:
        """Somebody removed it while it was converted, or took it over after our lease."""
        if not await self._store.known([item.id]):
            await asyncio.to_thread(self._files.drop, item.tenant, item.id)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _sweep(self) -> None:
        if time.monotonic() - self._swept < SWEEP_SECONDS:
            return
        self._swept = time.monotonic()
        await self.sweep()

    async def sweep(self) -> None:
        """Put away uploads that stopped, files that were never queued, and what runs claim and never complete."""
        now = time.time()
        for tenant in await self._store.claimed_out(now=now, claims=CLAIMS):
            await self._store.give_up(tenant, now=now, claims=CLAIMS, reason=NEVER_COMPLETED)
        await asyncio.to_thread(self._files.sweep_parts, seconds=self._settings.upload_days * DAY)
        found: dict[str, list[str]] = defaultdict(list)
        for tenant, item in await asyncio.to_thread(lambda: list(self._files.forgotten(seconds=FORGOTTEN_SECONDS))):
            found[tenant].append(item)
        for tenant, items in found.items():
            # A tenant without any record may belong to another database: its files are not ours to judge.
            if (await self._store.usage(tenant)).files:
                for item in set(items) - await self._store.known(items):
                    await asyncio.to_thread(self._files.drop, tenant, item)


def _again(item: Item, reason: str, attempts: int = ATTEMPTS) -> Mapping[str, Any]:
    if item.attempts >= attempts:
        return _failed(reason)
    return {"state": "received", "due": time.time() + 10.0 * 4 ** (item.attempts - 1), "reason": reason}


def _failed(reason: str) -> Mapping[str, Any]:
    return {"state": "failed", "reason": reason}

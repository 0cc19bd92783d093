"""The local snapshot (design §6): tokens are judged by it alone, so no call's path reads control data.

Refreshed every 2 s in the background and kept encrypted under the home folder, so that a restart while the database
is away still verifies tokens and serves lists.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import structlog

from app.access.view import Revoked, View
from app.context import Deadline
from app.errors import CallError, DatabaseUnavailable, StartError
from app.oauth.sealing import Sealer, UnreadableSeal, write_private
from app.oauth.vault import Vault
from app.store.control.keys import Keys
from app.store.control.revocations import Revocations
from app.store.control.tenants import Tenants
from app.store.session import ControlSession

__all__ = ["FRESH_SECONDS", "SNAPSHOT_FILE", "Snapshot", "SnapshotMissing"]

REFRESH_SECONDS: Final = 2.0
FRESH_SECONDS: Final = 5.0
"""A ``tools/call`` needs a snapshot at most this old; discovery and lists take any age."""

READ_SECONDS: Final = 4.0
SNAPSHOT_FILE: Final = "snapshot.sealed"
PURPOSE: Final = "snapshot"

# What keeps the shared threads busy must not make the snapshot old: every call would be refused.
_WRITER: Final = ThreadPoolExecutor(1, thread_name_prefix="snapshot")

log = structlog.get_logger("graphkeep.access")


class SnapshotMissing(DatabaseUnavailable):
    """There is no snapshot and no database: nobody can be told from anybody (503, never 401)."""

    reason = "starting"


class Snapshot:
    """Holds the newest :class:`View`."""

    def __init__(
        self, control: ControlSession, vault: Vault, sealer: Sealer, home: Path, *, every: float = REFRESH_SECONDS
    ) -> None:
        self._control = control
        self._vault = vault
        self._sealer = sealer
        self._file = home / SNAPSHOT_FILE
        self._every = every
        self._view: View | None = None
        self._read_at = -math.inf
        self._saved: View | None = None

    @property
    def view(self) -> View:
        """The newest picture, of whatever age.

        Raises:
            SnapshotMissing: there is none yet.
        """
        if self._view is None:
            raise SnapshotMissing(
                "the gateway has not reached its database since it started; try again shortly.", retry_after_ms=2000
            )
        return self._view

    @property
    def age(self) -> float:
        """Seconds since the database was last read; infinite when this process never reached it."""
        return time.monotonic() - self._read_at

    def require_fresh(self) -> None:
        """Let a ``tools/call`` pass.

        Raises:
            DatabaseUnavailable: the snapshot is older than 5 s, so a revocation could have been missed.
        """
        if self.age > FRESH_SECONDS:
            raise DatabaseUnavailable(
                "the database cannot be reached at the moment, so nothing was applied; try again shortly.",
                retry_after_ms=2000,
            )

    def load(self) -> bool:
        """Take up what an earlier run left under the home folder; False if there is nothing usable."""
        try:
            raw = self._sealer.open(self._file.read_text("ascii"), PURPOSE)
            self._view = View.load(raw)
        except FileNotFoundError:
            return False
        except (UnreadableSeal, OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the local snapshot is unreadable and was ignored", error=type(error).__name__)
            return False
        self._saved = self._view
        return True

    async def refresh(self) -> View:
        """Read the database now.

        Raises:
            CallError: the database failed; the old picture stays.
            StartError: this replica's secret key is not the one that sealed the signing keys.
        """
        began = time.monotonic()
        control = self._control.until(Deadline.after(READ_SECONDS), "snapshot")
        keys = Keys(control)
        view = View(
            ring=await self._vault.ring(keys),
            gateway=await keys.ensure_gateway(),
            tenants={tenant.id: tenant for tenant in await Tenants(control).all()},
            revoked=Revoked(await Revocations(control).current()),
        )
        self._view, self._read_at = view, began
        await self._save(view)
        return view

    async def run(self) -> None:
        """Refresh for ever; what fails or takes too long is tried again and logged once per outage."""
        failing = slow = False
        while True:
            try:
                await self.refresh()
            except (CallError, StartError) as error:
                if not failing:
                    log.warning("the snapshot could not be refreshed", reason=error.message)
                failing = True
            else:
                if failing:
                    log.info("the snapshot is refreshed again")
                failing = False
                if self.age > FRESH_SECONDS and not slow:
                    log.warning("the snapshot took too long to read; calls were refused", seconds=round(self.age, 1))
                slow = self.age > FRESH_SECONDS
            await asyncio.sleep(self._every)

    async def _save(self, view: View) -> None:
        if self._saved is not None and view.same_as(self._saved):
            return
        with contextlib.suppress(OSError):  # a full disk must not end verification; the next change tries again
            sealed = self._sealer.seal(view.dump(), PURPOSE).encode()
            await asyncio.get_running_loop().run_in_executor(_WRITER, write_private, self._file, sealed)
            self._saved = view

"""The opened parts of the resource server, and what runs in the background while they are open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from app.access.accounts import Accounts
from app.access.erasing import Erasing
from app.access.snapshot import Snapshot
from app.access.verify import Verifier
from app.context import Deadline
from app.errors import CallError
from app.oauth.sealing import Sealer
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.grants import GrantStore
from app.store.control.keys import Keys
from app.store.control.tokens import PersonalTokens
from app.store.database import Database
from app.store.session import ControlSession

__all__ = ["Access", "accounts_of", "erasing_of", "open_access"]

NOTE_USES_SECONDS: Final = 60.0
LAST_NOTE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Access:
    """What other rooms need of this one. ``vault`` has the key ring and the shared secrets."""

    sealer: Sealer
    vault: Vault
    snapshot: Snapshot
    verifier: Verifier
    accounts: Accounts


def accounts_of(settings: Settings, database: Database) -> Accounts:
    """The accounts alone, for a command that needs no snapshot.

    Raises:
        StartError: the secret key is unusable.
    """
    vault = Vault(Keys(database.control), Sealer.of(settings.oauth, settings.run.folder))
    return Accounts(database.control, vault, admin_tenant=settings.oauth.admin_tenant)


def erasing_of(settings: Settings, database: Database, *, alone: bool = False) -> Erasing:
    """What erases deleted tenants. ``alone``: no gateway serves from this database.

    Raises:
        StartError: the secret key is unusable.
    """
    vault = Vault(Keys(database.control), Sealer.of(settings.oauth, settings.run.folder))
    return Erasing(database, settings, vault, alone=alone)


@contextlib.asynccontextmanager
async def open_access(
    settings: Settings, database: Database, *, migrated: asyncio.Event | None = None
) -> AsyncIterator[Access]:
    """Open the room on a migrated database; one that is away is no failure.

    With ``migrated`` the database is left alone until that is set: what were written before would look foreign.

    Raises:
        StartError: the secret key is unusable, or not the one that sealed the stored keys.
    """
    home = settings.run.folder
    sealer = Sealer.of(settings.oauth, home)
    vault = Vault(Keys(database.control), sealer)
    snapshot = Snapshot(database.control, vault, sealer, home)
    snapshot.load()
    if migrated is None or migrated.is_set():
        with contextlib.suppress(CallError):
            await snapshot.refresh()
    verifier = Verifier(snapshot)
    accounts = Accounts(database.control, vault, admin_tenant=settings.oauth.admin_tenant)
    tasks = [
        asyncio.create_task(_keep_fresh(snapshot, migrated), name="snapshot"),
        asyncio.create_task(_note_uses(verifier, database), name="token uses"),
    ]
    try:
        yield Access(sealer, vault, snapshot, verifier, accounts)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _note(verifier, database.control.until(Deadline.after(LAST_NOTE_SECONDS), "token uses"))


async def _keep_fresh(snapshot: Snapshot, migrated: asyncio.Event | None) -> None:
    if migrated is not None:
        await migrated.wait()
    await snapshot.run()


async def _note_uses(verifier: Verifier, database: Database) -> None:
    while True:
        await asyncio.sleep(NOTE_USES_SECONDS)
        await _note(verifier, database.control)


async def _note(verifier: Verifier, control: ControlSession) -> None:
    uses = verifier.take_uses()
    with contextlib.suppress(CallError):  # a last use that is not noted harms nobody
        await PersonalTokens(control).note_use(uses)
        await GrantStore(control).note_use(uses)

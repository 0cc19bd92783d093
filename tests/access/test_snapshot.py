from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.access.accounts import Accounts
from app.access.rules import set_limits, set_single_valued
from app.access.snapshot import SNAPSHOT_FILE, Snapshot, SnapshotMissing
from app.access.verify import Verifier
from app.errors import DatabaseUnavailable, OAuthError, StartError
from app.oauth.sealing import Sealer
from app.oauth.vault import Vault
from app.store.control.keys import Keys
from app.store.control.revocations import RevocationKind
from app.store.database import Database
from tests.access.conftest import Member
from tests.access.test_verify import eventually
from tests.identity import ADDRESS, fresh_name, sealer_of_tests, snapshot_of


@contextlib.contextmanager
def shared_threads_taken() -> Iterator[None]:
    """No thread of the event loop's own pool is free inside the block."""
    busy, done = ThreadPoolExecutor(1), threading.Event()
    loop = asyncio.get_running_loop()
    busy.submit(done.wait)
    loop.set_default_executor(busy)
    try:
        yield
    finally:
        done.set()
        loop.set_default_executor(ThreadPoolExecutor())
        busy.shutdown()


@pytest.fixture
async def away() -> object:
    """A database that does not answer."""
    opened = await Database.connect("bolt://127.0.0.1:9", "neo4j", "whatever", "neo4j", pool_size=2)
    yield opened
    await opened.close()


async def test_after_a_restart_without_the_database_tokens_still_verify_but_calls_do_not_pass(
    snapshot: Snapshot, member: Member, away: Database, tmp_path: Path
) -> None:
    restarted = snapshot_of(away, tmp_path)
    assert restarted.load()
    with pytest.raises(DatabaseUnavailable):
        await restarted.refresh()

    assert Verifier(restarted).verify(member.token, ADDRESS).subject == member.user.id
    with pytest.raises(DatabaseUnavailable) as refusal:
        restarted.require_fresh()
    assert refusal.value.retryable
    assert refusal.value.outcome == "not_applied"
    assert restarted.view.ring.document() == snapshot.view.ring.document()


async def test_a_revocation_outlives_the_restart(
    snapshot: Snapshot, member: Member, accounts: Accounts, away: Database, tmp_path: Path
) -> None:
    await accounts.revoke_token(member.token_id)
    await snapshot.refresh()
    restarted = snapshot_of(away, tmp_path)
    assert restarted.load()
    assert restarted.view.revoked.names(RevocationKind.TOKEN, member.token_id)
    with pytest.raises(OAuthError):
        Verifier(restarted).verify(member.token, ADDRESS)


async def test_a_restored_snapshot_can_verify_and_never_sign(
    snapshot: Snapshot, away: Database, tmp_path: Path
) -> None:
    snapshot.view.ring.sign("at+jwt", {})
    restarted = snapshot_of(away, tmp_path)
    assert restarted.load()
    with pytest.raises(DatabaseUnavailable):
        restarted.view.ring.sign("at+jwt", {})


async def test_it_is_refreshed_and_kept_while_all_shared_threads_are_taken(
    snapshot: Snapshot, accounts: Accounts, tmp_path: Path
) -> None:
    """Whoever keeps them busy would stop every call of every tenant."""
    before = (tmp_path / SNAPSHOT_FILE).read_text()
    await accounts.create_tenant(fresh_name("tenant"))
    with shared_threads_taken():
        await asyncio.wait_for(snapshot.refresh(), 10)
    assert (tmp_path / SNAPSHOT_FILE).read_text() != before


async def test_the_file_is_private_and_holds_nothing_readable(
    snapshot: Snapshot, member: Member, tmp_path: Path
) -> None:
    file = tmp_path / SNAPSHOT_FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert member.tenant.name not in file.read_text()
    assert not any(name.startswith(".") for name in os.listdir(tmp_path))


async def test_what_was_set_for_one_tenant_alone_outlives_the_restart_and_an_unchanged_picture_is_not_written_again(
    snapshot: Snapshot, member: Member, accounts: Accounts, away: Database, tmp_path: Path
) -> None:
    rules = {"burst": 7.0, "quota_entities": 9.0}
    await set_limits(accounts, member.tenant.name, rules)
    await set_single_valued(accounts, member.tenant.name, ["LIVES_IN"])
    await snapshot.refresh()
    written = (tmp_path / SNAPSHOT_FILE).read_bytes()
    assert (await snapshot.refresh()).same_as(snapshot.view)
    restarted = snapshot_of(away, tmp_path)
    assert restarted.load()
    held = Verifier(restarted).verify(member.token, ADDRESS).rules
    assert (held.burst, held.quota_entities, held.single_valued) == (7, 9, frozenset({"LIVES_IN"}))
    assert restarted.view.same_as(snapshot.view)
    assert (tmp_path / SNAPSHOT_FILE).read_bytes() == written  # sealing draws a nonce: written anew it would differ


async def test_a_tampered_file_is_ignored(snapshot: Snapshot, database: Database, tmp_path: Path) -> None:
    file = tmp_path / SNAPSHOT_FILE
    good = file.read_text()
    middle = len(good) // 2
    for bad in (good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :], good[:-8], "", "{}", "é"):
        file.write_text(bad)
        other = snapshot_of(database, tmp_path)
        assert not other.load()
        with pytest.raises(SnapshotMissing):
            _ = other.view


async def test_a_file_sealed_for_another_purpose_is_ignored(
    snapshot: Snapshot, database: Database, tmp_path: Path
) -> None:
    sealer = sealer_of_tests(tmp_path)
    (tmp_path / SNAPSHOT_FILE).write_text(sealer.seal(snapshot.view.dump(), "something else"))
    assert not snapshot_of(database, tmp_path).load()


async def test_a_fresh_snapshot_lets_calls_pass_until_it_is_five_seconds_old(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.require_fresh()
    assert snapshot.age < 5
    snapshot._read_at -= 5.1
    with pytest.raises(DatabaseUnavailable):
        snapshot.require_fresh()


async def test_the_background_refresh_survives_an_outage(away: Database, tmp_path: Path) -> None:
    waiting = snapshot_of(away, tmp_path, every=0.01)
    task = asyncio.create_task(waiting.run())
    try:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), 0.2)
        with pytest.raises(SnapshotMissing):
            _ = waiting.view
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_the_background_refresh_brings_a_new_tenant_within_five_seconds(
    database: Database, accounts: Accounts, tmp_path: Path
) -> None:
    running = snapshot_of(database, tmp_path)
    await running.refresh()
    task = asyncio.create_task(running.run())
    try:
        tenant = await accounts.create_tenant(fresh_name("late"))
        await eventually(lambda: tenant.id in running.view.tenants, seconds=5)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_replica_with_another_secret_key_is_told_so(
    database: Database, snapshot: Snapshot, tmp_path: Path
) -> None:
    stranger = Sealer(bytes(32))
    vault = Vault(Keys(database.control), stranger)
    with pytest.raises(StartError, match="GRAPHKEEP_SECRET_KEY"):
        await Snapshot(database.control, vault, stranger, tmp_path / "other").refresh()

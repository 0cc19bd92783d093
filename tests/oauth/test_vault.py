from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from app.errors import StartError
from app.oauth.sealing import Sealer, UnreadableSeal
from app.oauth.vault import ACTIVATION_SECONDS, KEY_PURPOSE, Vault
from app.store.control.keys import Keys, StoredKey
from app.store.database import Database
from tests.identity import fresh_name, vault_of


async def test_replicas_that_start_at_once_use_the_same_keys(database: Database, tmp_path: Path) -> None:
    rings = await asyncio.gather(*(vault_of(database, tmp_path).ring() for _ in range(4)))
    assert len({ring.kids for ring in rings}) == 1
    token = rings[0].sign("at+jwt", {})
    for ring in rings:
        ring.verify(token)


async def test_the_ring_is_the_same_object_until_something_changes(database: Database, tmp_path: Path) -> None:
    vault = vault_of(database, tmp_path)
    ring = await vault.ring()
    assert await vault.ring() is ring
    rotated = await vault.rotate()
    assert rotated is not ring
    assert len(rotated.kids) == len(ring.kids) + 1


async def test_after_a_rotation_old_tokens_verify_and_the_new_key_signs_once_everyone_has_it(
    database: Database, tmp_path: Path
) -> None:
    vault, replica = vault_of(database, tmp_path), vault_of(database, tmp_path)
    old = await vault.ring()
    before = old.sign("at+jwt", {})
    ring = await vault.rotate()

    (fresh,) = ring.kids - old.kids
    later = time.time() + ACTIVATION_SECONDS + 1
    assert ring.current(later).kid == fresh
    assert ring.current().kid in old.kids
    seen = await replica.ring()
    seen.verify(before)
    seen.verify(ring.sign("at+jwt", {}, now=later))


async def test_rotating_at_once_leaves_every_replica_with_the_same_keys(database: Database, tmp_path: Path) -> None:
    vaults = [vault_of(database, tmp_path) for _ in range(3)]
    before = await vaults[0].ring()
    await asyncio.gather(*(vault.rotate() for vault in vaults))
    rings = [await vault.ring() for vault in vaults]
    assert len({ring.kids for ring in rings}) == 1
    assert before.kids < rings[0].kids


async def test_a_secret_is_made_once_for_all_replicas(database: Database, tmp_path: Path) -> None:
    name = fresh_name("secret")
    values = await asyncio.gather(*(vault_of(database, tmp_path).secret(name) for _ in range(4)))
    assert len(set(values)) == 1
    assert len(values[0]) == 32
    assert await vault_of(database, tmp_path).secret(fresh_name("secret")) != values[0]


async def test_another_secret_key_opens_nothing_and_says_what_to_do(database: Database, tmp_path: Path) -> None:
    await vault_of(database, tmp_path).ring()
    await vault_of(database, tmp_path).secret("shared")
    stranger = Vault(Keys(database.control), Sealer(bytes(32)))
    with pytest.raises(StartError, match="copy the file"):
        await stranger.ring()
    with pytest.raises(StartError, match="copy the file"):
        await stranger.secret("shared")
    before = await Keys(database.control).all()
    with pytest.raises(StartError, match="copy the file"):
        await stranger.rotate()
    assert not _strangers(before, await Keys(database.control).all())


def _strangers(before: list[StoredKey], after: list[StoredKey]) -> list[str]:
    """Keys that the stranger sealed: tests beside this one may have added others."""
    known = {each.kid for each in before}
    return [key.kid for key in after if key.kid not in known and _opens(key, Sealer(bytes(32)))]


def _opens(key: StoredKey, sealer: Sealer) -> bool:
    try:
        sealer.open(key.sealed, KEY_PURPOSE)
    except UnreadableSeal:
        return False
    return True


async def test_nothing_private_is_stored_in_the_clear(database: Database, tmp_path: Path) -> None:
    await vault_of(database, tmp_path).ring()
    for key in await Keys(database.control).all():
        assert set(key.public) == {"kty", "n", "e", "kid", "use", "alg"}
        assert "kty" not in key.sealed

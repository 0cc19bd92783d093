from __future__ import annotations

import time

import pytest

from app.oauth.secrets import digest
from app.store.control.revocations import Revocation, RevocationKind, Revocations, client_key
from app.store.database import Database
from app.store.statement import statement
from tests.identity import fresh_name

KEYS = statement("tests.keys_of_revocations", "MATCH (r:_Revocation) RETURN r.key AS key", control=True)


@pytest.fixture
def revocations(database: Database) -> Revocations:
    return Revocations(database.control)


async def test_the_later_of_two_revocations_stands(revocations: Revocations) -> None:
    key, now = fresh_name("us"), int(time.time() * 1000)
    for before, expires in ((now, now + 60_000), (now - 5000, now + 90_000)):
        await revocations.revoke(Revocation(RevocationKind.USER, key, before, expires))
    (found,) = [each for each in await revocations.current() if each.key == key]
    assert (found.before, found.expires) == (now, now + 90_000)


async def test_what_no_living_token_can_need_is_left_out_and_swept(
    revocations: Revocations, database: Database
) -> None:
    gone, stays = fresh_name("gr"), fresh_name("gr")
    now = int(time.time() * 1000)
    await revocations.revoke(Revocation(RevocationKind.GRANT, gone, now, now - 1))
    await revocations.revoke(Revocation.of_grant(stays))
    keys = {each.key for each in await revocations.current()}
    assert stays in keys
    assert gone not in keys
    await revocations.sweep(time.time())
    left = await database.control.read(KEYS)
    assert {row["key"] for row in left} >= {stays}
    assert gone not in {row["key"] for row in left}


async def test_a_client_is_known_by_the_hash_that_the_client_store_uses(revocations: Revocations) -> None:
    client = "c" * 1024
    await revocations.revoke(Revocation.of_client(digest(client)))
    keys = {each.key for each in await revocations.current()}
    assert client_key(client) in keys
    assert client_key(client + "x") not in keys

from __future__ import annotations

from pathlib import Path

import pytest

from app.access.service import accounts_of, open_access
from app.access.snapshot import SnapshotMissing
from app.settings import RunSettings, Settings
from app.store.database import Database
from tests.access.conftest import Member
from tests.access.test_verify import eventually
from tests.identity import ADDRESS, settings_of_tests


def settings_in(home: Path) -> Settings:
    return Settings(run=RunSettings(home=home), oauth=settings_of_tests())


async def test_the_room_opens_ready_and_notes_uses_when_it_closes(
    database: Database, member: Member, tmp_path: Path
) -> None:
    settings = settings_in(tmp_path)
    async with open_access(settings, database) as access:
        access.snapshot.require_fresh()
        assert access.verifier.verify(member.token, ADDRESS).subject == member.user.id
        first = access.snapshot.view
        await eventually(lambda: access.snapshot.view is not first, seconds=5)
    (record,) = await accounts_of(settings, database).list_tokens(member.user.email)
    assert record.used is not None


async def test_a_database_that_is_away_at_the_start_is_no_failure(tmp_path: Path) -> None:
    away = await Database.connect("bolt://127.0.0.1:9", "neo4j", "whatever", "neo4j", pool_size=2)
    async with open_access(settings_in(tmp_path), away) as access:
        with pytest.raises(SnapshotMissing):
            _ = access.snapshot.view
    await away.close()

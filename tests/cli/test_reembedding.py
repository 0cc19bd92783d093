"""``graphkeep reembed``: says what it would do, does it when told to, and then has nothing to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from app.cli import reembedding
from app.cli.doctor import _vectors as examined
from app.embedding.local import PACKAGED
from app.settings import EmbeddingSettings, RunSettings, Settings, StoreSettings
from app.store.control.embedding import EmbeddingDecision, decide_anew
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from app.store.schema import ensure_vector_index
from app.store.statement import statement
from tests.conftest import Server
from tests.identity import fresh_name

UNDECIDE = statement("test.command_undecide", "MATCH (e:_Embedding) DELETE e", writes=True, control=True)
ONE = statement(
    "test.one_embedded",
    """
    CREATE (n:Entity {tenant: $of, layer: '', id: 'ann', name: 'Ann', type: 'Person', embedding_of: 'old|384|1',
                      embedding: [x IN range(1, 384) | 0.1]})
    """,
    writes=True,
    control=True,
)


@pytest_asyncio.fixture
async def tenant(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenant]:
    """The only tenant that the command finds, with one entity that another model embedded."""
    await ensure_vector_index(database, 384)
    await decide_anew(database.control, EmbeddingDecision("old", "old", 384, "1"))
    made = await Tenants(database.control).create(fresh_name("embedded"))
    await database.control.write(lambda writing: writing.run(ONE, of=made.data))
    monkeypatch.setattr(Tenants, "all", lambda self: _only(made))
    yield made
    await database.control.write(lambda writing: writing.run(UNDECIDE))


async def _only(tenant: Tenant) -> list[Tenant]:
    return [tenant]


async def test_another_model_takes_over_only_when_told_to(
    database: Database, neo4j_server: Server, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.memory.analysis.anew._NOTICED_SECONDS", 0.0)
    settings = Settings(
        run=RunSettings(home=tmp_path),
        store=StoreSettings(neo4j_uri=neo4j_server.uri, neo4j_password=SecretStr(neo4j_server.password)),
        embedding=EmbeddingSettings(embedding="offline"),
    )
    asked = await reembedding._run(settings, yes=False)
    assert (asked["applied"], asked["changes"], asked["left"]) == (False, True, 1)
    assert "--yes" in reembedding._words(asked)
    assert "by old (384 dimensions, recipe 1)" in reembedding._words(asked)
    assert (await examined(database)).ok
    done = await reembedding._run(settings, yes=True)
    assert (done["from"], done["to"]) == ("old|384|1", f"{PACKAGED}|384|1")
    assert (done["applied"], done["embedded"], done["left"]) == (True, 1, 0)
    assert "restart it" in reembedding._words(done)
    assert "|" not in reembedding._words(asked) + reembedding._words(done)
    again = await reembedding._run(settings, yes=False)
    assert (again["applied"], again["changes"], again["embedded"], again["left"]) == (True, False, 0, 0)


async def test_the_doctor_says_what_to_do_about_entities_without_a_vector(database: Database, tenant: Tenant) -> None:
    await decide_anew(database.control, EmbeddingDecision("offline", PACKAGED, 384, "1"))
    found = await examined(database)
    assert (found.ok, found.warning) == (False, True)
    assert "1 of 1" in found.detail
    assert "graphkeep reembed" in found.remedy

"""A backup read back: the same records, verified, all at once or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path

import orjson
import pytest

from app.embedding.model import EmbeddingIdentity
from app.errors import Conflict, InvalidInput, QuotaExceeded
from app.memory.moving.exchange import erase_leftovers
from app.memory.moving.restore import held, restore
from app.memory.service import MemoryService
from app.store.control.embedding import EmbeddingDecision, decision
from app.store.control.moves import Moves
from app.store.control.queue import item_key
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.moving.erase import counted
from app.store.moving.format import Seal
from app.store.statement import statement
from tests.memory.conftest import Agent, Packaged, settings
from tests.memory.moving.conftest import LAYERS, lines_of, records_of
from tests.memory.moving.test_export import exported, folder_of

New = Callable[[], Awaitable[Tenant]]
Backup = Callable[[str], Awaitable[Path]]


DECIDE_ANEW = statement(
    "tests.decide_embedding_anew",
    "MERGE (e:_Embedding {id: 'entity'}) SET e += $decision RETURN e.id AS id",
    writes=True,
    control=True,
)
FORGET_EMBEDDING = statement("tests.undecide_embedding", "MATCH (e:_Embedding) DELETE e", writes=True, control=True)


@asynccontextmanager
async def decided(database: Database, by: EmbeddingIdentity) -> AsyncIterator[None]:
    """The database's vectors are made by ``by`` meanwhile, whatever was decided before."""
    before = await decision(database.control)
    to = EmbeddingDecision("offline", by.model, by.dimension, by.recipe)
    await database.control.write(lambda writing: writing.run(DECIDE_ANEW, decision=asdict(to)))
    try:
        yield
    finally:
        if before is None:
            await database.control.write(lambda writing: writing.run(FORGET_EMBEDDING))
        else:
            await database.control.write(lambda writing: writing.run(DECIDE_ANEW, decision=asdict(before)))


async def now(database: Database, tenant: Tenant) -> Tenant:
    found = await Tenants(database.control).by_id(tenant.id)
    assert found is not None
    return found


@pytest.mark.shows("graph_export", 12)
async def test_what_is_restored_is_what_was_backed_up(
    database: Database, service: MemoryService, learned: str, new_tenant: New, backup: Backup
) -> None:
    """W-M29: no relation crosses a tenant, whatever both of them hold."""
    target = await new_tenant()
    answer = await restore(database, settings(), target, await backup(learned), alone=True)
    moved = await now(database, target)
    assert moved.data != target.data
    assert moved.state is TenantState.ACTIVE
    assert await records_of(database, moved.data) == await records_of(database, learned)
    assert answer.layers == LAYERS
    found = await Agent(service, moved.data, LAYERS, None).entities(search="countess")
    assert {each["name"] for each in found["entities"]} == {"Ada", "Countess"}


async def test_a_restore_into_a_memory_is_refused_unless_it_may_replace_it(
    database: Database, service: MemoryService, learned: str, new_tenant: New, backup: Backup
) -> None:
    target = await new_tenant()
    await Agent(service, target.data, ("",), "").relate("Old", "KNOWS", "Thing")
    path = await backup(learned)
    with pytest.raises(Conflict, match="holds a memory already"):
        await restore(database, settings(), target, path, alone=True)
    await restore(database, settings(), target, path, alone=True, replace=True)
    moved = await now(database, target)
    assert await records_of(database, moved.data) == await records_of(database, learned)
    assert await counted(database.control, target.data) == {}


@pytest.mark.shows("graph_export", 14)
@pytest.mark.parametrize(("packaged", "lost"), [(True, 0), (False, 2)])
async def test_vectors_of_the_model_in_use_come_along(
    database: Database,
    service: MemoryService,
    embedder: Packaged,
    tenant: str,
    new_tenant: New,
    packaged: bool,
    lost: int,
) -> None:
    made_by = embedder.identity
    assert made_by is not None
    in_use = made_by if packaged else replace(made_by, model="another")
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    async with decided(database, made_by):
        made = await exported(agent, vectors=True)
    (path,) = folder_of(tenant).glob(f"*/{made['backup_file']}")
    meta = orjson.loads(path.read_bytes().splitlines()[0])
    assert (made["vectors"], meta["vectors"], meta["embedding"]["dimension"]) == (True, True, made_by.dimension)
    target = await new_tenant()
    async with decided(database, in_use):
        answer = await restore(database, settings(), target, path, alone=True)
    assert answer.without_vector == lost
    written = await records_of(database, (await now(database, target)).data, vectors=True)
    assert sum("embedding" in each for each in written if each["record"] == "node") == 2 - lost


async def test_with_new_ids_an_old_id_leads_on_as_an_alias(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    seal = Seal()
    node = {"record": "node", "type": "Person", "layer": "tenant", "confidence": 0.5}
    lines = [
        seal.line({"record": "meta", "format": "graphkeep", "version": 1, "layers": ["tenant"]}),
        seal.line({**node, "id": "old-ada", "name": "Ada Lovelace"}),
        seal.line({**node, "id": "grace", "name": "Grace"}),
        seal.line(
            {
                "record": "edge",
                "layer": "tenant",
                "from_id": "old-ada",
                "relation": "KNOWS",
                "to_id": "grace",
                "weight": 0.5,
                "ingested_at": "2026-01-01T00:00:00Z",
            }
        ),
        seal.end(),
    ]
    path = tmp_path / "old ids.jsonl"
    path.write_bytes(b"".join(lines))
    target = await new_tenant()
    await restore(database, settings(), target, path, ids="new", alone=True)
    agent = Agent(service, (await now(database, target)).data, ("",), None)
    assert (await agent.entity("Ada Lovelace"))["id"] == "ada-lovelace"
    assert (await agent.entity("old-ada"))["id"] == "ada-lovelace"
    assert [*await agent.edges("Grace")] == [("ada-lovelace", "KNOWS", "grace")]


def _cut(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _half(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4][:20]]


def _changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[3].replace(b'"name":"', b'"name":"x'), *lines[4:]]


def _lost(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], *lines[4:]]


def _longer(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[1]]


def _newer(lines: list[bytes]) -> list[bytes]:
    return [Seal().line(orjson.loads(lines[0]) | {"version": 9}), *lines[1:]]


def _foreign(lines: list[bytes]) -> list[bytes]:
    return [b'{"type":"entity","name":"x"}\n', *lines[1:]]


@pytest.mark.parametrize(
    ("spoilt", "line"),
    [(_cut, "last"), (_half, 5), (_changed, 4), (_lost, 4), (_longer, "after"), (_newer, 1), (_foreign, 1)],
)
async def test_a_spoilt_file_is_refused_by_line_before_anything_is_written(
    database: Database,
    service: MemoryService,
    learned: str,
    new_tenant: New,
    tmp_path: Path,
    spoilt: Callable[[list[bytes]], list[bytes]],
    line: int | str,
) -> None:
    whole = await lines_of(database, learned)
    number = {"last": len(whole), "after": len(whole) + 1}.get(str(line), line)
    path = tmp_path / "spoilt.jsonl"
    path.write_bytes(b"".join(spoilt(whole)))
    target = await new_tenant()
    with pytest.raises(InvalidInput, match=rf"\Aline {number}:"):
        await restore(database, settings(), target, path, alone=True)
    assert await now(database, target) == target


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"props": {"tenant": "x"}}, "may not be set"),
        ({"props": {"a b": 1}}, "may not be set"),
        ({"type": "X`) MATCH (n"}, "an entity type"),
        ({"confidence": 7}, "from 0 to 1"),
        ({"last_seen": "yesterday"}, "wrong form"),
        ({"layer": "global"}, "reserved word"),
        ({"name": None}, "name is a text"),
    ],
)
async def test_a_record_that_breaks_a_rule_is_named_and_nothing_is_left(
    database: Database, new_tenant: New, tmp_path: Path, record: dict[str, object], words: str
) -> None:
    seal = Seal()
    node = {"record": "node", "id": "ada", "name": "Ada", "type": "Person", "layer": "tenant", "confidence": 0.5}
    head = seal.line({"record": "meta", "format": "graphkeep", "version": 1, "layers": []})
    path = tmp_path / "made up.jsonl"
    path.write_bytes(head + seal.line(node) + seal.line(node | record) + seal.end())
    target = await new_tenant()
    with pytest.raises(InvalidInput, match=rf"\Aline 3: .*{words}"):
        await restore(database, settings(), target, path, alone=True)
    assert await now(database, target) == target


async def test_a_record_that_comes_twice_is_no_whole_file(database: Database, new_tenant: New, tmp_path: Path) -> None:
    seal = Seal()
    node = {"record": "node", "id": "ada", "name": "Ada", "type": "Person", "layer": "tenant", "confidence": 0.5}
    head = seal.line({"record": "meta", "format": "graphkeep", "version": 1, "layers": []})
    path = tmp_path / "twice.jsonl"
    path.write_bytes(head + seal.line(node) + seal.line(node) + seal.end())
    target = await new_tenant()
    with pytest.raises(InvalidInput, match="twice"):
        await restore(database, settings(), target, path, alone=True)
    assert any((await held(database, target)).values()) is False


async def test_a_file_beyond_the_quota_is_refused(
    database: Database, service: MemoryService, learned: str, new_tenant: New, backup: Backup
) -> None:
    with pytest.raises(QuotaExceeded, match="7 entities and the tenant may hold 2"):
        await restore(database, settings(quota_entities=2), await new_tenant(), await backup(learned), alone=True)


async def test_what_belongs_to_the_old_data_id_ends_and_what_waits_comes_along(
    database: Database, service: MemoryService, learned: str, new_tenant: New, backup: Backup, tmp_path: Path
) -> None:
    """Partition rule 22: cursors and keys end; files, queued documents and watermarks go with the tenant."""
    target = await new_tenant()
    mine = settings()
    folder = mine.run.tenant_folder(target.data) / "ingest"
    folder.mkdir(parents=True)
    (folder / "waiting.md").write_text("# waiting")
    async with database.driver.session() as session:
        waits = "CREATE (i:_IngestItem {id: $of, key: $of, tenant: $of, layer: '', name: 'waiting.md', sha256: 'x'})"
        await (await session.run(waits, of=target.data)).consume()
    before = Agent(service, target.data, LAYERS, "work")
    await before.batch([{"name": f"thing {number}", "type": "Concept"} for number in range(3)])
    page = await before.entities(limit=1)
    await restore(database, mine, target, await backup(learned), alone=True, replace=True)
    data = (await now(database, target)).data
    with pytest.raises(InvalidInput, match="expired"):
        await Agent(service, data, LAYERS, None).entities(limit=1, cursor=page["next_cursor"])
    assert (mine.run.tenant_folder(data) / "ingest" / "waiting.md").read_text() == "# waiting"
    async with database.driver.session() as session:
        item = "MATCH (i:_IngestItem {id: $of}) RETURN i.tenant, i.key"
        found = await (await session.run(item, of=target.data)).values()
        await (await session.run("MATCH (i:_IngestItem {id: $of}) DELETE i", of=target.data)).consume()
    assert found == [[data, item_key(data, "", "waiting.md", "x")]]


async def test_two_restores_at_once_do_not_mix(database: Database, new_tenant: New) -> None:
    target = await new_tenant()
    moves = Moves(database.control)
    move = await moves.begin(target.id)
    with pytest.raises(Conflict, match="already"):
        await moves.begin(target.id)
    await moves.freeze(move)
    assert (await now(database, target)).state is TenantState.MOVING
    await moves.give_up(move.id)
    assert (await now(database, target)).state is TenantState.ACTIVE
    with pytest.raises(Conflict, match="given up"):
        await moves.flip(move, (), actor="test", action="tenant.restore")
    await erase_leftovers(database, settings(), abandoned_after=-1)

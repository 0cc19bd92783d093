"""The commands that move memory, on a real database."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.administration import Administration
from app.cli.movement import Movement, compacted
from app.errors import Conflict, DatabaseUnavailable, InternalError, InvalidInput, NotFound, StartError
from app.settings import OAuthSettings, RunSettings, Settings
from app.store.control.tenants import Tenant
from app.store.database import Database
from app.store.moving.format import Summary, verified
from tests.identity import SECRET_KEY, fresh_name

REFERENCE = (
    '{"type":"entity","name":"Ada","entityType":"person","observations":["Likes tea"]}\n'
    '{"type":"entity","name":"Engine","entityType":"machine","observations":[]}\n'
    '{"type":"relation","from":"Ada","to":"Engine","relationType":"works on"}\n'
)

FOREIGN = "CREATE (:Entity {tenant: $of, layer: '', id: 'ada', name: 'Ada', type: 'Person', `a b`: 1})"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(run=RunSettings(home=tmp_path), oauth=OAuthSettings(secret_key=SecretStr(SECRET_KEY)))


@pytest.fixture
def administration(database: Database, settings: Settings) -> Administration:
    return Administration(database, settings, alone=True)


@pytest.fixture
def movement(database: Database, settings: Settings) -> Movement:
    return Movement(database, settings, alone=True)


def unshown(done: int, total: int) -> None:
    return None


async def test_a_memory_is_imported_backed_up_restored_elsewhere_and_erased(
    administration: Administration, movement: Movement, tmp_path: Path
) -> None:
    first, second = fresh_name("first"), fresh_name("second")
    await administration.add_tenant(first)
    memory = tmp_path / "memory.jsonl"
    memory.write_text(REFERENCE)
    took = await movement.take_over(memory, "mcp-memory", first, layer="tenant", skip_bad=False, shown=unshown)
    assert (took["created_entities"], took["created_relations"], took["without_vector"]) == (3, 2, 3)
    (made,) = (await movement.back_up([first], tmp_path / "backups", vectors=True, shown=unshown))["backups"]
    assert (made["nodes"], made["edges"]) == (3, 2)
    assert _mode(Path(made["file"])) == 0o600
    how = {"replace": False, "ids": "keep", "shown": unshown}
    restored = await movement.restore(Path(made["file"]), second, into_new=True, **how)
    assert (restored["nodes"], restored["edges"]) == (3, 2)
    with pytest.raises(Conflict, match="holds a memory already"):
        await movement.restore(Path(made["file"]), second, into_new=False, **how)
    erased = await administration.delete_tenant(second, second, shown=print)
    assert (erased["certificate"]["erased"]["Entity"], erased["certificate"]["left"]) == (3, {})


async def test_a_tenant_that_cannot_be_backed_up_keeps_no_other_from_it(
    administration: Administration, database: Database, settings: Settings, tmp_path: Path
) -> None:
    names = [fresh_name("night") for _ in range(3)]
    tenants = [await administration.add_tenant(name) for name in names]
    assert len(tenants) == 3
    movement = Movement(database, settings, alone=True)
    some = [tenant for tenant in await movement._accounts.tenants.all() if tenant.name in names]

    async def every() -> list[Tenant]:
        return some

    movement._accounts.tenants.all = every  # type: ignore[method-assign]  # the other tests' tenants are left alone
    async with database.driver.session(database=database.name) as session:
        await (await session.run(FOREIGN, of=some[0].data)).consume()
    found = await movement.back_up(None, tmp_path, vectors=False, shown=unshown)
    assert [each["tenant"] for each in found["backups"]] == [tenant.name for tenant in some[1:]]
    ((failed, why),) = [each.values() for each in found["failed"]]
    assert failed == some[0].name
    assert "no restore would take this backup" in why
    with pytest.raises(InternalError):
        await movement.back_up([failed], tmp_path, vectors=False, shown=unshown)


async def test_the_source_systems_export_is_restored_like_a_backup(
    administration: Administration, movement: Movement, tmp_path: Path
) -> None:
    name, file = fresh_name("came over"), tmp_path / "backup-2026.jsonl"
    ada, engine = ({"record": "node", "id": id_, "name": id_.title(), "type": "Person"} for id_ in ("ada", "engine"))
    edge = {"record": "edge", "from_id": "ada", "to_id": "engine", "relation": "USES", "weight": 0.5}
    lines = [{"record": "meta", "tenant_id": "other", "node_count": 2, "edge_count": 1}, ada, engine, edge]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    how = {"ids": "keep", "shown": unshown}
    restored = await movement.restore(file, name, into_new=True, replace=False, **how)
    assert restored == {"tenant": name, "nodes": 2, "aliases": 0, "edges": 1, "without_vector": 2}
    with pytest.raises(Conflict, match="holds a memory already"):
        await movement.restore(file, name, into_new=False, replace=False, **how)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines[:2]))
    restored = await movement.restore(file, name, into_new=False, replace=True, **how)
    assert (restored["nodes"], restored["edges"]) == (1, 0), "nothing of what was there is left"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:2], edge]))
    with pytest.raises(InvalidInput, match="line 3"):
        await movement.restore(file, name, into_new=False, replace=True, **how)


async def test_an_external_database_is_its_operators_to_rebuild(settings: Settings) -> None:
    external = settings.having(store=settings.store.model_copy(update={"neo4j_uri": "bolt://db.example.org"}))
    with pytest.raises(StartError, match="neo4j-admin database copy"):
        await compacted(external, lambda line: None, lambda word, done, total: None)


async def test_a_tenant_made_for_a_restore_that_fails_is_gone_again(
    administration: Administration, movement: Movement, tmp_path: Path
) -> None:
    name, file = fresh_name("never"), tmp_path / "no backup.jsonl"
    how = {"into_new": True, "replace": False, "ids": "keep", "shown": unshown}
    with pytest.raises(InvalidInput, match="cannot be read"):
        await movement.restore(file, name, **how)
    file.write_text("hello\n")
    with pytest.raises(InvalidInput, match="line 1"):
        await movement.restore(file, name, **how)
    with pytest.raises(NotFound):
        await administration.layers(name)


async def test_the_newest_whole_backups_of_a_folder_are_restored_into_new_or_empty_tenants(
    administration: Administration, movement: Movement, tmp_path: Path
) -> None:
    lost, held, empty = (fresh_name(kind) for kind in ("lost and found", "held", "empty"))
    folder, memory = tmp_path / "backups", tmp_path / "memory.jsonl"
    memory.write_text(REFERENCE)
    for name in (lost, held, empty):
        await administration.add_tenant(name)
    for name in (lost, held):
        await movement.take_over(memory, "mcp-memory", name, layer="tenant", skip_bad=False, shown=unshown)
    await movement.back_up([lost, held, empty], folder, vectors=False, shown=unshown)
    await administration.rename_tenant(lost, f"{lost} no more")
    (good,) = folder.glob("lost+and+found-*.jsonl")
    stem, moment = good.name[:-25], good.name[-25:]
    (folder / f"{stem}3{moment[1:]}").write_text("cut short")
    (folder / f"{stem[: stem.index('-tn-')]}-tn-00-1{moment[1:]}").write_bytes(good.read_bytes())
    (folder / "export.jsonl").write_text("no backup's name")
    found = await movement.restore_all(folder, ids="keep", shown=unshown)
    assert [(each["tenant"], each["nodes"]) for each in found["restored"]] == [(lost, 3), (empty, 0)]
    assert {each["tenant"]: each["error"].split(".")[0] for each in found["failed"]} == {
        held: f"the tenant {held!r} holds a memory already",
        lost: "a tenant of this name was backed up later, by another id",
    }
    ((passed, why),) = [(each["tenant"], each["error"]) for each in found["passed_over"]]
    assert (passed, why.startswith("line 1:")) == (lost, True)
    for nothing in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InvalidInput, match="Nothing was changed"):
            await movement.restore_all(nothing, ids="keep", shown=unshown)


async def test_a_file_that_the_disk_refuses_keeps_no_other_from_it_and_a_database_that_is_away_ends_it(
    administration: Administration, movement: Movement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn, cut, whole = (fresh_name(kind) for kind in ("torn", "cut", "whole"))
    folder = tmp_path / "backups"
    for name in (torn, cut, whole):
        await administration.add_tenant(name)
    await movement.back_up([torn, cut, whole], folder, vectors=False, shown=unshown)

    def refused(path: Path) -> bool:
        if path.name.startswith(cut):
            raise OSError(errno.EIO, "Input/output error")
        return False

    def unread(path: Path) -> Summary:
        if path.name.startswith(torn):
            raise OSError(errno.EIO, "Input/output error")
        return verified(path)

    monkeypatch.setattr("app.cli.movement.is_graph_memory", refused)
    monkeypatch.setattr("app.cli.movement.verified", unread)
    found = await movement.restore_all(folder, ids="keep", shown=unshown)
    assert [each["tenant"] for each in found["restored"]] == [whole]
    assert {each["tenant"]: each["error"].split(".")[0] for each in found["failed"]} == {
        torn: "none of its backups is whole",
        cut: "the disk failed: Input/output error",
    }
    ((passed, why),) = [(each["tenant"], each["error"]) for each in found["passed_over"]]
    assert (passed, why.split(".")[0]) == (torn, "the file cannot be read: Input/output error")

    async def away() -> None:
        raise DatabaseUnavailable("the database cannot be reached; nothing was applied.")

    monkeypatch.setattr(movement, "_swept", away)
    with pytest.raises(DatabaseUnavailable):
        await movement.restore_all(folder, ids="keep", shown=unshown)


async def test_what_cannot_be_written_or_found_is_said(
    administration: Administration, movement: Movement, tmp_path: Path
) -> None:
    name = fresh_name("here")
    await administration.add_tenant(name)
    (tmp_path / "a file").write_text("x")
    with pytest.raises(StartError, match="cannot write"):
        await movement.back_up([name], tmp_path / "a file", vectors=False, shown=unshown)
    memory = tmp_path / "memory.jsonl"
    memory.write_text(REFERENCE)
    with pytest.raises(InvalidInput, match="no layer 'nowhere'"):
        await movement.take_over(memory, "mcp-memory", name, layer="nowhere", skip_bad=False, shown=unshown)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777

"""A tenant's way to another data id, beside those who write, other processes and commits that nobody acknowledged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import Conflict, DeadlineExceeded, Overloaded
from app.memory.moving.exchange import erase_leftovers
from app.memory.moving.importing import import_memory
from app.memory.moving.restore import restore
from app.memory.service import MemoryService
from app.settings import Settings
from app.store.control.moves import Move, Moves
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.moving.dump import Dump
from app.store.moving.erase import counted
from tests.memory.conftest import Agent, settings
from tests.memory.doing import do
from tests.memory.moving.conftest import LAYERS, records_of

New = Callable[[], Awaitable[Tenant]]
Backup = Callable[[str], Awaitable[Path]]


async def now(database: Database, tenant: Tenant) -> Tenant:
    found = await Tenants(database.control).by_id(tenant.id)
    assert found is not None
    return found


def before(monkeypatch: pytest.MonkeyPatch, name: str, happens: Callable[[Moves, Move], Awaitable[object]]) -> None:
    """Something happens before a step of a move."""
    step = getattr(Moves, name)

    async def later(self: Moves, move: Move, *given: Any, **named: Any) -> Any:
        await happens(self, move)
        return await step(self, move, *given, **named)

    monkeypatch.setattr(Moves, name, later)


def late_layer(service: MemoryService, target: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer comes, and something into it, before the tenant is frozen."""

    async def added(*_: object) -> None:
        await Tenants(service.database.control).add_layers(target.id, ["late"])
        await Agent(service, target.data, ("", "late"), "late").relate("Late", "KNOWS", "Thing")

    before(monkeypatch, "freeze", added)


def kept_in(mine: Settings, tenant: Tenant) -> Path:
    """A file of the tenant's."""
    folder = mine.run.tenant_folder(tenant.data)
    folder.mkdir(parents=True)
    (folder / "kept").write_text("x")
    return folder / "kept"


def triplets(folder: Path) -> Path:
    path = folder / "triplets.csv"
    path.write_text("subject,predicate,object\nAda,KNOWS,Grace\n")
    return path


async def test_a_commit_that_is_acknowledged_too_late_never_costs_the_tenant_its_memory(
    database: Database,
    service: MemoryService,
    learned: str,
    new_tenant: New,
    backup: Backup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = await new_tenant()
    await Agent(service, target.data, ("",), "").relate("Old", "KNOWS", "Thing")
    mine, flip = settings(), Moves.flip
    kept_in(mine, target)

    async def late(self: Moves, *given: Any, **named: Any) -> None:
        await flip(self, *given, **named)
        raise DeadlineExceeded("too late", outcome="unknown")

    monkeypatch.setattr(Moves, "flip", late)
    with pytest.raises(DeadlineExceeded):
        await restore(database, mine, target, await backup(learned), alone=True, replace=True)
    moved = await now(database, target)
    assert (moved.data != target.data, moved.state) == (True, TenantState.ACTIVE)
    assert await records_of(database, moved.data) == await records_of(database, learned)
    assert await counted(database.control, target.data) == {}
    assert (mine.run.tenant_folder(moved.data) / "kept").exists()
    assert await Moves(database.control).of_tenant(target.id) == []


async def test_a_move_that_another_process_gave_up_leaves_the_tenant_what_it_has(
    database: Database,
    service: MemoryService,
    learned: str,
    new_tenant: New,
    backup: Backup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = await new_tenant()
    mine = settings()
    kept = kept_in(mine, target)
    begun = []

    async def given_up(moves: Moves, move: Move) -> None:
        begun.append(move.id)
        assert await moves.give_up(move.id)

    before(monkeypatch, "flip", given_up)
    with pytest.raises(Conflict, match="given up"):
        await restore(database, mine, target, await backup(learned), alone=True)
    assert await now(database, target) == target
    assert kept.exists()
    assert await counted(database.control, begun[0]) == {}
    assert await Moves(database.control).of_tenant(target.id) == []


async def test_a_layer_that_is_added_meanwhile_is_copied_with_what_it_holds(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await new_tenant()
    path = triplets(tmp_path)

    late_layer(service, target, monkeypatch)
    await import_memory(database, settings(), target, path, "triplets", alone=True)
    moved = await now(database, target)
    assert moved.layers == {"work", "late"}
    agent = Agent(service, moved.data, ("", "late"), None)
    assert [*await agent.edges("Late")] == [("late", "KNOWS", "thing")]
    assert [*await agent.edges("Ada")] == [("ada", "KNOWS", "grace")]


async def test_a_restore_sees_what_was_written_into_a_layer_that_is_new(
    database: Database,
    service: MemoryService,
    learned: str,
    new_tenant: New,
    backup: Backup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = await new_tenant()

    late_layer(service, target, monkeypatch)
    with pytest.raises(Conflict, match="holds a memory already"):
        await restore(database, settings(), target, await backup(learned), alone=True)
    assert (await now(database, target)).data == target.data


async def test_what_is_written_while_a_memory_is_copied_keeps_the_copy_from_taking_its_place(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await new_tenant()
    agent = Agent(service, target.data, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    path = triplets(tmp_path)
    lines = Dump.lines

    async def outrun(self: Dump, counted: Any) -> Any:
        async for piece in lines(self, counted):
            yield piece
        await agent.relate("Late", "KNOWS", "Thing")

    monkeypatch.setattr(Dump, "lines", outrun)
    with pytest.raises(Conflict, match="changed while it was copied"):
        await import_memory(database, settings(), target, path, "triplets", alone=True)
    assert await now(database, target) == target
    assert {*await agent.edges("Late")} == {("late", "KNOWS", "thing")}


async def test_who_works_on_the_whole_graph_is_refused_once_it_moves(
    database: Database, service: MemoryService, new_tenant: New
) -> None:
    """They may have begun long before: each of their transactions asks again."""
    target = await new_tenant()
    agent = Agent(service, target.data, LAYERS, "work")
    await agent.batch([{"name": "dim", "type": "Event", "properties": {"confidence": 0.01}}])
    moves = Moves(database.control)
    move = await moves.begin(target.id)
    await moves.freeze(move)
    held = await records_of(database, target.data)
    for tool, arguments in (("graph_decay", {}), ("graph_prune", {"mode": "execute"})):
        with pytest.raises(Overloaded, match="try again"):
            await do(agent, tool, **arguments)
    assert await records_of(database, target.data) == held
    await moves.flip(move, (), actor="test", action="tenant.restore")
    with pytest.raises(Overloaded):
        await do(agent, "graph_prune", mode="execute")
    await erase_leftovers(database, settings(), abandoned_after=-1)

"""Partition rule 22, W-M15: a restore whose process dies leaves the memory that there was, or the one of the file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from app.memory.moving.exchange import erase_leftovers
from app.settings import EmbeddingSettings, RunSettings, Settings
from app.store.control.moves import Moves
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from tests.faults.conftest import Process
from tests.identity import fresh_name
from tests.memory.conftest import Agent
from tests.memory.moving.conftest import learn, lines_of, records_of

Target = Callable[[], Awaitable[Tenant]]

TELLING = {
    f"{last}: committed" for last in ("moves.begin", "moving.write_edges", "moves.freeze", "erasing.erase_entities")
}


@pytest_asyncio.fixture
async def file(database: Database, crashed_agent: Agent, tmp_path: Path) -> Path:
    """What is restored."""
    await learn(crashed_agent.service, crashed_agent.tenant)
    path = tmp_path / "backup.jsonl"
    path.write_bytes(b"".join(await lines_of(database, crashed_agent.tenant)))
    return path


@pytest.fixture
def target(database: Database, crashed_agent: Agent, tmp_path: Path) -> Target:
    """A tenant with a memory and a file."""

    async def made() -> Tenant:
        tenants = Tenants(database.control)
        tenant = await tenants.add_layers((await tenants.create(fresh_name("crash"))).id, ["work"])
        assert tenant is not None
        await Agent(crashed_agent.service, tenant.data, ("",), "").relate("Old", "KNOWS", "Thing")
        folder = tmp_path / "tenants" / tenant.data / "ingest"
        folder.mkdir(parents=True)
        (folder / "waiting.md").write_text("waits")
        return tenant

    return made


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_a_restore_that_dies_at_any_step_leaves_the_state_before_or_after(
    database: Database, process: Process, crashed_agent: Agent, target: Target, file: Path, tmp_path: Path, every: bool
) -> None:
    settings = Settings(run=RunSettings(home=tmp_path), embedding=EmbeddingSettings(embedding="none"))
    new = await records_of(database, crashed_agent.tenant)
    order = {"work": "restore", "file": str(file), "home": str(tmp_path)}
    first = await target()
    tenant_folder = first.data
    steps = await process(0, {**order, "tenant": first.id})
    assert steps is not None
    flip = steps.index("moves.flip")
    arrived = next(at for at in range(flip, len(steps)) if steps[at].endswith(": committed"))
    for at, step in enumerate(steps):
        # One batch is like the other, and what is not committed is gone whatever it was.
        telling = flip <= at <= arrived or step in TELLING or step.endswith(tenant_folder)
        if not every and (step in steps[:at] or not telling):
            continue
        tenant = await target()
        old = await records_of(database, tenant.data)
        assert await process(at + 1, {**order, "tenant": tenant.id}) is None
        for swept in (False, True):  # what was left is out of sight, and goes
            if swept:
                await erase_leftovers(database, settings, abandoned_after=-1)
            found = await Tenants(database.control).by_id(tenant.id)
            assert found is not None
            assert (found.data == tenant.data) is (at < arrived), step
            assert await records_of(database, found.data) == (old if at < arrived else new), step
        assert found.state is TenantState.ACTIVE, step
        assert await Moves(database.control).of_tenant(tenant.id) == [], step
        assert (tmp_path / "tenants" / found.data / "ingest" / "waiting.md").read_text() == "waits", step

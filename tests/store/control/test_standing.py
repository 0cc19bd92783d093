"""Whether a data id still is an active tenant's, asked under lock by a write that is under way."""

from __future__ import annotations

import asyncio
import secrets

import pytest

from app.errors import Overloaded
from app.store.control.moves import LOCK, Move, Moves
from app.store.control.standing import require_active, require_in_place
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.session import Writing
from tests.identity import fresh_name
from tests.store.meeting import patient, waits


@pytest.fixture
def tenants(database: Database) -> Tenants:
    return Tenants(database.control)


async def allowed(database: Database, data: str) -> tuple[bool, bool]:
    """Whether ``require_active`` and ``require_in_place`` let a write through."""
    asked = [
        database.control.write(lambda writing, require=require: require(writing, data))
        for require in (require_active, require_in_place)
    ]
    found = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in found if each is not None]
    assert all(isinstance(each, Overloaded) and each.outcome == "not_applied" for each in refused)
    return found[0] is None, found[1] is None


async def moving(database: Database, tenant: Tenant) -> Move:
    moves = Moves(patient(database))
    move = await moves.begin(tenant.id)
    await moves.freeze(move)
    return move


async def test_an_active_tenant_may_be_written_to_and_no_other(database: Database, tenants: Tenants) -> None:
    tenant = await tenants.create(fresh_name("standing"))
    assert await allowed(database, tenant.data) == (True, True)
    for state in (TenantState.SUSPENDED, TenantState.DELETED):
        await tenants.set_state(tenant.id, state)
        assert await allowed(database, tenant.data) == (False, False)
    assert await allowed(database, f"d{secrets.token_hex(8)}") == (False, True)


async def test_nothing_more_comes_to_a_data_id_that_is_being_left_or_was(database: Database, tenants: Tenants) -> None:
    """Partition rule 22."""
    tenant = await tenants.create(fresh_name("standing"))
    move = await moving(database, tenant)
    assert await allowed(database, tenant.data) == (False, False)
    await Moves(database.control).flip(move, (), actor="test", action="tenant.restore")
    assert await allowed(database, tenant.data) == (False, False)
    assert await allowed(database, move.id) == (True, True)


async def test_a_tenant_is_not_frozen_before_a_write_that_asked_has_ended(database: Database, tenants: Tenants) -> None:
    tenant = await tenants.create(fresh_name("standing"))
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def work(writing: Writing) -> None:
        await require_active(writing, tenant.data)
        asked.set()
        await go_on.wait()

    writing = asyncio.create_task(patient(database).write(work))
    await asyncio.wait({writing, asyncio.create_task(asked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    freezing = asyncio.create_task(moving(database, tenant))
    await waits(database, LOCK)
    assert not freezing.done()
    go_on.set()
    await writing
    await freezing
    assert await allowed(database, tenant.data) == (False, False)

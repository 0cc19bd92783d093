"""Moves: a tenant that is frozen stays so until its move ends, whoever changes its state."""

from __future__ import annotations

import secrets

import pytest

from app.errors import Conflict
from app.store.control.moves import Moves
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.identity import fresh_name


async def state(tenants: Tenants, tenant_id: str) -> TenantState:
    found = await tenants.by_id(tenant_id)
    assert found is not None
    return found.state


@pytest.mark.parametrize("suspended", [False, True])
async def test_who_resumes_a_tenant_that_is_being_moved_does_not_reopen_it(database: Database, suspended: bool) -> None:
    """Partition rule 22."""
    tenants, moves = Tenants(database.control), Moves(database.control)
    tenant = await tenants.create(fresh_name("moved"))
    if suspended:
        await tenants.set_state(tenant.id, TenantState.SUSPENDED)
    move = await moves.begin(tenant.id)
    await moves.freeze(move)
    for asked, got in (
        (TenantState.ACTIVE, TenantState.MOVING),
        (TenantState.SUSPENDED, TenantState.SUSPENDED),
        (TenantState.ACTIVE, TenantState.MOVING),
    ):
        changed = await tenants.set_state(tenant.id, asked)
        assert changed is not None
        assert changed.state is got
    await moves.flip(move, (), actor="test", action="tenant.restore")
    assert await state(tenants, tenant.id) is TenantState.ACTIVE
    await tenants.set_state(tenant.id, TenantState.SUSPENDED)
    await tenants.set_state(tenant.id, TenantState.ACTIVE)
    assert await state(tenants, tenant.id) is TenantState.ACTIVE


async def test_only_the_end_of_a_move_that_is_under_way_counts_as_giving_it_up(database: Database) -> None:
    tenants, moves = Tenants(database.control), Moves(database.control)
    tenant = await tenants.create(fresh_name("moved"))
    given_up = await moves.begin(tenant.id)
    await moves.freeze(given_up)
    assert await moves.give_up(given_up.id)
    assert not await moves.give_up(given_up.id)
    assert not await moves.arrived(given_up)
    assert await state(tenants, tenant.id) is TenantState.ACTIVE
    done = await moves.begin(tenant.id)
    await moves.flip(done, (), actor="test", action="tenant.restore")
    assert not await moves.give_up(done.id)
    assert await moves.arrived(done)
    assert not await moves.give_up(f"d{secrets.token_hex(8)}")


async def test_a_tenant_that_was_deleted_is_given_nothing_new(database: Database) -> None:
    tenants, moves = Tenants(database.control), Moves(database.control)
    tenant = await tenants.create(fresh_name("moved"))
    move = await moves.begin(tenant.id)
    await tenants.set_state(tenant.id, TenantState.DELETED)
    with pytest.raises(Conflict, match="given up"):
        await moves.flip(move, (), actor="test", action="tenant.restore")
    assert await moves.give_up(move.id)

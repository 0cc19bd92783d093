from __future__ import annotations

import asyncio

import pytest

from app.errors import Conflict, InvalidInput, StartError
from app.store.control.tenants import (
    DELETE,
    RENAME,
    SET_STATE,
    Tenants,
    TenantState,
    check_layer_name,
    check_tenant_name,
)
from app.store.database import Database
from tests.identity import fresh_name
from tests.store.meeting import met, patient


@pytest.fixture
def tenants(database: Database) -> Tenants:
    return Tenants(database.control)


async def test_a_tenant_has_a_name_an_id_and_a_data_id_of_its_own(tenants: Tenants) -> None:
    name = fresh_name("Family")
    made = await tenants.create(name)
    assert made.name == name
    assert len({made.id, made.data, made.name}) == 3
    assert (made.state, made.layers, made.admin) == (TenantState.ACTIVE, frozenset(), False)
    assert await tenants.by_id(made.id) == made
    assert await tenants.by_name(name.upper()) == made
    assert made in await tenants.all()


async def test_a_name_is_taken_in_any_spelling(tenants: Tenants) -> None:
    name = fresh_name("tenant")
    await tenants.create(name)
    for again in (name, name.upper(), f"  {name} ", name.replace("t", "ｔ", 1)):
        with pytest.raises(Conflict):
            await tenants.create(again)


async def test_replicas_that_ensure_a_tenant_at_once_agree(tenants: Tenants) -> None:
    name = fresh_name("tenant")
    made = await asyncio.gather(*(tenants.ensure(name) for _ in range(5)))
    assert len(set(made)) == 1


async def test_an_ordinary_tenant_never_becomes_the_operators_own(tenants: Tenants) -> None:
    tenant = await tenants.create(fresh_name("tenant"))
    with pytest.raises(StartError, match="GRAPHKEEP_ADMIN_TENANT"):
        await tenants.ensure(tenant.name, admin=True)
    stored = await tenants.by_id(tenant.id)
    assert stored is not None
    assert stored.admin is False


async def test_layers_named_at_once_all_exist_once(tenants: Tenants) -> None:
    tenant = await tenants.create(fresh_name("tenant"))
    await asyncio.gather(*(tenants.add_layers(tenant.id, ["work", f"project:{n}"]) for n in range(5)))
    stored = await tenants.by_id(tenant.id)
    assert stored is not None
    assert stored.layers == {"work", *(f"project:{n}" for n in range(5))}
    assert stored.all_layers() == stored.layers | {""}


async def test_a_tenant_has_no_more_layers_than_one_may_have(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await tenants.create(fresh_name("tenant"))
    await tenants.add_layers(tenant.id, ["a", "b", "c"])
    monkeypatch.setattr("app.store.control.tenants.MOST_LAYERS", 2)
    with pytest.raises(InvalidInput, match="at most 2 layers"):
        await tenants.add_layers(tenant.id, ["a", "d"])
    stored = await tenants.add_layers(tenant.id, ["a", "b"])
    assert stored is not None
    assert stored.layers == {"a", "b", "c"}, "those that exist stay, and may be named again"


@pytest.mark.parametrize("name", ["", "   ", "-a", "a-", "_a", "a" * 65, "a\nb", "a/b", "a'b", "a`b", "a\x00b", "a\n"])
def test_a_bad_tenant_name_is_refused(name: str) -> None:
    if name.strip() == "a":  # surrounding white space is not part of a name
        assert check_tenant_name(name) == "a"
        return
    with pytest.raises(InvalidInput):
        check_tenant_name(name)


@pytest.mark.parametrize("name", ["a", "home", "Über cool", "日本", "a.b-c_d", "a" * 64])
def test_a_good_tenant_name_is_kept(name: str) -> None:
    assert check_tenant_name(name) == name


@pytest.mark.parametrize("name", ["tenant", "Tenant", "global", "GLOBAL", "*", "", " ", "a b", "a,b", "a" * 65, ":a"])
def test_reserved_and_bad_layer_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_layer_name(name)


@pytest.mark.parametrize("name", ["work", "project:atlas", "family", "a/b", "日本", "x.y-z_1"])
def test_a_good_layer_name_is_kept(name: str) -> None:
    assert check_layer_name(name) == name


async def test_a_tenant_is_renamed_and_its_old_name_is_free(tenants: Tenants) -> None:
    old, new = fresh_name("old"), fresh_name("new")
    tenant, other = await tenants.create(old), await tenants.create(fresh_name("other"))
    renamed = await tenants.rename(tenant.id, new)
    assert renamed is not None
    assert (renamed.id, renamed.data, renamed.name) == (tenant.id, tenant.data, new)
    assert await tenants.by_name(old) is None
    with pytest.raises(Conflict, match="exists already"):
        await tenants.rename(other.id, new.upper())
    capital = await tenants.rename(tenant.id, new.upper())
    assert capital is not None
    assert capital.name == new.upper()
    assert await tenants.rename("tn-unknown", fresh_name("x")) is None


async def test_a_deleted_tenant_stays_deleted_and_gives_its_name_back(tenants: Tenants) -> None:
    name = fresh_name("gone")
    tenant = await tenants.create(name)
    await tenants.set_state(tenant.id, TenantState.DELETED)
    assert await tenants.set_state(tenant.id, TenantState.ACTIVE) is None
    assert await tenants.rename(tenant.id, fresh_name("again")) is None
    found = await tenants.by_id(tenant.id)
    assert found is not None
    assert found.state is TenantState.DELETED
    assert (await tenants.create(name)).id != tenant.id


async def test_what_is_deleted_while_another_change_waits_stays_deleted(database: Database) -> None:
    for change in ("state", "name"):
        waiting = Tenants(patient(database))
        tenant = await waiting.create(fresh_name("tenant"))
        later = (
            waiting.set_state(tenant.id, TenantState.ACTIVE)
            if change == "state"
            else waiting.rename(tenant.id, fresh_name("tenant"))
        )
        statement = SET_STATE if change == "state" else RENAME
        assert await met(database, lambda writing, id_=tenant.id: writing.run(DELETE, id=id_), later, statement) is None
        stored = await waiting.by_id(tenant.id)
        assert stored is not None
        assert (stored.state, stored.name) == (TenantState.DELETED, tenant.name)

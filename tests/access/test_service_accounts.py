"""Service accounts: what an owner fixes is what the account holds, and its secret is kept nowhere."""

from __future__ import annotations

import asyncio

import pytest

from app.access.service_accounts import ServiceAccounts, grant_of, role_of, secret_fits
from app.context import Role
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.store.control.audit import Audit
from app.store.control.revocations import RevocationKind, Revocations
from app.store.control.service_accounts import ServiceAccountStore
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from tests.identity import fresh_name


@pytest.fixture
def service_accounts(database: Database) -> ServiceAccounts:
    return ServiceAccounts(database.control)


@pytest.fixture
async def home(database: Database) -> Tenant:
    return await Tenants(database.control).create(fresh_name("tenant"))


async def test_an_account_holds_what_the_owner_fixed_and_its_secret_is_not_stored(
    service_accounts: ServiceAccounts, home: Tenant, database: Database
) -> None:
    record, secret = await service_accounts.create(
        home.id,
        "Night  job",
        scopes=["memory:read", "memory:write"],
        read_layers=["tenant", "work"],
        write_layers=["tenant", "work"],
        write_layer="work",
        actor="us-owner",
    )
    (kept,) = await service_accounts.of_tenant(home.id)
    assert kept == record
    assert (kept.name, kept.write_layer, kept.created_by) == ("Night job", "work", "us-owner")
    assert grant_of(kept).scopes == {"memory:read", "memory:write"}
    assert grant_of(kept).read_layers == {"", "work"}
    assert role_of(kept) is Role.MEMBER
    assert secret not in repr(kept)
    assert secret_fits(kept, secret)
    assert not secret_fits(kept, secret + "x")
    assert "work" in (await Tenants(database.control).by_id(home.id) or home).layers
    entries = await Audit(database.control).entries(home.id, ["*"])
    assert (entries[0].action, entries[0].target) == ("service_account.create", record.id)


async def test_an_account_for_which_there_is_no_layer_left_is_not_made(
    service_accounts: ServiceAccounts, home: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.store.control.tenants.MOST_LAYERS", 0)
    with pytest.raises(InvalidInput, match="Nothing was changed"):
        await service_accounts.create(
            home.id, "viewer", scopes=["memory:read"], read_layers=["tenant", "work"], actor="us-owner"
        )
    assert await service_accounts.of_tenant(home.id) == []


async def test_an_account_that_only_reads_is_a_reader(service_accounts: ServiceAccounts, home: Tenant) -> None:
    record, _ = await service_accounts.create(
        home.id, "viewer", scopes=["memory:read"], read_layers=["tenant"], actor="us-owner"
    )
    assert role_of(record) is Role.READER
    assert grant_of(record).write_layer is None


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"name": "  "}, InvalidInput),
        ({"name": "x" * 65}, InvalidInput),
        ({"scopes": []}, InvalidInput),
        ({"scopes": ["memory:fly"]}, InvalidInput),
        ({"scopes": ["admin"]}, Forbidden),
        ({"read_layers": []}, InvalidInput),
        ({"read_layers": ["*"]}, InvalidInput),
        ({"scopes": ["memory:read"], "write_layers": ["tenant"]}, InvalidInput),
        ({"write_layers": ["elsewhere"]}, InvalidInput),
        ({"write_layers": ["tenant"], "write_layer": "elsewhere"}, InvalidInput),
    ],
)
async def test_what_contradicts_itself_makes_no_account(
    service_accounts: ServiceAccounts, home: Tenant, changes: dict[str, object], refusal: type[Exception]
) -> None:
    given: dict[str, object] = {
        "name": "job",
        "scopes": ["memory:read", "memory:write"],
        "read_layers": ["tenant"],
        "write_layers": ["tenant"],
        "actor": "us-owner",
        **changes,
    }
    with pytest.raises(refusal):
        await service_accounts.create(home.id, **given)  # type: ignore[arg-type]
    assert await service_accounts.of_tenant(home.id) == []


async def test_a_name_stands_once_in_a_tenant_in_any_case(
    service_accounts: ServiceAccounts, home: Tenant, database: Database
) -> None:
    async def make(tenant: str, name: str) -> None:
        await service_accounts.create(tenant, name, scopes=["memory:read"], read_layers=["tenant"], actor="us-owner")

    made = await asyncio.gather(*(make(home.id, name) for name in ("Job", "job", "JOB")), return_exceptions=True)
    assert sum(isinstance(one, Conflict) for one in made) == 2
    other = await Tenants(database.control).create(fresh_name("tenant"))
    await make(other.id, "job")
    with pytest.raises(NotFound):
        await make("tn-nowhere", "job")


async def test_a_new_secret_ends_the_old_one_and_what_it_gave(
    service_accounts: ServiceAccounts, home: Tenant, database: Database
) -> None:
    record, old = await service_accounts.create(
        home.id, "job", scopes=["memory:read"], read_layers=["tenant"], actor="us-owner"
    )
    new = await service_accounts.renew(home.id, record.id, "us-owner")
    (kept,) = await service_accounts.of_tenant(home.id)
    assert secret_fits(kept, new)
    assert not secret_fits(kept, old)
    assert kept.grant != record.grant
    assert (RevocationKind.GRANT, record.grant) in await _revoked(database)


async def test_a_removed_account_is_gone_and_its_tokens_are_revoked(
    service_accounts: ServiceAccounts, home: Tenant, database: Database
) -> None:
    record, _ = await service_accounts.create(
        home.id, "job", scopes=["memory:read"], read_layers=["tenant"], actor="us-owner"
    )
    await service_accounts.remove(home.id, record.id, "us-owner")
    assert await ServiceAccountStore(database.control).find(record.id) is None
    assert (RevocationKind.GRANT, record.grant) in await _revoked(database)
    with pytest.raises(NotFound):
        await service_accounts.remove(home.id, record.id, "us-owner")


async def test_an_owner_of_another_tenant_changes_nothing(
    service_accounts: ServiceAccounts, home: Tenant, database: Database
) -> None:
    record, secret = await service_accounts.create(
        home.id, "job", scopes=["memory:read"], read_layers=["tenant"], actor="us-owner"
    )
    other = await Tenants(database.control).create(fresh_name("tenant"))
    with pytest.raises(NotFound):
        await service_accounts.renew(other.id, record.id, "us-other")
    with pytest.raises(NotFound):
        await service_accounts.remove(other.id, record.id, "us-other")
    (kept,) = await service_accounts.of_tenant(home.id)
    assert secret_fits(kept, secret)


async def _revoked(database: Database) -> set[tuple[RevocationKind, str]]:
    return {(each.kind, each.key) for each in await Revocations(database.control).current()}

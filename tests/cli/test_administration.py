"""What an operator does on the command line, on a real database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from app.cli.administration import Administration
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.settings import OAuthSettings, RunSettings, Settings
from app.store.database import Database
from tests.identity import SECRET_KEY, fresh_email, fresh_name


@pytest.fixture
def administration(database: Database, tmp_path: Path) -> Administration:
    settings = Settings(run=RunSettings(home=tmp_path), oauth=OAuthSettings(secret_key=SecretStr(SECRET_KEY)))
    return Administration(database, settings, alone=True)


async def test_a_member_may_be_given_layers_and_passes_on_no_others(administration: Administration) -> None:
    tenant, email = fresh_name("tenant"), fresh_email()
    await administration.add_tenant(tenant)
    made = await administration.add_user(email, tenant, "member", read=["tenant", "work"], write=["work"])
    assert (made["read_layers"], made["write_layers"]) == (["tenant", "work"], ["work"])
    token = await administration.create_token(email, tenant, scopes=None, read=None, write=["work"], days=1)
    assert (token["read_layers"], token["write_layers"]) == (["tenant", "work"], ["work"])
    with pytest.raises(Forbidden, match="family"):
        await administration.create_token(email, tenant, scopes=None, read=["family"], write=["work"], days=1)


async def test_a_member_who_was_removed_makes_no_token(administration: Administration) -> None:
    tenant, email = fresh_name("tenant"), fresh_email()
    await administration.add_tenant(tenant)
    await administration.add_user(email, tenant, "member")
    await administration.remove_user(email, tenant)
    with pytest.raises(NotFound, match="no member"):
        await administration.create_token(email, tenant, scopes=None, read=None, write=None, days=1)
    with pytest.raises(NotFound):
        await administration.remove_user(email, tenant)


async def test_a_tenant_is_suspended_and_resumed_but_not_that_of_the_operators(administration: Administration) -> None:
    tenant = fresh_name("tenant")
    await administration.add_tenant(tenant)
    assert (await administration.suspend_tenant(tenant))["state"] == "suspended"
    assert {one["name"]: one["state"] for one in await administration.tenants()}[tenant] == "suspended"
    assert (await administration.resume_tenant(tenant))["state"] == "active"
    await administration.add_user(fresh_email(), "home", "owner")
    with pytest.raises(Conflict, match="stays active"):
        await administration.suspend_tenant("admin")


async def test_limits_of_one_tenant_are_set_shown_and_brought_back(administration: Administration) -> None:
    tenant = fresh_name("tenant")
    await administration.add_tenant(tenant)
    asked = {"calls_per_minute": 600.0, "quota_entities": 500_000.0}
    assert (await administration.limit_tenant(tenant, asked))["limits"]["quota_entities"] == 500_000
    with pytest.raises(InvalidInput, match="Nothing was changed"):
        await administration.limit_tenant(tenant, {"burst": -1})
    back = await administration.limit_tenant(tenant, {"quota_entities": None})
    assert (back["limits"]["calls_per_minute"], back["limits"]["quota_entities"]) == (600, None)
    assert (await administration.limit_tenant(tenant, {}))["limits"] == back["limits"]


async def test_how_the_memory_of_one_tenant_behaves_is_set_and_brought_back(administration: Administration) -> None:
    tenant = fresh_name("tenant")
    await administration.add_tenant(tenant)
    wanted = {"query.default_limit": 50.0, "decay.rates.Recipe": 0.9}
    assert (await administration.behaviour(tenant, wanted))["behaviour"] == wanted
    for key, value in (("query.default_limit", 2.5), ("decay.rates.Recipe", 2.0), ("query.colour", 1.0)):
        with pytest.raises(InvalidInput):
            await administration.behaviour(tenant, {key: value})
    back = await administration.behaviour(tenant, {"query.default_limit": None})
    assert back["behaviour"] == (await administration.behaviour(tenant, {}))["behaviour"] == {"decay.rates.Recipe": 0.9}
    assert (await administration.limit_tenant(tenant, {"burst": 5}))["limits"]["burst"] == 5
    assert (await administration.behaviour(tenant, {"decay.rates.Recipe": None}))["behaviour"] == {}


async def test_the_single_valued_relations_of_a_tenant_are_set_and_brought_back(administration: Administration) -> None:
    tenant = fresh_name("tenant")
    await administration.add_tenant(tenant)
    assert (await administration.single_valued(tenant, None, change=False))["default"]
    assert (await administration.single_valued(tenant, ["LIVES_IN"], change=True))["single_valued"] == ["LIVES_IN"]
    assert (await administration.single_valued(tenant, [], change=True))["single_valued"] == []
    with pytest.raises(InvalidInput):
        await administration.single_valued(tenant, ["no relation!"], change=True)
    assert "WORKS_AT" in (await administration.single_valued(tenant, None, change=True))["single_valued"]


async def test_adding_a_member_again_keeps_role_and_layers_that_are_not_named(administration: Administration) -> None:
    tenant, email = fresh_name("tenant"), fresh_email()
    await administration.add_tenant(tenant)
    await administration.add_user(fresh_email(), tenant, "owner")
    await administration.add_user(email, tenant, "owner", read=["*"], write=["work"])
    again = await administration.add_user(email, tenant)
    assert (again["role"], again["read_layers"], again["write_layers"]) == ("owner", ["*"], ["work"])
    new = await administration.add_user(fresh_email(), tenant)
    assert (new["role"], new["read_layers"]) == ("member", ["tenant"])


async def test_role_and_layers_of_a_member_are_changed_and_listed(administration: Administration) -> None:
    tenant, email = fresh_name("tenant"), fresh_email()
    await administration.add_tenant(tenant)
    await administration.add_user(fresh_email(), tenant, "owner")
    await administration.add_user(email, tenant)
    changed = await administration.change_user(email, tenant, read=["tenant", "work"], write=["work"])
    assert (changed["read_layers"], changed["write_layers"]) == (["tenant", "work"], ["work"])
    reader = await administration.change_user(email, tenant, role_name="reader")
    assert (reader["role"], reader["read_layers"], reader["write_layers"]) == ("reader", ["tenant", "work"], [])
    listed = {member["email"]: member["role"] for member in await administration.members(tenant)}
    assert (listed[email], len(listed)) == ("reader", 2)
    with pytest.raises(InvalidInput, match="no role"):
        await administration.change_user(email, tenant, role_name="king")


async def test_the_last_owner_is_neither_demoted_nor_removed(administration: Administration) -> None:
    tenant, email = fresh_name("tenant"), fresh_email()
    await administration.add_tenant(tenant)
    await administration.add_user(email, tenant, "owner")
    with pytest.raises(Conflict, match="only owner"):
        await administration.change_user(email, tenant, role_name="member")
    with pytest.raises(Conflict, match="only owner"):
        await administration.remove_user(email, tenant)


async def test_a_tenant_is_renamed_and_deleted_once_its_name_is_confirmed(administration: Administration) -> None:
    old, new = fresh_name("old"), fresh_name("new")
    await administration.add_tenant(old)
    assert (await administration.rename_tenant(old, new))["from"] == old
    assert (await administration.add_layer(new, "work"))["layers"] == ["tenant", "work"]
    with pytest.raises(InvalidInput, match="--confirm"):
        await administration.delete_tenant(new, old, shown=print)
    assert (await administration.layers(new))["layers"] == ["tenant", "work"]
    erased = await administration.delete_tenant(new, new, shown=print)
    assert (erased["state"], erased["certificate"]["left"]) == ("erased", {})
    with pytest.raises(NotFound):
        await administration.layers(new)

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from app.access.accounts import DEFAULT_OWNER, Accounts
from app.access.snapshot import Snapshot
from app.access.verify import Verifier
from app.context import Role
from app.errors import Conflict, Forbidden, InvalidInput, NotFound, OAuthError
from app.store.control.tenants import TenantState
from app.store.control.users import check_email
from app.store.database import Database
from tests.access.conftest import Member, a_member
from tests.identity import ADDRESS, fresh_email, fresh_name, snapshot_of, vault_of


def a_gateway(database: Database, home: Path) -> Accounts:
    """Accounts with an operators' tenant of their own, as on a new database."""
    return Accounts(database.control, vault_of(database, home), admin_tenant=fresh_name("admin"))


def test_the_first_owners_address_needs_no_network() -> None:
    assert check_email(DEFAULT_OWNER) == DEFAULT_OWNER


async def test_a_new_database_begins_with_one_owner_of_both_tenants(database: Database, tmp_path: Path) -> None:
    accounts, email = a_gateway(database, tmp_path), fresh_email()
    first = await accounts.bootstrap(email)
    assert first.created
    assert first.owner.email == email
    assert first.admin.admin
    assert (first.home.name, first.home.admin) == ("home", False)
    for tenant in (first.admin, first.home):
        membership = await accounts.users.membership(first.owner.id, tenant.id)
        assert membership is not None
        assert membership.role is Role.OWNER


async def test_a_later_start_changes_nothing_even_after_the_owner_was_demoted(
    database: Database, tmp_path: Path
) -> None:
    accounts, email = a_gateway(database, tmp_path), fresh_email()
    first = await accounts.bootstrap(email)
    await accounts.add_user(fresh_email(), "home", Role.OWNER)
    await accounts.users.put_membership(first.owner.id, first.home.id, Role.READER)
    again = await accounts.bootstrap(fresh_email())
    assert not again.created
    assert again.owner == first.owner
    membership = await accounts.users.membership(first.owner.id, first.home.id)
    assert membership is not None
    assert membership.role is Role.READER


async def test_a_local_client_on_a_new_database_takes_nobodys_place_as_first_operator(
    database: Database, tmp_path: Path
) -> None:
    accounts, email = a_gateway(database, tmp_path), fresh_email()
    await accounts.ensure_home()
    home = await accounts.tenant("home")
    owners = [member for member in await accounts.users.members(home.id) if member.role is Role.OWNER]
    assert owners
    await accounts.ensure_home()
    assert len(await accounts.users.members(home.id)) >= len(owners)
    first = await accounts.bootstrap(email)
    assert first.created
    assert first.owner.email == email


async def test_two_replicas_that_begin_at_once_agree(database: Database, tmp_path: Path) -> None:
    accounts, email = a_gateway(database, tmp_path), fresh_email()
    first, second = await asyncio.gather(accounts.bootstrap(email), accounts.bootstrap(email))
    assert (first.admin, first.home, first.owner) == (second.admin, second.home, second.owner)
    assert len(await accounts.users.members(first.admin.id)) == 1


async def test_a_created_token_verifies_as_its_owner_with_what_was_asked(
    accounts: Accounts, database: Database, tmp_path: Path
) -> None:
    owner = await a_member(accounts, Role.OWNER)
    made = await accounts.create_token(
        owner.user.email,
        owner.tenant.name,
        scopes=["memory:read", "memory:write"],
        read_layers=["tenant", "work"],
        write_layers=["work"],
        days=7,
    )
    snapshot = snapshot_of(database, tmp_path)
    await snapshot.refresh()
    principal = Verifier(snapshot).verify(made.text, ADDRESS)

    assert principal.subject == owner.user.id
    assert principal.grant.scopes == {"memory:read", "memory:write"}
    assert (principal.readable(), principal.writable()) == ({"", "work"}, {"work"})
    assert principal.grant.write_layer == "work"
    assert "work" in principal.tenant_layers
    assert made.record.expires - made.record.created == 7 * 86_400_000


async def test_only_the_id_of_a_token_is_stored(accounts: Accounts, member: Member, database: Database) -> None:
    (record,) = await accounts.list_tokens(member.user.email)
    claims = json.loads(base64.urlsafe_b64decode(member.token.split(".")[1] + "=="))
    assert record.id == member.token_id == claims["jti"]
    assert member.token.split(".")[2] not in repr(record)
    assert member.token not in repr(await accounts.audit.entries(member.tenant.id, ["*"]))


async def test_a_revoked_token_is_listed_as_such_and_refused(
    accounts: Accounts, member: Member, snapshot: Snapshot, verifier: Verifier
) -> None:
    verifier.verify(member.token, ADDRESS)
    revoked = await accounts.revoke_token(member.token_id)
    assert not revoked.alive
    assert [each.alive for each in await accounts.list_tokens(member.user.email)] == [False]
    again = await accounts.revoke_token(f" {member.token_id}\n")
    assert again.revoked == revoked.revoked
    with pytest.raises(NotFound):
        await accounts.revoke_token("pt-unknown")


async def test_changes_of_accounts_are_in_the_audit_of_their_tenant(accounts: Accounts, member: Member) -> None:
    await accounts.revoke_token(member.token_id)
    actions = [entry.action for entry in await accounts.audit.entries(member.tenant.id, ["*"])]
    assert sorted(actions) == ["tenant.create", "token.create", "token.revoke", "user.add"]


async def test_unknown_tenants_users_and_strangers_are_named(accounts: Accounts, member: Member) -> None:
    stranger = await a_member(accounts, Role.OWNER)
    for email, tenant, message in (
        (member.user.email, fresh_name("none"), "no tenant named"),
        (fresh_email(), member.tenant.name, "no user with the address"),
        (stranger.user.email, member.tenant.name, "is no member of the tenant"),
    ):
        with pytest.raises(NotFound, match=message):
            await accounts.create_token(email, tenant)


async def test_a_member_cannot_create_a_token_beyond_the_membership(accounts: Accounts, member: Member) -> None:
    with pytest.raises(Forbidden):
        await accounts.create_token(member.user.email, member.tenant.name, read_layers=["work"])
    with pytest.raises(InvalidInput):
        await accounts.create_token(member.user.email, member.tenant.name, days=366)
    assert len(await accounts.list_tokens(member.user.email)) == 1
    stored = await accounts.tenants.by_id(member.tenant.id)
    assert stored is not None
    assert stored.layers == frozenset()


async def test_a_member_may_be_given_layers_which_then_exist(accounts: Accounts, member: Member) -> None:
    _, membership = await accounts.add_user(
        member.user.email,
        member.tenant.name,
        Role.MEMBER,
        read_layers=["tenant", "work"],
        write_layers=["work"],
    )
    assert (membership.read_layers, membership.write_layers) == ({"", "work"}, {"work"})
    stored = await accounts.tenants.by_id(member.tenant.id)
    assert stored is not None
    assert stored.layers == {"work"}


async def test_who_would_need_more_layers_than_a_tenant_may_have_is_no_member(
    accounts: Accounts, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Membership and layers are one transaction."""
    monkeypatch.setattr("app.store.control.tenants.MOST_LAYERS", 1)
    with pytest.raises(InvalidInput, match=r"at most 1 layers\. Nothing was changed"):
        await accounts.add_user(member.user.email, member.tenant.name, Role.MEMBER, read_layers=["tenant", "a", "b"])
    membership = await accounts.users.membership(member.user.id, member.tenant.id)
    assert membership is not None
    assert membership.read_layers == {""}
    stored = await accounts.tenants.by_id(member.tenant.id)
    assert stored is not None
    assert stored.layers == frozenset()


async def test_removing_a_user_ends_their_tokens(
    accounts: Accounts, member: Member, snapshot: Snapshot, verifier: Verifier
) -> None:
    verifier.verify(member.token, ADDRESS)
    await accounts.remove_user(member.user.email, member.tenant.name)
    await snapshot.refresh()
    with pytest.raises(OAuthError, match="revoked"):
        verifier.verify(member.token, ADDRESS)
    with pytest.raises(NotFound):
        await accounts.remove_user(member.user.email, member.tenant.name)


async def test_the_operators_tenant_cannot_be_suspended(database: Database, tmp_path: Path, member: Member) -> None:
    accounts = a_gateway(database, tmp_path)
    first = await accounts.bootstrap(fresh_email())
    with pytest.raises(Conflict):
        await accounts.set_tenant_state(first.admin.name, TenantState.SUSPENDED)
    suspended = await accounts.set_tenant_state(member.tenant.name, TenantState.SUSPENDED)
    assert suspended.state is TenantState.SUSPENDED


async def test_a_local_caller_holds_what_the_member_holds(accounts: Accounts, member: Member) -> None:
    owner = await a_member(accounts, Role.OWNER)
    principal = await accounts.local_principal(owner.user.email, owner.tenant.name)
    assert principal.subject == owner.user.id
    assert principal.data == owner.tenant.data
    assert (principal.readable(), principal.writable(), principal.grant.write_layer) == ({""}, {""}, "")
    reader = await a_member(accounts, Role.READER)
    local = await accounts.local_principal(reader.user.email, reader.tenant.name)
    assert (local.readable(), local.writable()) == ({""}, frozenset())
    await accounts.add_user(
        member.user.email, member.tenant.name, Role.MEMBER, read_layers=["tenant", "a"], write_layers=["a", "tenant"]
    )
    two = await accounts.local_principal(member.user.email, member.tenant.name)
    assert (sorted(two.writable()), two.grant.write_layer) == (["", "a"], "")
    with pytest.raises(NotFound):
        await accounts.local_principal(member.user.email, owner.tenant.name)


async def test_changing_a_member_keeps_what_is_not_named(accounts: Accounts, member: Member) -> None:
    await accounts.add_user(
        member.user.email, member.tenant.name, Role.MEMBER, read_layers=["tenant", "work"], write_layers=["work"]
    )
    _, again = await accounts.add_user(member.user.email, member.tenant.name, Role.MEMBER)
    assert (again.read_layers, again.write_layers) == ({"", "work"}, {"work"})
    changed = await accounts.change_user(member.user, member.tenant, write_layers=["tenant"])
    assert (changed.role, changed.read_layers, changed.write_layers) == (Role.MEMBER, {"", "work"}, {""})
    reader = await accounts.change_user(member.user, member.tenant, role=Role.READER)
    assert (reader.read_layers, reader.write_layers) == ({"", "work"}, frozenset())
    with pytest.raises(InvalidInput, match="a reader writes nowhere"):
        await accounts.change_user(member.user, member.tenant, write_layers=["work"])
    with pytest.raises(NotFound):
        await accounts.change_user((await a_member(accounts, Role.OWNER)).user, member.tenant, role=Role.OWNER)


async def test_a_tenant_is_renamed_unless_something_finds_it_by_its_name(
    database: Database, tmp_path: Path, member: Member
) -> None:
    accounts = a_gateway(database, tmp_path)
    first = await accounts.bootstrap(fresh_email())
    for tenant in (first.admin, first.home):
        with pytest.raises(Conflict, match="keeps its name"):
            await accounts.rename_tenant(tenant, fresh_name("other"))
    new = fresh_name("renamed")
    assert (await accounts.rename_tenant(member.tenant.name, new)).name == new
    assert (await accounts.tenant(new)).id == member.tenant.id


async def test_a_layer_is_added_once(accounts: Accounts, member: Member) -> None:
    assert (await accounts.add_layer(member.tenant.name, "project:atlas")).layers == {"project:atlas"}
    with pytest.raises(Conflict, match="exists already"):
        await accounts.add_layer(member.tenant.name, "project:atlas")

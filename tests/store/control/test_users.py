from __future__ import annotations

import asyncio

import pytest

from app.context import Role
from app.errors import Conflict, InvalidInput
from app.store.control.revocations import RevocationKind, Revocations, member_key
from app.store.control.tenants import Tenants
from app.store.control.users import Users
from app.store.database import Database
from tests.identity import fresh_email, fresh_name

EVERY = frozenset({"*"})


@pytest.fixture
def users(database: Database) -> Users:
    return Users(database.control)


async def revoked(database: Database, user: str, tenant: str) -> bool:
    current = await Revocations(database.control).current()
    return any(each.kind is RevocationKind.MEMBER and each.key == member_key(user, tenant) for each in current)


async def test_a_user_is_found_by_address_in_any_case_and_known_by_a_stable_id(users: Users) -> None:
    email = fresh_email()
    user = await users.create(email)
    assert email not in user.id
    assert await users.by_email(email.upper()) == user
    assert await users.by_id(user.id) == user
    with pytest.raises(Conflict):
        await users.create(email.upper())


async def test_replicas_that_ensure_a_user_at_once_agree(users: Users) -> None:
    email = fresh_email()
    assert len(set(await asyncio.gather(*(users.ensure(email) for _ in range(5))))) == 1


@pytest.mark.parametrize("email", ["", "a", "a@", "@b", "a@localhost", "a b@example.com", "a@b@example.com"])
async def test_what_is_no_address_is_refused(users: Users, email: str) -> None:
    with pytest.raises(InvalidInput):
        await users.create(email)


@pytest.mark.parametrize(
    ("role", "read", "write"),
    [
        (Role.OWNER, EVERY, EVERY),
        (Role.MEMBER, frozenset({""}), frozenset({""})),
        (Role.READER, frozenset({""}), frozenset()),
    ],
)
async def test_owners_begin_with_every_layer_and_others_with_tenant_wide_alone(
    users: Users, role: Role, read: frozenset[str], write: frozenset[str]
) -> None:
    user, tenant = await users.create(fresh_email()), fresh_name("tn")
    membership = await users.put_membership(user.id, tenant, role)
    assert (membership.read_layers, membership.write_layers) == (read, write)
    assert await users.memberships(user.id) == [membership]
    assert await users.members(tenant) == [membership]


async def test_only_owners_hold_every_layer_and_readers_write_nowhere(users: Users) -> None:
    user, tenant = await users.create(fresh_email()), fresh_name("tn")
    for role, read, write in ((Role.MEMBER, ["*"], [""]), (Role.MEMBER, [""], ["*"]), (Role.READER, [""], [""])):
        with pytest.raises(InvalidInput):
            await users.put_membership(user.id, tenant, role, read_layers=read, write_layers=write)
    assert await users.membership(user.id, tenant) is None


@pytest.mark.parametrize(
    ("role", "read", "write"),
    [(Role.READER, ["", "a"], []), (Role.MEMBER, [""], [""]), (Role.MEMBER, ["", "a"], [""])],
)
async def test_taking_something_away_revokes_the_members_tokens(
    users: Users, database: Database, role: Role, read: list[str], write: list[str]
) -> None:
    user, tenant = await users.create(fresh_email()), fresh_name("tn")
    await users.put_membership(user.id, tenant, Role.MEMBER, read_layers=["", "a"], write_layers=["", "a"])
    assert not await revoked(database, user.id, tenant)
    await users.put_membership(user.id, tenant, role, read_layers=read, write_layers=write)
    assert await revoked(database, user.id, tenant)


async def test_giving_more_revokes_nothing(users: Users, database: Database) -> None:
    user, tenant = await users.create(fresh_email()), fresh_name("tn")
    await users.put_membership(user.id, tenant, Role.READER)
    await users.put_membership(user.id, tenant, Role.MEMBER)
    await users.put_membership(user.id, tenant, Role.MEMBER, read_layers=["", "a"], write_layers=["", "a"])
    await users.put_membership(user.id, tenant, Role.OWNER)
    assert not await revoked(database, user.id, tenant)


async def test_an_owner_who_becomes_a_member_loses_the_layers_not_named(users: Users, database: Database) -> None:
    user, tenant = await users.create(fresh_email()), fresh_name("tn")
    await users.put_membership(user.id, tenant, Role.OWNER)
    await users.put_membership(user.id, tenant, Role.OWNER, read_layers=["", "a"], write_layers=[""])
    assert await revoked(database, user.id, tenant)


async def test_removing_a_member_revokes_their_tokens_in_that_tenant_alone(users: Users, database: Database) -> None:
    user, tenant, other = await users.create(fresh_email()), fresh_name("tn"), fresh_name("tn")
    for each in (tenant, other):
        await users.put_membership(user.id, each, Role.MEMBER)
    assert await users.remove_membership(user.id, tenant)
    assert not await users.remove_membership(user.id, tenant)
    assert await users.membership(user.id, tenant) is None
    assert await users.membership(user.id, other) is not None
    assert await revoked(database, user.id, tenant)
    assert not await revoked(database, user.id, other)


async def test_layers_that_are_not_named_stay_as_far_as_the_role_may_hold_them(users: Users) -> None:
    user, other, tenant = await users.create(fresh_email()), await users.create(fresh_email()), fresh_name("tn")
    await users.put_membership(other.id, tenant, Role.OWNER)

    async def after(role: Role) -> tuple[set[str], set[str]]:
        membership = await users.put_membership(user.id, tenant, role)
        return set(membership.read_layers), set(membership.write_layers)

    await users.put_membership(user.id, tenant, Role.MEMBER, read_layers=["", "a"], write_layers=["a"])
    assert await after(Role.MEMBER) == ({"", "a"}, {"a"})
    assert await after(Role.READER) == ({"", "a"}, set())
    assert await after(Role.MEMBER) == ({"", "a"}, {""})
    assert await after(Role.OWNER) == ({"*"}, {"*"})
    await users.put_membership(user.id, tenant, Role.OWNER, read_layers=["*"], write_layers=["a"])
    assert await after(Role.OWNER) == ({"*"}, {"a"})
    assert await after(Role.MEMBER) == ({""}, set())


async def test_the_last_owner_stays_owner(users: Users) -> None:
    owner, other, tenant = await users.create(fresh_email()), await users.create(fresh_email()), fresh_name("tn")
    await users.put_membership(owner.id, tenant, Role.OWNER)
    await users.put_membership(other.id, tenant, Role.MEMBER)
    with pytest.raises(Conflict, match="only owner"):
        await users.put_membership(owner.id, tenant, Role.MEMBER)
    with pytest.raises(Conflict, match="only owner"):
        await users.remove_membership(owner.id, tenant)
    kept = await users.membership(owner.id, tenant)
    assert kept is not None
    assert kept.role is Role.OWNER
    await users.put_membership(other.id, tenant, Role.OWNER)
    assert await users.remove_membership(owner.id, tenant)


async def test_two_owners_who_step_down_at_once_do_not_both(users: Users, database: Database) -> None:
    tenant = (await Tenants(database.control).create(fresh_name("tenant"))).id
    owners = [await users.create(fresh_email()) for _ in range(2)]
    for owner in owners:
        await users.put_membership(owner.id, tenant, Role.OWNER)
    ended = await asyncio.gather(
        *(users.remove_membership(owner.id, tenant) for owner in owners), return_exceptions=True
    )
    assert sorted(type(each).__name__ for each in ended) == ["Conflict", "bool"]

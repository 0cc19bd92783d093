"""Users and their memberships. A subject is a stable id; the e-mail address is an attribute that may change."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from email_validator import EmailNotValidError, validate_email

from app.context import EVERY_LAYER, TENANT_WIDE, Role
from app.errors import Conflict, InvalidInput
from app.store.control.revocations import Revocation, revoke_in
from app.store.control.tenants import add_layers_in
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["Membership", "User", "Users", "check_email", "check_layers", "default_layers", "new_subject"]

_USER: Final = "u.id AS id, u.email AS email, u.created AS created"
_MEMBERSHIP: Final = "m.user AS user, m.tenant AS tenant, m.role AS role, m.read AS read, m.write AS write"

CREATE = statement(
    "users.create",
    f"MERGE (u:_User {{key: $key}}) ON CREATE SET u.id = $id, u.email = $email, u.created = $now RETURN {_USER}",
    writes=True,
    control=True,
)
BY_ID = statement("users.by_id", f"MATCH (u:_User {{id: $id}}) RETURN {_USER}", control=True)
BY_EMAIL = statement("users.by_email", f"MATCH (u:_User {{key: $key}}) RETURN {_USER}", control=True)
NAMED = statement("users.named", f"MATCH (u:_User) WHERE u.id IN $ids RETURN {_USER}", control=True)
ALL = statement("users.all", f"MATCH (u:_User) RETURN {_USER} ORDER BY u.key", control=True)
CHANGE_EMAIL = statement(
    "users.change_email",
    f"MATCH (u:_User {{id: $id}}) SET u.key = $key, u.email = $email RETURN {_USER}",
    writes=True,
    control=True,
)
PUT_MEMBERSHIP = statement(
    "users.put_membership",
    f"""
    MERGE (m:_Membership {{id: $id}})
    ON CREATE SET m.user = $user, m.tenant = $tenant, m.since = $now
    WITH m, properties(m) AS before
    SET m.role = $role, m.read = $read, m.write = $write
    RETURN {_MEMBERSHIP}, before.role AS old_role, before.read AS old_read, before.write AS old_write
    """,
    writes=True,
    control=True,
)
DELETE_MEMBERSHIP = statement(
    "users.delete_membership",
    "MATCH (m:_Membership {id: $id}) WITH m, m.user AS user, m.role AS role DELETE m RETURN user, role",
    writes=True,
    control=True,
)
# Two changes of one tenant's members go one after the other, so that two owners cannot both step down.
LOCK_TENANT = statement(
    "users.lock_tenant",
    "MATCH (t:_Tenant {id: $tenant}) SET t.touched = $now RETURN t.id AS id",
    writes=True,
    control=True,
)
# What a member holds ends by the revocation; this makes lists say so.
END_TOKENS = statement(
    "users.end_tokens",
    "MATCH (t:_PersonalToken {user: $user}) WHERE t.tenant = $tenant AND t.revoked IS NULL SET t.revoked = $now",
    writes=True,
    control=True,
)
END_GRANTS = statement(
    "users.end_grants",
    """
    MATCH (g:_Grant {user: $user}) WHERE g.tenant = $tenant AND g.revoked_at IS NULL
    SET g.revoked_at = $now / 1000.0, g.revoked_for = 'the membership was narrowed or ended'
    RETURN g.id AS id
    """,
    writes=True,
    control=True,
)
OTHER_OWNER = statement(
    "users.other_owner",
    "MATCH (m:_Membership {tenant: $tenant}) WHERE m.role = 'owner' AND m.user <> $user RETURN m.user AS user LIMIT 1",
    control=True,
)
MEMBERSHIP = statement("users.membership", f"MATCH (m:_Membership {{id: $id}}) RETURN {_MEMBERSHIP}", control=True)
OF_USER = statement(
    "users.memberships_of_user",
    f"MATCH (m:_Membership {{user: $user}}) RETURN {_MEMBERSHIP} ORDER BY m.id",
    control=True,
)
COUNT_MEMBERS = statement(
    "users.count_members",
    "MATCH (m:_Membership) WHERE m.tenant IN $tenants RETURN m.tenant AS tenant, count(m) AS number",
    control=True,
)
OF_TENANT = statement(
    "users.memberships_of_tenant",
    f"MATCH (m:_Membership {{tenant: $tenant}}) RETURN {_MEMBERSHIP} ORDER BY m.id",
    control=True,
)

_RANK: Final = {Role.READER: 0, Role.MEMBER: 1, Role.OWNER: 2}


@dataclass(frozen=True, slots=True)
class User:
    """A person or service account."""

    id: str
    email: str
    created: int
    """Unix milliseconds."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> User:
        """A user from a row of the statements above."""
        return cls(row["id"], row["email"], row["created"])


@dataclass(frozen=True, slots=True)
class Membership:
    """What a user is in a tenant and which layers they may give to a client, as the data spells them or ``*``."""

    user: str
    tenant: str
    role: Role
    read_layers: frozenset[str]
    write_layers: frozenset[str]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Membership:
        """A membership from a row of the statements above."""
        return cls(
            user=row["user"],
            tenant=row["tenant"],
            role=Role(row["role"]),
            read_layers=frozenset(row["read"]),
            write_layers=frozenset(row["write"]),
        )

    def may_read(self, layer: str) -> bool:
        """Whether this member may read ``layer``."""
        return EVERY_LAYER in self.read_layers or layer in self.read_layers

    def may_write(self, layer: str) -> bool:
        """Whether this member may write ``layer``."""
        return EVERY_LAYER in self.write_layers or layer in self.write_layers


def new_subject() -> str:
    """An id for a user who is about to be made."""
    return f"us-{secrets.token_hex(12)}"


def check_email(email: str) -> str:
    """The address in normal form; nothing is looked up on the network.

    Raises:
        InvalidInput: it is no e-mail address.
    """
    try:
        return validate_email(email.strip(), check_deliverability=False).normalized
    except EmailNotValidError as error:
        raise InvalidInput(f"this is not an e-mail address: {error}", field="email") from error


def default_layers(role: Role) -> tuple[frozenset[str], frozenset[str]]:
    """Layers that a new member may read and write: owners every one, others tenant-wide (partition rules 1 and 3)."""
    if role is Role.OWNER:
        return frozenset({EVERY_LAYER}), frozenset({EVERY_LAYER})
    wide = frozenset({TENANT_WIDE})
    return wide, frozenset() if role is Role.READER else wide


class Users:
    """The store of users and memberships."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def create(self, email: str, subject: str | None = None) -> User:
        """Make a user, with the id ``subject`` (of :func:`new_subject`) where that had to be known before.

        Raises:
            InvalidInput: no e-mail address. Conflict: a user with it exists.
        """
        user, created = await self._merge(email, subject)
        if not created:
            raise Conflict(f"a user with the address {user.email} exists already. Nothing was changed.")
        return user

    async def ensure(self, email: str) -> User:
        """The user with this address, made if missing; two replicas at once agree on one."""
        user, _ = await self._merge(email)
        return user

    async def by_id(self, subject: str) -> User | None:
        """The user with this subject id."""
        rows = await self._control.read(BY_ID, id=subject)
        return User.of(rows[0]) if rows else None

    async def by_email(self, email: str) -> User | None:
        """The user with this address, in any case."""
        rows = await self._control.read(BY_EMAIL, key=email.strip().casefold())
        return User.of(rows[0]) if rows else None

    async def named(self, subjects: Iterable[str]) -> dict[str, User]:
        """Users by their subject ids, in one read; ids of nobody are left out."""
        rows = await self._control.read(NAMED, ids=sorted(set(subjects)))
        return {row["id"]: User.of(row) for row in rows}

    async def count_members(self, tenants: Iterable[str]) -> dict[str, int]:
        """How many belong to each of these tenants; one without members is left out."""
        rows = await self._control.read(COUNT_MEMBERS, tenants=sorted(set(tenants)))
        return {row["tenant"]: row["number"] for row in rows}

    async def change_email(self, subject: str, email: str) -> User | None:
        """Give the user another address; None if there is no such user. Everything that names the subject stays.

        Raises:
            InvalidInput: no e-mail address. Conflict: another user has it; nothing was changed.
        """
        address = check_email(email)
        taken = Conflict(f"another account has the address {address}. Nothing was changed.")
        other = await self.by_email(address)
        if other is not None and other.id != subject:
            raise taken

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(CHANGE_EMAIL, id=subject, key=address.casefold(), email=address)

        try:
            rows = await self._control.write(work)
        except Conflict as error:  # by a change at the same moment
            raise taken from error
        return User.of(rows[0]) if rows else None

    async def all(self) -> list[User]:
        """Every user, by address."""
        return [User.of(row) for row in await self._control.read(ALL)]

    async def membership(self, user: str, tenant: str) -> Membership | None:
        """What the user is in the tenant."""
        rows = await self._control.read(MEMBERSHIP, id=_id(user, tenant))
        return Membership.of(rows[0]) if rows else None

    async def memberships(self, user: str) -> list[Membership]:
        """Every tenant that the user belongs to."""
        return [Membership.of(row) for row in await self._control.read(OF_USER, user=user)]

    async def members(self, tenant: str) -> list[Membership]:
        """Everyone who belongs to the tenant."""
        return [Membership.of(row) for row in await self._control.read(OF_TENANT, tenant=tenant)]

    async def put_membership(
        self,
        user: str,
        tenant: str,
        role: Role,
        *,
        read_layers: Collection[str] | None = None,
        write_layers: Collection[str] | None = None,
    ) -> Membership:
        """Make the user a member, or change what they are; layers that are given exist from then on.

        Layers that are None: for a new member the role's default ones; otherwise those held until now, as far as the
        role may hold them. A lower role or a layer taken away revokes every token of this user in the tenant, in the
        same transaction (partition rule 3).

        Raises:
            InvalidInput: ``*`` for someone who is not an owner, layers to write for a reader, or layers that the tenant
                cannot have.
            Conflict: the tenant would have no owner any more.
        """
        named = {*(read_layers or ()), *(write_layers or ())} - {EVERY_LAYER, TENANT_WIDE}

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK_TENANT, tenant=tenant, now=_now())
            if named:
                await add_layers_in(writing, tenant, named)
            found = await writing.run(MEMBERSHIP, id=_id(user, tenant))
            kept_read, kept_write = _kept_layers(role, Membership.of(found[0]) if found else None)
            read = kept_read if read_layers is None else frozenset(read_layers)
            write = kept_write if write_layers is None else frozenset(write_layers)
            check_layers(role, read, write)
            rows = await writing.run(
                PUT_MEMBERSHIP,
                id=_id(user, tenant),
                user=user,
                tenant=tenant,
                role=role.value,
                read=sorted(read),
                write=sorted(write),
                now=_now(),
            )
            if rows[0]["old_role"] == Role.OWNER.value and role is not Role.OWNER:
                await _keep_an_owner(writing, user, tenant)
            if _narrowed(rows[0]):
                await _end_all(writing, user, tenant)
            return rows

        return Membership.of((await self._control.write(work))[0])

    async def remove_membership(self, user: str, tenant: str) -> bool:
        """End the membership and revoke the user's tokens in the tenant; False if there was none.

        Raises:
            Conflict: the tenant would have no owner any more.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            await writing.run(LOCK_TENANT, tenant=tenant, now=_now())
            rows = await writing.run(DELETE_MEMBERSHIP, id=_id(user, tenant))
            if rows and rows[0]["role"] == Role.OWNER.value:
                await _keep_an_owner(writing, user, tenant)
            if rows:
                await _end_all(writing, user, tenant)
            return rows

        return bool(await self._control.write(work))

    async def _merge(self, email: str, subject: str | None = None) -> tuple[User, bool]:
        address = check_email(email)
        minted = subject or new_subject()

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(CREATE, key=address.casefold(), id=minted, email=address, now=_now())

        user = User.of((await self._control.write(work))[0])
        return user, user.id == minted


async def _end_all(writing: Writing, user: str, tenant: str) -> None:
    await revoke_in(writing, Revocation.of_member(user, tenant))
    await writing.run(END_TOKENS, user=user, tenant=tenant, now=_now())
    for grant in await writing.run(END_GRANTS, user=user, tenant=tenant, now=_now()):
        await revoke_in(writing, Revocation.of_grant(grant["id"]))


async def _keep_an_owner(writing: Writing, user: str, tenant: str) -> None:
    if not await writing.run(OTHER_OWNER, tenant=tenant, user=user):
        raise Conflict(
            "this is the tenant's only owner, and a tenant keeps at least one. Make someone else an owner first. "
            "Nothing was changed."
        )


def _kept_layers(role: Role, before: Membership | None) -> tuple[frozenset[str], frozenset[str]]:
    """Layers of someone whose role is set and whose layers are not named."""
    read, write = default_layers(role)
    if before is None or (role is Role.OWNER and before.role is not Role.OWNER):
        return read, write
    if role is Role.OWNER or EVERY_LAYER not in before.read_layers:
        read = before.read_layers
    if before.role is not Role.READER and (role is Role.OWNER or EVERY_LAYER not in before.write_layers):
        write = before.write_layers
    return read, frozenset() if role is Role.READER else write if EVERY_LAYER in read else write & read


def check_layers(role: Role, read: frozenset[str], write: frozenset[str]) -> None:
    """Refuse layers that the role cannot hold.

    Raises:
        InvalidInput: ``*`` for someone who is not an owner, or layers to write for a reader.
    """
    if role is not Role.OWNER and EVERY_LAYER in read | write:
        raise InvalidInput("only an owner holds every layer (`*`); name the layers of others.", field="layers")
    if role is Role.READER and write:
        raise InvalidInput("a reader writes nowhere; give the role member to someone who shall write.", field="layers")


def _narrowed(row: Mapping[str, Any]) -> bool:
    if row["old_role"] is None:
        return False
    return (
        _RANK[Role(row["role"])] < _RANK[Role(row["old_role"])]
        or _taken(row["old_read"], row["read"])
        or _taken(row["old_write"], row["write"])
    )


def _taken(old: list[str], new: list[str]) -> bool:
    return EVERY_LAYER not in new and not set(old) <= set(new)


def _id(user: str, tenant: str) -> str:
    return f"{user}|{tenant}"


def _now() -> int:
    return int(time.time() * 1000)

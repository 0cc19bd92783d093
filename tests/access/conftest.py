from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from app.access.accounts import Accounts
from app.access.snapshot import Snapshot
from app.access.verify import Verifier
from app.context import Role
from app.store.control.tenants import Tenant
from app.store.control.users import User
from app.store.database import Database
from tests.identity import accounts_on, fresh_email, fresh_name, snapshot_of


@dataclass(frozen=True)
class Member:
    """A user in a tenant of their own, and a valid personal token of theirs."""

    user: User
    tenant: Tenant
    token: str
    token_id: str


@pytest.fixture
def accounts(database: Database, tmp_path: Path) -> Accounts:
    return accounts_on(database, tmp_path)


@pytest.fixture
async def snapshot(database: Database, member: Member, tmp_path: Path) -> Snapshot:
    made = snapshot_of(database, tmp_path)
    await made.refresh()
    return made


@pytest.fixture
def verifier(snapshot: Snapshot) -> Verifier:
    return Verifier(snapshot)


@pytest.fixture
async def member(accounts: Accounts) -> Member:
    return await a_member(accounts, Role.MEMBER)


async def a_member(accounts: Accounts, role: Role) -> Member:
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    user, _ = await accounts.add_user(fresh_email(), tenant.name, role)
    made = await accounts.create_token(user.email, tenant.name)
    return Member(user, tenant, made.text, made.record.id)

"""The console's pages in the cells of the harness: what an owner sees of other tenants is nothing, whatever they forge.

Generated from the table of routes, so that a new page cannot be forgotten.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from app.console.rights import Right
from app.console.routes import TABLE, Entry
from app.context import Role
from app.store.control.tenants import Tenant
from app.store.database import Database
from app.store.statement import statement
from tests.console.conftest import Person, Stage, open_stage

CONTROL = statement(
    "tests.control_records_of_a_tenant",
    """
    MATCH (n:_Audit|_Grant|_Invitation|_Membership|_PersonalToken|_ServiceAccount|_Tenant)
    WHERE n.tenant = $of OR n.id = $of
    RETURN labels(n) AS labels, properties(n) AS properties ORDER BY n.id
    """,
    control=True,
)
CANARY = "canary"
ABOUT_TENANTS = [entry for entry in TABLE if entry.right is Right.OWNER]
ABOUT_ONESELF = [entry for entry in TABLE if entry.right is Right.SELF and "{" in entry.path]


def name_of(entry: Entry) -> str:
    return f"{entry.method} {entry.path}"


@dataclass
class House:
    """A tenant with one of everything, and the ids of that."""

    tenant: Tenant
    owner: Person
    parts: Mapping[str, str]


@dataclass
class Street:
    own: House
    foreign: House


async def a_house(stage: Stage, mark: str) -> House:
    tenant = await stage.tenant(f"house {mark}", "work", f"layer-{mark}")
    owner = await stage.person((tenant, Role.OWNER), name=mark)
    member = await stage.person((tenant, Role.MEMBER), name=f"member.{mark}")
    grant = await stage.grant(member.user, tenant, f"Program {mark}")
    passkey = await stage.passkey(owner.user, f"Key {mark}")
    token = await stage.console.accounts.create_token(owner.user, tenant, actor=owner.user.id)
    account, _ = await stage.console.service_accounts.create(
        tenant.id, f"account {mark}", scopes=["memory:read"], read_layers=["tenant"], actor=owner.user.id
    )
    await stage.console.invitations.invite(
        tenant.id, Role.MEMBER, email=f"guest.{mark}@example.org", actor=owner.user.id, address=stage.address
    )
    (invitation,) = await stage.console.invitations.of_tenant(tenant.id)
    (session, *_) = await stage.services.browser.sessions_of(owner.user.id, 0)
    parts = {
        "tenant": tenant.id,
        "user": member.user.id,
        "grant": grant.id,
        "token": token.record.id,
        "account": account.id,
        "invitation": invitation.id,
        "passkey": passkey.id,
        "session": session.id,
        "handle": "x" * 43,
    }
    return House(tenant, owner, parts)


@pytest_asyncio.fixture(scope="module")
async def street(database: Database, tmp_path_factory: Any) -> AsyncIterator[Street]:
    async with open_stage(database, tmp_path_factory.mktemp("street")) as stage:
        yield Street(await a_house(stage, "own"), await a_house(stage, CANARY))


def path_of(entry: Entry, parts: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], entry.path)


def unknown(parts: Mapping[str, str], *kept: str) -> dict[str, str]:
    """The same ids with every digit another, but for those kept: they look alike and name nothing."""
    turned = str.maketrans("0123456789", "1234567890")
    return {name: value if name in kept else value.translate(turned) for name, value in parts.items()}


async def answered(person: Person, entry: Entry, parts: Mapping[str, str]) -> tuple[int, str]:
    path = path_of(entry, parts)
    form = {"role": "member", "read": "tenant", "name": "x", "layer": "x", "scope": "memory:read"}
    answer = await (person.get(path) if entry.method == "GET" else person.post(path, form))
    # Whoever typed an id finds it in the addresses of the page again: that says nothing of what exists.
    text = re.sub(r'name="csrf" value="[^"]*"', "", answer.text)
    for name, value in parts.items():
        text = text.replace(value, f"<{name}>")
    return answer.status_code, text


@pytest.mark.parametrize("entry", [each for each in ABOUT_TENANTS if each.method == "GET"], ids=name_of)
async def test_a_page_of_ones_own_tenant_shows_nothing_of_another(street: Street, entry: Entry) -> None:
    status, text = await answered(street.own.owner, entry, street.own.parts)
    assert (status, CANARY in text) == (200, False)
    status, text = await answered(street.foreign.owner, entry, street.foreign.parts)
    assert (status, CANARY in text) == (200, True)  # otherwise the line above would prove nothing


@pytest.mark.parametrize("entry", ABOUT_TENANTS, ids=name_of)
async def test_another_tenants_id_answers_like_one_that_never_was_and_changes_nothing(
    street: Street, database: Database, entry: Entry
) -> None:
    before = await database.control.read(CONTROL, of=street.foreign.tenant.id)
    foreign = await answered(street.own.owner, entry, street.foreign.parts)
    invented = await answered(street.own.owner, entry, unknown(street.foreign.parts))
    assert foreign == invented
    assert foreign[0] == 404
    assert CANARY not in foreign[1]
    assert await database.control.read(CONTROL, of=street.foreign.tenant.id) == before


@pytest.mark.parametrize(
    "entry", [each for each in ABOUT_TENANTS if each.path.count("{") > 1] + ABOUT_ONESELF, ids=name_of
)
async def test_another_tenants_records_under_ones_own_address_answer_like_none(
    street: Street, database: Database, entry: Entry
) -> None:
    before = await database.control.read(CONTROL, of=street.foreign.tenant.id)
    mixed = {**street.foreign.parts, "tenant": street.own.tenant.id}
    foreign = await answered(street.own.owner, entry, mixed)
    invented = await answered(street.own.owner, entry, unknown(mixed, "tenant", "handle"))
    assert foreign == invented
    assert CANARY not in foreign[1]
    assert await database.control.read(CONTROL, of=street.foreign.tenant.id) == before
    assert len(await street.foreign.owner.stage.console.passkeys.of_user(street.foreign.owner.user.id)) == 1

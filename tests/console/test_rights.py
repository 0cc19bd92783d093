"""Who may see and do what: every page and form of the table, for every kind of person."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
import pytest_asyncio

from app.console.rights import Right
from app.console.routes import TABLE, Entry
from app.context import Role
from app.store.control.tenants import Tenant, TenantState
from tests.console.conftest import Person, Stage, text_of

PAGES = [entry for entry in TABLE if entry.method == "GET"]
FORMS = [entry for entry in TABLE if entry.method == "POST"]


def name_of(entry: Entry) -> str:
    return f"{entry.method} {entry.path}"


def path_of(entry: Entry, **parts: str) -> str:
    """The address of a page; a part that is not given is an id that never was."""
    return re.sub(r"\{(\w+)\}", lambda part: parts.get(part[1], f"{part[1]}-unknown"), entry.path)


@dataclass
class Cast:
    """One of each."""

    tenant: Tenant
    owner: Person
    member: Person
    reader: Person
    stranger: Person
    operator: Person
    looker: Person

    def parts(self) -> dict[str, str]:
        """Ids of things that exist in the tenant."""
        return {"tenant": self.tenant.id, "user": self.member.user.id, "subject": self.tenant.id}


@pytest_asyncio.fixture(scope="module")
async def cast(stage: Stage) -> Cast:
    tenant, other, operators = await stage.tenant("house", "work"), await stage.tenant("other"), await stage.operators()
    return Cast(
        tenant,
        owner=await stage.person((tenant, Role.OWNER)),
        member=await stage.person((tenant, Role.MEMBER)),
        reader=await stage.person((tenant, Role.READER)),
        stranger=await stage.person((other, Role.OWNER)),
        operator=await stage.person((operators, Role.OWNER)),
        looker=await stage.person((operators, Role.READER)),
    )


@pytest.mark.parametrize("entry", TABLE, ids=name_of)
async def test_nobody_sees_or_does_anything_without_signing_in(stage: Stage, cast: Cast, entry: Entry) -> None:
    nobody = Person(stage, cast.owner.user, "a" * 43)
    path = path_of(entry, **cast.parts())
    answer = await (nobody.get(path) if entry.method == "GET" else nobody.post(path))
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in")


@pytest.mark.parametrize("entry", [each for each in TABLE if each.right is Right.OWNER], ids=name_of)
async def test_only_owners_pass_where_owners_may(cast: Cast, entry: Entry) -> None:
    path = path_of(entry, **cast.parts())
    for person in (cast.member, cast.reader):
        answer = await (person.get(path) if entry.method == "GET" else person.post(path))
        assert (answer.status_code, "for owners of" in text_of(answer)) == (403, True)
    for person in (cast.stranger, cast.operator):
        answer = await (person.get(path) if entry.method == "GET" else person.post(path))
        assert (answer.status_code, cast.tenant.name in answer.text) == (404, False)


@pytest.mark.parametrize("entry", [each for each in TABLE if each.right is Right.OPERATOR], ids=name_of)
async def test_only_operators_pass_where_operators_may_and_a_reader_among_them_looks(cast: Cast, entry: Entry) -> None:
    path = path_of(entry, **cast.parts())
    for person in (cast.owner, cast.stranger):
        answer = await (person.get(path) if entry.method == "GET" else person.post(path))
        assert (answer.status_code, "for the operators" in text_of(answer)) == (403, True)
        assert cast.tenant.id not in answer.text or person is cast.owner
    if entry.method == "GET":
        assert (await cast.looker.get(path)).status_code == 200
    else:
        refused = await cast.looker.post(path)
        assert (refused.status_code, "you can look" in text_of(refused)) == (403, True)


@pytest.mark.parametrize("entry", [each for each in PAGES if each.right is not Right.SELF], ids=name_of)
async def test_each_page_says_which_tenant_it_is_about(cast: Cast, entry: Entry) -> None:
    person = cast.owner if entry.right is Right.OWNER else cast.operator
    page = await person.get(path_of(entry, **cast.parts()))
    assert page.status_code == 200
    about = re.search(r'<p class="about">(.*?)</p>', page.text, re.DOTALL)
    assert about is not None
    assert (cast.tenant.name if entry.right is Right.OWNER or "{subject}" in entry.path else "Gateway") in about[1]


@pytest.mark.parametrize("entry", FORMS, ids=name_of)
async def test_a_form_counts_only_with_its_own_token(cast: Cast, entry: Entry) -> None:
    person = cast.operator if entry.right is Right.OPERATOR else cast.owner
    path = path_of(entry, **cast.parts())
    refused = await person.send(path, {"csrf": await person.token("/console/other")})
    assert (refused.status_code, "stale" in refused.text) == (403, True)


async def test_a_form_counts_only_in_its_own_browser_and_from_our_own_page(cast: Cast) -> None:
    person, path = cast.owner, f"/console/t/{cast.tenant.id}/layers"
    token = await person.token(path)
    for form, origin in (
        ({"layer": "x"}, ""),
        ({"layer": "x", "csrf": await cast.stranger.token(path)}, ""),
        ({"layer": "x", "csrf": token}, "https://evil.example"),
        ({"layer": "x", "csrf": token}, "null"),
    ):
        refused = await person.send(path, form, **({"Origin": origin} if origin else {}))
        assert (refused.status_code, "stale" in refused.text) == (403, True)
    assert (await person.send(path, {"layer": "x", "csrf": token})).status_code == 303


async def test_nothing_of_a_suspended_tenant_is_reached_until_it_goes_on(stage: Stage) -> None:
    tenant = await stage.tenant("asleep")
    owner = await stage.person((tenant, Role.OWNER))
    path = f"/console/t/{tenant.id}/members"
    await stage.services.tenants.set_state(tenant.id, TenantState.SUSPENDED)
    refused = await owner.get(path)
    assert (refused.status_code, "is suspended" in refused.text) == (403, True)
    assert "suspended" in (await owner.get("/console/tenants")).text
    await stage.services.tenants.set_state(tenant.id, TenantState.ACTIVE)
    assert (await owner.get(path)).status_code == 200
    await stage.services.tenants.set_state(tenant.id, TenantState.DELETED)
    assert (await owner.get(path)).status_code == 404
    assert tenant.name not in (await owner.get("/console/tenants")).text


async def test_pages_are_neither_framed_nor_stored_and_run_no_script_but_ours(cast: Cast) -> None:
    for path in ("/console", "/console/security", f"/console/t/{cast.tenant.id}/members"):
        page = await cast.owner.get(path)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert ("script-src 'self'" in policy) is (path == "/console/security")
        assert page.headers["cache-control"] == "no-store"
        assert not re.search(r"<[^>]+\son\w+=|<script>|style=", page.text)


async def test_signing_in_leads_back_to_the_page_that_was_wanted(stage: Stage, cast: Cast) -> None:
    nobody = Person(stage, cast.owner.user, "a" * 43)
    answer = await nobody.get(f"/console/t/{cast.tenant.id}/members")
    assert answer.headers["location"] == f"/sign-in?request=/console/t/{cast.tenant.id}/members"

"""Pages for operators: tenants, limits, keys, one-time links, the audit of everything."""

from __future__ import annotations

import re

import pytest

from app.context import Role
from app.store.control.tenants import TenantState
from tests.console.conftest import Form, Person, Stage, text_of
from tests.identity import fresh_name


async def an_operator(stage: Stage) -> Person:
    return await stage.person((await stage.operators(), Role.OWNER))


async def test_a_tenant_is_made_gets_an_owner_by_link_and_is_renamed(stage: Stage) -> None:
    operator, name = await an_operator(stage), fresh_name("made")
    page = await operator.after(await operator.post("/console/gateway/tenants", {"name": name}))
    tenant = await stage.services.tenants.by_name(name)
    assert tenant is not None
    assert "none yet" in page.text
    base = f"/console/gateway/tenants/{tenant.id}"
    taken = await operator.post("/console/gateway/tenants", {"name": name})
    assert (taken.status_code, "exists already" in taken.text) == (409, True)
    shown = await operator.after(await operator.post(f"{base}/owner"))
    assert f"{stage.address}/invitation?token=" in shown.text
    (invitation,) = await stage.console.invitations.of_tenant(tenant.id)
    assert invitation.role is Role.OWNER
    new = fresh_name("renamed")
    assert new in (await operator.after(await operator.post(f"{base}/rename", {"name": new}))).text
    refused = await operator.post(f"{base}/rename", {"name": "/"})
    assert (refused.status_code, "a tenant&#39;s name" in refused.text) == (400, True)


async def test_a_tenant_is_suspended_resumed_and_deleted_once_its_name_was_typed(stage: Stage) -> None:
    operator, tenant = await an_operator(stage), await stage.tenant("doomed")
    base = f"/console/gateway/tenants/{tenant.id}"

    async def state() -> TenantState:
        found = await stage.services.tenants.by_id(tenant.id)
        assert found is not None
        return found.state

    assert "is suspended" in (await operator.after(await operator.post(f"{base}/suspend"))).text
    assert await state() is TenantState.SUSPENDED
    assert "goes on" in (await operator.after(await operator.post(f"{base}/resume"))).text
    assert await state() is TenantState.ACTIVE
    attempts: tuple[Form, ...] = ({}, {"confirm": "something else"})
    for typed in attempts:
        refused = await operator.post(f"{base}/delete", typed)
        assert (refused.status_code, "Type the tenant" in refused.text) == (400, True)
    assert await state() is TenantState.ACTIVE
    page = await operator.after(await operator.post(f"{base}/delete", {"confirm": tenant.name}))
    assert await state() is TenantState.DELETED
    assert tenant.id not in page.text
    assert re.search(rf"Being erased [^.]*{re.escape(tenant.name)}", text_of(page)), (
        "an answer at once, and what goes on"
    )
    for form in ("rename", "suspend", "resume", "delete", "limits", "owner"):
        assert (await operator.post(f"{base}/{form}", {"confirm": tenant.name})).status_code == 404


async def test_the_operators_own_tenant_cannot_be_suspended_renamed_or_deleted(stage: Stage) -> None:
    operator, own = await an_operator(stage), await stage.operators()
    base = f"/console/gateway/tenants/{own.id}"
    assert "/delete" not in (await operator.get(base)).text
    for form in ("suspend", "rename", "delete"):
        refused = await operator.post(f"{base}/{form}", {"name": fresh_name("x"), "confirm": own.name})
        assert refused.status_code == 409
    assert await stage.services.tenants.by_id(own.id) == own


async def test_limits_are_set_for_one_tenant_and_an_empty_field_brings_back_what_is_configured(stage: Stage) -> None:
    operator, tenant = await an_operator(stage), await stage.tenant("limited")
    base = f"/console/gateway/tenants/{tenant.id}"
    page = await operator.after(
        await operator.post(f"{base}/limits", {"calls_per_minute": "30", "quota_entities": "1000"})
    )
    found = await stage.services.tenants.by_id(tenant.id)
    assert found is not None
    assert (found.rules.calls_per_minute, found.rules.quota_entities, found.rules.burst) == (30, 1000, None)
    assert 'name="quota_entities" value="1000"' in page.text
    for bad in ("many", "-1", "1e99", "nan"):
        refused = await operator.post(f"{base}/limits", {"burst": bad})
        assert (refused.status_code, f'value="{bad}"' in refused.text) == (400, True)
    assert (await stage.services.tenants.by_id(tenant.id)) == found
    await operator.post(f"{base}/limits", {"quota_entities": "2000"})
    again = await stage.services.tenants.by_id(tenant.id)
    assert again is not None
    assert (again.rules.calls_per_minute, again.rules.quota_entities) == (None, 2000)


async def test_the_signing_key_is_rotated_and_old_tokens_stay_valid(stage: Stage) -> None:
    operator = await an_operator(stage)
    ring = await stage.console.vault.ring()
    before = {key.kid for key in ring.keys}
    page = await operator.after(await operator.post("/console/gateway/keys/rotate"))
    after = {key.kid for key in (await stage.console.vault.ring()).keys}
    assert before < after
    assert all(kid in page.text for kid in after)
    assert "new signing key" in page.text
    entries = await stage.services.audit.entries("", ["*"])
    assert ("key.rotate", operator.user.id) in {(entry.action, entry.actor) for entry in entries}


async def test_a_one_time_link_is_made_for_an_account_that_exists(stage: Stage) -> None:
    operator, tenant = await an_operator(stage), await stage.tenant("house")
    lost = await stage.person((tenant, Role.MEMBER))
    page = await operator.get(f"/console/gateway/people?email={lost.user.email.upper()}")
    assert lost.user.id in page.text
    assert f"{tenant.name} (member)" in text_of(page)
    assert "no account with" in (await operator.get("/console/gateway/people?email=nobody@example.org")).text
    shown = await operator.after(await operator.post("/console/gateway/people/link", {"email": lost.user.email}))
    link = re.search(rf"{stage.address}/sign-in/link\?token=[\w\-]+", shown.text)
    assert link is not None
    assert (await lost.get(link[0].removeprefix(stage.address))).status_code == 200
    refused = await operator.post("/console/gateway/people/link", {"email": "nobody@example.org"})
    assert (refused.status_code, "no account" in refused.text) == (400, True)


async def test_looking_into_a_tenants_audit_stands_in_that_audit(stage: Stage) -> None:
    operator, tenant = await an_operator(stage), await stage.tenant("watched")
    owner = await stage.person((tenant, Role.OWNER))
    told = {"tenant": tenant.id, "actor": owner.user.id}
    await stage.services.audit.append(**told, action="memory.delete", target="qzx-id", detail={"reason": "qzx reason"})
    await stage.services.audit.append(**told, action="layer.add", target="work")
    everything = await operator.get(f"/console/gateway/audit?actor={owner.user.email}")
    assert "Layer added" in text_of(everything)
    assert tenant.name in everything.text
    assert "memory.delete" in everything.text
    assert "qzx" not in everything.text
    assert (await stage.services.audit.entries(tenant.id, ["*"]))[0].action == "layer.add"
    only = await operator.get("/console/gateway/audit", tenant=tenant.name)
    assert only.status_code == 200
    assert "qzx reason" in only.text
    await operator.get("/console/gateway/audit?before=9999999999999999.au-ffffffffffffffffffffffff", tenant=tenant.name)
    noted = [entry.action for entry in await stage.services.audit.entries(tenant.id, ["*"])]
    assert noted.count("audit.search") == 2, "a page further on is looked into too"
    seen = text_of(await owner.get(f"/console/t/{tenant.id}/audit"))
    assert "Audit read by an operator" in seen
    assert operator.user.email in seen
    unknown = await operator.get("/console/gateway/audit?tenant=no-such-tenant")
    assert (unknown.status_code, "no tenant of this name" in unknown.text) == (404, True)


@pytest.mark.parametrize("path", ["/console/gateway/tenants/tn-unknown", "/console/gateway/nothing"])
async def test_what_is_not_there_is_not_found(stage: Stage, path: str) -> None:
    assert (await (await an_operator(stage)).get(path)).status_code == 404


async def test_tenants_are_found_by_name_and_listed_page_by_page(stage: Stage) -> None:
    operator = await an_operator(stage)
    tenant = await stage.tenant("findable")
    found = await operator.get("/console/gateway/tenants", name=tenant.name.upper())
    assert re.findall(r'aria-label="Open ([^"]+)"', found.text) == [tenant.name]
    assert "No tenant has such a name" in (await operator.get("/console/gateway/tenants?name=no-such-name")).text
    mark = fresh_name("many")
    for number in range(55):
        await stage.services.tenants.create(f"{mark} {number:02}")
    first = await operator.get("/console/gateway/tenants", name=mark)
    more = re.search(r'href="(/console/gateway/tenants\?[^"]+)"', first.text)
    assert more is not None
    second = await operator.get(more[1].replace("&amp;", "&"))
    names = re.findall(r'aria-label="Open ([^"]+)"', first.text + second.text)
    assert names == [f"{mark} {number:02}" for number in range(55)]


async def test_only_an_owner_among_the_operators_lets_someone_in_as_an_operator(stage: Stage) -> None:
    own = await stage.operators()
    owner, member = await an_operator(stage), await stage.person((own, Role.MEMBER))
    invite, link = f"/console/gateway/tenants/{own.id}/owner", "/console/gateway/people/link"
    for refused in (await member.post(invite), await member.post(link, {"email": owner.user.email})):
        assert (refused.status_code, "an owner among them" in refused.text) == (403, True)
    ordinary = await stage.person((await stage.tenant("house"), Role.OWNER))
    assert (await member.post(link, {"email": ordinary.user.email})).status_code == 303
    assert (await owner.post(link, {"email": member.user.email})).status_code == 303

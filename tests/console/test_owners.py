"""Pages for owners: members, invitations, layers, service accounts, connections, usage, audit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from app.access.accounts import Accounts
from app.context import Role
from app.store.control.tenants import Tenant
from tests.console.conftest import Form, Person, Stage, text_of


async def a_house(stage: Stage, *layers: str) -> tuple[Tenant, Person, str]:
    tenant = await stage.tenant("house", *layers)
    return tenant, await stage.person((tenant, Role.OWNER)), f"/console/t/{tenant.id}"


async def test_role_and_layers_of_a_member_are_changed(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage, "work")
    member = await stage.person((tenant, Role.MEMBER))
    path = f"{base}/members/{member.user.id}"
    assert 'value="member" checked' in (await owner.get(path)).text
    form: Form = {"role": "member", "read": ["tenant", "work"], "write": ["work"]}
    page = await owner.after(await owner.post(path, form))
    assert "Saved" in page.text
    held = await stage.services.users.membership(member.user.id, tenant.id)
    assert held is not None
    assert held.read_layers == {"", "work"}
    assert held.write_layers == {"work"}
    await owner.post(path, {**form, "role": "reader"})
    reader = await stage.services.users.membership(member.user.id, tenant.id)
    assert reader is not None
    assert reader.role is Role.READER
    assert reader.read_layers == {"", "work"}
    assert not reader.write_layers


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"role": "king", "read": "tenant"}, "Choose a role"),
        ({"role": "member"}, "Tick at least one layer"),
        ({"role": "member", "read": "*"}, "Only an owner holds every layer"),
        ({"role": "member", "read": "a\x00b"}, "layer"),
    ],
)
async def test_a_change_of_a_member_that_breaks_a_rule_changes_nothing(
    stage: Stage, form: dict[str, str], said: str
) -> None:
    tenant, owner, base = await a_house(stage)
    member = await stage.person((tenant, Role.MEMBER))
    before = await stage.services.users.membership(member.user.id, tenant.id)
    again = await owner.post(f"{base}/members/{member.user.id}", form)
    assert again.status_code in (400, 409)
    assert said in text_of(again)
    assert await stage.services.users.membership(member.user.id, tenant.id) == before


async def test_the_only_owner_can_neither_step_down_nor_leave(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage)
    path = f"{base}/members/{owner.user.id}"
    for refused in (
        await owner.post(path, {"role": "member", "read": "tenant"}),
        await owner.post(f"{path}/remove"),
    ):
        assert (refused.status_code, "only owner" in refused.text) == (409, True)
    second = await stage.person((tenant, Role.OWNER))
    assert second.user.email in (await owner.get(f"{base}/members")).text
    gone = await owner.after(await owner.post(f"{path}/remove"))
    assert tenant.name not in text_of(gone)
    assert (await owner.get(f"{base}/members")).status_code == 404


async def test_removing_a_member_ends_what_they_connected(stage: Stage, accounts: Accounts) -> None:
    tenant, owner, base = await a_house(stage)
    member = await stage.person((tenant, Role.MEMBER))
    grant = await stage.grant(member.user, tenant)
    token = (await accounts.create_token(member.user, tenant)).record
    assert grant.client_name in (await owner.get(f"{base}/connections")).text
    await owner.post(f"{base}/members/{member.user.id}/remove")
    kept = await stage.services.grants.find(grant.id)
    assert kept is not None
    assert kept.revoked_at is not None
    assert token.id not in (await owner.get(f"{base}/connections")).text
    assert "revoked" in text_of(await member.get("/console/tokens"))


async def test_an_owner_makes_a_way_in_for_a_member_who_belongs_nowhere_else(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage)
    member = await stage.person((tenant, Role.MEMBER))
    path = f"{base}/members/{member.user.id}/link"
    shown = await owner.after(await owner.post(path))
    link = re.search(rf"{stage.address}/sign-in/link\?token=[\w\-]+", shown.text)
    assert link is not None
    assert (await member.get(link[0].removeprefix(stage.address))).status_code == 200
    elsewhere = await stage.person((tenant, Role.MEMBER), (await stage.tenant("elsewhere"), Role.READER))
    refused = await owner.post(f"{base}/members/{elsewhere.user.id}/link")
    assert (refused.status_code, "other tenants" in refused.text) == (400, True)
    assert (await member.post(path)).status_code == 403


async def test_an_invitation_is_shown_once_accepted_by_its_link_and_withdrawn(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage, "work")
    form: Form = {"role": "reader", "read": ["tenant", "work"], "write": ["work"], "email": "Kai@Example.org"}
    shown = await owner.after(await owner.post(f"{base}/invitations", form))
    link = re.search(rf"{stage.address}/invitation\?token=[\w\-]+", shown.text)
    assert link is not None
    (open_one,) = await stage.console.invitations.of_tenant(tenant.id)
    assert (open_one.role, set(open_one.read_layers), open_one.write_layers) == (Role.READER, {"", "work"}, [])
    page = await owner.get(f"{base}/invitations")
    assert "kai@example.org" in page.text.lower()
    assert link[0] not in page.text
    withdrawn = await owner.after(await owner.post(f"{base}/invitations/{open_one.id}/withdraw"))
    assert "Withdrawn" in withdrawn.text
    assert await stage.console.invitations.of_tenant(tenant.id) == []
    again = await owner.post(f"{base}/invitations", {**form, "email": "no address"})
    assert (again.status_code, "not an e-mail address" in text_of(again)) == (400, True)


async def test_a_layer_is_added_and_shows_who_holds_it(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage)
    page = await owner.after(await owner.post(f"{base}/layers", {"layer": "project:atlas"}))
    assert "project:atlas" in page.text
    again = await owner.post(f"{base}/layers", {"layer": "project:atlas"})
    assert (again.status_code, "exists already" in again.text) == (409, True)
    assert 'value="project:atlas"' in again.text
    assert (await owner.post(f"{base}/layers", {"layer": "global"})).status_code == 400
    found = await stage.services.tenants.by_id(tenant.id)
    assert found is not None
    assert found.layers == {"project:atlas"}


async def test_a_service_account_shows_its_secret_once_is_renewed_and_removed(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage, "work")
    form: Form = {"name": "nightly", "scope": ["memory:read", "admin"], "read": ["tenant", "*"]}
    shown = await owner.after(await owner.post(f"{base}/services/new", form))
    (account,) = await stage.console.service_accounts.of_tenant(tenant.id)
    assert (account.scopes, account.read_layers) == (("memory:read",), ("",))
    lines = re.findall(r'<code class="copy secret">([^<]+)</code>', shown.text)
    assert lines[0] == account.id
    assert lines[1] not in (await owner.get(f"{base}/services")).text
    renewed = await owner.after(await owner.post(f"{base}/services/{account.id}/renew"))
    assert lines[1] not in renewed.text
    again = await owner.post(f"{base}/services/new", form)
    assert (again.status_code, "already" in again.text) == (409, True)
    assert "Removed" in (await owner.after(await owner.post(f"{base}/services/{account.id}/remove"))).text
    assert await stage.console.service_accounts.of_tenant(tenant.id) == []


async def test_an_owner_ends_members_connections_to_the_own_tenant_alone(stage: Stage, accounts: Accounts) -> None:
    tenant, owner, base = await a_house(stage)
    other = await stage.tenant("other")
    member = await stage.person((tenant, Role.MEMBER), (other, Role.OWNER))
    here, there = await stage.grant(member.user, tenant), await stage.grant(member.user, other, "Hidden program")
    token, foreign = [(await accounts.create_token(member.user, each)).record for each in (tenant, other)]
    page = await owner.get(f"{base}/connections")
    assert member.user.email in page.text
    assert "Hidden program" not in page.text
    assert foreign.id not in page.text
    for path in (f"connections/{there.id}/disconnect", f"tokens/{foreign.id}/revoke"):
        assert (await owner.post(f"{base}/{path}")).status_code == 404
    assert (await stage.services.grants.find(there.id)) == there
    assert "Disconnected" in (await owner.after(await owner.post(f"{base}/connections/{here.id}/disconnect"))).text
    assert "Revoked" in (await owner.after(await owner.post(f"{base}/tokens/{token.id}/revoke"))).text
    alive = {each.id: each.alive for each in await accounts.tokens.of_user(member.user.id)}
    assert alive == {token.id: False, foreign.id: True}


async def test_usage_stands_against_the_limits_of_the_tenant(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage)
    said = text_of(await owner.get(f"{base}/usage"))
    assert "1,234 of 200,000" in said
    assert "5,678 of 2,000,000" in said
    await stage.services.tenants.set_rules(tenant.id, replace(tenant.rules, quota_entities=2468))
    assert "1,234 of 2,468" in text_of(await owner.get(f"{base}/usage"))


async def test_the_audit_shows_the_tenants_own_and_is_searched_page_by_page(stage: Stage) -> None:
    tenant, owner, base = await a_house(stage)
    other, stranger, _ = await a_house(stage)
    audit = stage.services.audit
    for number in range(60):
        await audit.append(tenant=tenant.id, actor=owner.user.id, action="layer.add", target=f"n{number}")
    await audit.append(tenant=other.id, actor=stranger.user.id, action="layer.add", target="of-others")
    first = await owner.get(f"{base}/audit")
    older = re.search(r'href="([^"]+before=[^"]+)"', first.text)
    assert older is not None
    second = await owner.get(older[1].replace("&amp;", "&"))
    seen = re.findall(r"<span>(n\d+)</span>", first.text + second.text)
    assert sorted(seen) == sorted(f"n{number}" for number in range(60))
    assert "of-others" not in first.text + second.text
    assert "n1</span>" in (await owner.get(f"{base}/audit?actor={owner.user.email}&before=")).text + second.text
    assert "Nothing fits" in (await owner.get(f"{base}/audit?action=token")).text
    assert "Nothing fits" in (await owner.get(f"{base}/audit?actor={stranger.user.email}")).text
    assert "Nothing fits" in (await owner.get(f"{base}/audit?until=2020-01-01")).text
    refused = await owner.get(f"{base}/audit?since=yesterday")
    assert (refused.status_code, "year, month and day" in refused.text) == (400, True)
    assert (await owner.get(f"{base}/audit?before=9.au-zz")).status_code == 200


async def test_an_owners_audit_reaches_as_far_as_their_layers(stage: Stage) -> None:
    tenant = await stage.tenant("house", "work", "secret")
    owner = await stage.person((tenant, Role.OWNER), read_layers=["", "work"], write_layers=[""])
    for layer in ("work", "secret"):
        await stage.services.audit.append(
            tenant=tenant.id, actor="us-x", action="layer.add", target=layer, layers=[layer]
        )
    page = await owner.get(f"/console/t/{tenant.id}/audit")
    assert "<span>work</span>" in page.text
    assert "<span>secret</span>" not in page.text


async def test_an_address_stands_only_where_an_entry_names_a_person(stage: Stage) -> None:
    """A caller chooses reasons, names of layers and ids of entities: one like a person's id tells no address."""
    tenant = await stage.tenant("house")
    owner, stranger, member = [await stage.person(*places) for places in ([(tenant, Role.OWNER)], [], [])]
    audit, says = stage.services.audit, {"tenant": tenant.id, "actor": owner.user.id}
    detail = {"reason": stranger.user.id, "relation": owner.user.id}
    await audit.append(**says, action="memory.boost", target=stranger.user.id, detail=detail)
    await audit.append(**says, action="layer.add", target=stranger.user.id)
    text = (await owner.get(f"/console/t/{tenant.id}/audit")).text
    assert stranger.user.email not in text
    assert text.count(f"{stranger.user.id}</span>") == 3
    assert f"relation: {owner.user.id}</span>" in text
    await audit.append(**says, action="token.create", target="tk-1", detail={"for": member.user.id})
    await audit.append(**says, action="user.remove", target=member.user.id)
    assert (await owner.get(f"/console/t/{tenant.id}/audit")).text.count(f"{member.user.email}</span>") == 2

"""The consent page: only ever what was asked for, what the person may give, and what they ticked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from app.context import Role
from app.store.control.audit import AuditQuery
from tests.oauth.conftest import CALLBACK, Gateway, Life, form_of


async def test_it_shows_who_asks_and_that_nobody_vouches_for_a_local_program(life: Life) -> None:
    await life.register(client_name="<b>Claude</b> & co")
    page = (await life.to_consent()).text
    assert "&lt;b&gt;Claude&lt;/b&gt; &amp; co" in page
    assert "127.0.0.1" in page
    assert "not verified" in page
    assert "a program on the computer you are using now" in page


async def test_a_known_host_is_marked_as_allowed_and_an_unknown_one_as_unverified(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    life: Life = await open_life(await start_gateway(redirect_hosts=("*", "https://claude.ai")))
    await life.register(redirect_uris=["https://claude.ai/api/mcp/auth_callback"])
    assert "not verified" not in (await life.to_consent()).text
    await life.register(redirect_uris=["https://elsewhere.example/x"])
    page = await life.to_consent()
    assert "not verified" in page.text
    assert "https://elsewhere.example" in page.headers["content-security-policy"]


async def test_pages_cannot_be_framed_scripted_or_stored(life: Life) -> None:
    consent, sign_in = await life.to_consent(), await life.browser.get(f"{life.address}/sign-in")
    assert "script-src" not in consent.headers["content-security-policy"]
    assert "script-src 'self'" in sign_in.headers["content-security-policy"].split("; "), "for passkeys alone"
    for page in (consent, sign_in):
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"


async def test_the_grant_is_what_was_ticked(life: Life) -> None:
    services = life.gateway.main
    await services.tenants.add_layers(life.person.tenant.id, ["work", "family"])
    page = await life.to_consent(scope="memory:read memory:write ledger:read ledger:write")
    answer = await life.answer(
        page,
        scope=["memory:read", "memory:write"],
        read=["tenant", "work"],
        write=["work"],
        write_layer=["work"],
    )
    tokens = (await life.exchange(life.returned(answer)["code"])).json()
    claims = await life.claims(tokens["access_token"])
    assert claims["scope"] == "memory:read memory:write"
    assert (claims["gk"]["read"], claims["gk"]["write"], claims["gk"]["layer"]) == (["", "work"], ["work"], "work")


async def test_what_was_not_asked_for_cannot_be_ticked(life: Life) -> None:
    page = await life.to_consent(scope="memory:read")
    answer = await life.answer(page, scope=["memory:read", "memory:write", "admin", "ledger:read"])
    tokens = (await life.exchange(life.returned(answer)["code"])).json()
    assert tokens["scope"] == "memory:read"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scope": []}, "Tick at least one thing"),
        ({"read": []}, "Tick at least one layer"),
        ({"read": ["tenant"], "write": ["*"]}, "only where it can be read"),
        ({"read": ["tenant"], "write": []}, "Choose a layer for new memories"),
        ({"write": ["tenant"], "write_layer": ["elsewhere"]}, "Choose a layer for new memories"),
        ({"new_layer": ["global"]}, "reserved word"),
        ({"new_layer": ["a\x00b"]}, "a layer&#39;s name"),
    ],
)
async def test_a_choice_that_contradicts_itself_is_asked_again(
    life: Life, changes: dict[str, list[str]], said: str
) -> None:
    again = await life.answer(await life.to_consent(), "allow", **changes)
    assert again.status_code == 400
    assert said in again.text
    assert life.returned(await life.answer(again, scope=["memory:read"], read=["tenant"]))["code"]


async def test_a_layer_for_which_the_tenant_has_no_room_is_asked_about_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await life.to_consent()
    chosen: dict[str, list[str]] = {"read": ["tenant"], "write": [], "write_layer": ["+new"], "new_layer": ["one:more"]}
    with monkeypatch.context() as full:
        full.setattr("app.store.control.tenants.MOST_LAYERS", 0)
        again = await life.answer(page, **chosen)
    assert (again.status_code, "at most 0 layers" in again.text) == (400, True)
    assert life.returned(await life.answer(again, **chosen))["code"]


async def test_an_owner_may_name_a_layer_which_then_exists(life: Life) -> None:
    page = await life.to_consent()
    answer = await life.answer(page, read=["tenant"], write=[], write_layer=["+new"], new_layer=["project:atlas"])
    tokens = (await life.exchange(life.returned(answer)["code"])).json()
    claims = (await life.claims(tokens["access_token"]))["gk"]
    assert (claims["read"], claims["write"], claims["layer"]) == (
        ["", "project:atlas"],
        ["project:atlas"],
        "project:atlas",
    )
    tenant = await life.gateway.main.tenants.by_id(life.person.tenant.id)
    assert tenant is not None
    assert "project:atlas" in tenant.layers
    audit = life.gateway.main.audit
    (added,) = await audit.entries(tenant.id, ["", "project:atlas"], AuditQuery(action="layer.add"))
    assert (added.actor, added.target) == (life.person.user.id, "project:atlas")
    assert await audit.entries(tenant.id, [""], AuditQuery(action="layer.add")) == []  # its name is a layer's own


async def test_what_is_new_is_still_marked_when_a_choice_is_asked_again(life: Life) -> None:
    await life.tokens(scope="memory:read")
    page = await life.to_consent(scope="memory:read memory:write")
    assert "Memory: change (new)" in page.text
    again = await life.answer(page, "allow", read=[])
    assert (again.status_code, "Memory: change (new)" in again.text) == (400, True)


async def test_a_reader_is_never_offered_a_write(gateway: Gateway, open_life: Callable[..., Any]) -> None:
    life: Life = await open_life(gateway, role=Role.READER)
    await life.register()
    page = await life.to_consent()
    assert "memory:write" not in page.text
    answer = await life.answer(page, scope=["memory:read", "memory:write"], write=["tenant"], write_layer=["tenant"])
    tokens = (await life.exchange(life.returned(answer)["code"])).json()
    claims = await life.claims(tokens["access_token"])
    assert claims["scope"] == "memory:read"
    assert (claims["gk"]["write"], claims["gk"]["layer"]) == ([], None)


async def test_a_member_gives_no_layer_that_they_do_not_have(gateway: Gateway, open_life: Callable[..., Any]) -> None:
    life: Life = await open_life(gateway, role=Role.MEMBER, layers=("secret",))
    await life.register()
    page = await life.to_consent()
    assert "secret" not in page.text
    answer = await life.answer(page, read=["tenant", "secret", "*"], new_layer=["mine"])
    tokens = (await life.exchange(life.returned(answer)["code"])).json()
    assert (await life.claims(tokens["access_token"]))["gk"]["read"] == [""]


async def test_a_person_chooses_among_their_tenants_and_no_others(life: Life, open_life: Callable[..., Any]) -> None:
    services = life.gateway.main
    stranger: Life = await open_life(life.gateway)
    second = await services.tenants.create(f"second {life.person.user.id[-8:]}")
    await services.users.put_membership(life.person.user.id, second.id, Role.MEMBER)
    page = await life.to_consent()
    assert second.name in page.text
    request = form_of(page.text)["request"][0]
    other = await life.browser.get(f"{life.address}/consent?request={request}&tenant={second.id}")
    assert form_of(other.text)["tenant"] == [second.id]
    refused = await life.answer(other, tenant=[stranger.person.tenant.id])
    assert refused.status_code == 400
    tokens = (await life.exchange(life.returned(await life.answer(other))["code"])).json()
    assert (await life.claims(tokens["access_token"]))["gk"]["tenant"] == second.id


async def test_the_last_choice_is_remembered_for_the_client(life: Life) -> None:
    page = await life.to_consent()
    await life.answer(page, scope=["memory:read"], read=["tenant"])
    again = form_of((await life.to_consent()).text)
    assert again["scope"] == ["memory:read"]
    assert again["read"] == ["tenant"]
    more = form_of((await life.to_consent(scope="memory:read memory:write ledger:read")).text)
    assert more["scope"] == ["memory:read", "memory:write", "ledger:read"]


async def test_what_a_connected_program_asks_for_beyond_what_it_has_is_marked(life: Life) -> None:
    first = await life.to_consent(scope="memory:read memory:write")
    assert "asks for more" not in first.text
    code = life.returned(await life.answer(first, scope=["memory:read"], read=["tenant"]))["code"]
    assert (await life.exchange(code)).status_code == 200
    more = (await life.to_consent(scope="memory:read memory:write ledger:read")).text
    assert "asks for more than it may do now" in more
    assert 'aria-label="Memory: change (new)"' in more
    assert 'aria-label="Ledger: read (new)"' in more
    assert 'aria-label="Memory: read"' in more
    same = await life.to_consent(scope="memory:read")
    assert "asks for more" not in same.text


async def test_a_program_that_was_disconnected_begins_anew_with_the_last_choice_ticked(life: Life) -> None:
    services = life.gateway.main
    page = await life.to_consent(scope="memory:read memory:write")
    await life.exchange(life.returned(await life.answer(page, scope=["memory:read"], read=["tenant"]))["code"])
    (grant,) = await services.grants.of_user(life.person.user.id)
    await services.grants.revoke(grant.id, reason="test", now=time.time())
    again = await life.to_consent(scope="memory:read memory:write")
    assert "asks for more" not in again.text
    assert form_of(again.text)["scope"] == ["memory:read"]


async def test_the_page_says_where_the_choice_can_be_changed_later(life: Life) -> None:
    assert 'href="/console/programs"' in (await life.to_consent()).text


async def test_refusing_tells_the_client(life: Life) -> None:
    values = life.returned(await life.answer(await life.to_consent(), "refuse"))
    assert values["error"] == "access_denied"
    assert "code" not in values


async def test_a_question_is_answered_once(life: Life) -> None:
    page = await life.to_consent()
    assert life.returned(await life.answer(page))["code"]
    again = await life.answer(page)
    assert (again.status_code, "location" in again.headers) == (400, False)


async def test_a_post_without_the_token_of_this_form_and_browser_changes_nothing(life: Life) -> None:
    page = await life.to_consent()
    tokens: tuple[list[str], ...] = ([], [""], ["x" * 43])
    for token in tokens:
        refused = await life.answer(page, csrf=token)
        assert (refused.status_code, "location" in refused.headers) == (403, False)
    assert life.returned(await life.answer(page))["code"]


async def test_a_post_from_another_origin_or_person_is_refused(life: Life, open_life: Callable[..., Any]) -> None:
    page = await life.to_consent()
    fields = {**form_of(page.text), "answer": ["allow"]}
    foreign = await life.browser.post(
        f"{life.address}/consent", data=fields, headers={"Origin": "https://evil.example"}
    )
    assert foreign.status_code == 403
    other: Life = await open_life(life.gateway)
    assert (await other.browser.post(f"{life.address}/consent", data=fields)).status_code == 403


async def test_a_browser_that_nobody_signed_in_with_is_sent_to_sign_in(life: Life) -> None:
    page = await life.to_consent()
    life.browser.cookies.clear()
    answer = await life.answer(page)
    assert answer.headers["location"].startswith("/sign-in?request=")


async def test_an_open_question_expires(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    page = await life.to_consent()
    later = time.time() + 16 * 60
    life.browser.cookies.jar.clear_expired_cookies()
    monkeypatch.setattr("app.oauth.consent_page.time.time", lambda: later)
    refused = await life.answer(page)
    assert (refused.status_code, "location" in refused.headers) == (400, False)


async def test_someone_without_a_tenant_can_give_nothing(life: Life) -> None:
    services = life.gateway.main
    heir = await services.users.create("heir." + life.person.email)
    await services.users.put_membership(heir.id, life.person.tenant.id, Role.OWNER)
    await services.users.remove_membership(life.person.user.id, life.person.tenant.id)
    page = await life.follow(await life.ask())
    assert (page.status_code, "No tenant" in page.text) == (403, True)
    assert CALLBACK not in page.text

"""A person's own pages: connections, tokens, ways to sign in."""

from __future__ import annotations

import re
import time

import pytest

from app.access.accounts import Accounts
from app.context import Role
from app.oauth.secrets import digest
from app.oauth.service import narrowed
from app.store.control.revocations import RevocationKind, Revocations
from app.store.database import Database
from tests.console.conftest import Form, Person, Stage, text_of


async def a_person(stage: Stage, role: Role = Role.OWNER, *layers: str) -> tuple[Person, str]:
    tenant = await stage.tenant("home", *layers)
    return await stage.person((tenant, role)), tenant.id


async def test_a_connection_shows_what_it_may_do_in_words_and_for_which_tenant(stage: Stage) -> None:
    tenant = await stage.tenant("archive", "work")
    person = await stage.person((tenant, Role.OWNER))
    await stage.grant(person.user, tenant, "<i>Claude</i>", read_layers=["*"], write_layers=["", "work"])
    page = await person.get("/console/programs")
    assert "&lt;i&gt;Claude&lt;/i&gt;" in page.text
    said = text_of(page)
    for words in (tenant.name, "claude.ai", "5 minutes ago", "Memory: read and change", "every layer, later ones too"):
        assert words in said
    assert "tenant-wide, work; new memories go to tenant-wide" in said


async def test_a_connection_is_changed_and_the_next_refresh_gives_what_was_chosen(
    stage: Stage, database: Database
) -> None:
    tenant = await stage.tenant("archive", "work")
    person = await stage.person((tenant, Role.OWNER))
    grant = await stage.grant(person.user, tenant)
    path = f"/console/programs/{grant.id}"
    assert 'value="memory:write" aria-label="Memory: change" checked' in (await person.get(path)).text
    page = await person.after(
        await person.post(path, {"scope": ["memory:read", "ledger:read"], "read": ["tenant", "work"]})
    )
    assert "Saved" in page.text
    kept = await stage.services.grants.find(grant.id)
    assert kept is not None
    place = await stage.services.place_of(kept)
    assert place is not None
    given = narrowed(kept, place)
    assert given.scopes == {"memory:read", "ledger:read"}
    assert given.read_layers == {"", "work"}
    assert not given.write_layers
    ended = {(each.kind, each.key) for each in await Revocations(database.control).current()}
    assert (RevocationKind.CHANGE, grant.id) in ended


async def test_a_change_gives_nothing_that_was_never_asked_for_and_contradicts_itself_nowhere(stage: Stage) -> None:
    tenant = await stage.tenant("archive")
    person = await stage.person((tenant, Role.READER))
    grant = await stage.grant(person.user, tenant, scopes=["memory:read"], write_layers=[], write_layer=None)
    path = f"/console/programs/{grant.id}"
    again = await person.post(path, {"scope": ["memory:write", "admin", "knowledge:read"], "read": ["tenant"]})
    assert (again.status_code, "Tick at least one thing" in again.text) == (400, True)
    kept = await stage.services.grants.find(grant.id)
    assert kept == grant
    await person.post(path, {"scope": ["memory:read", "memory:write"], "read": ["tenant"], "write": ["tenant"]})
    kept = await stage.services.grants.find(grant.id)
    assert kept is not None
    assert (kept.scopes, kept.write_layers) == (["memory:read"], [])


async def test_a_connection_is_ended_by_its_person_alone(stage: Stage) -> None:
    tenant = await stage.tenant("archive")
    person, other = await stage.person((tenant, Role.OWNER)), await stage.person((tenant, Role.OWNER))
    grant = await stage.grant(person.user, tenant)
    for path in (f"/console/programs/{grant.id}", "/console/programs/gr-unknown"):
        assert (await other.get(path)).status_code == 404
        assert (await other.post(path, {"scope": "memory:read", "read": "tenant"})).status_code == 404
        assert (await other.post(f"{path}/disconnect")).status_code == 404
    assert (await stage.services.grants.find(grant.id)) == grant
    page = await person.after(await person.post(f"/console/programs/{grant.id}/disconnect"))
    assert "Disconnected" in page.text
    kept = await stage.services.grants.find(grant.id)
    assert kept is not None
    assert kept.revoked_at is not None
    assert (await person.post(f"/console/programs/{grant.id}/disconnect")).status_code == 404
    entries = await stage.services.audit.entries(tenant.id, ["*"])
    assert [(entry.action, entry.actor) for entry in entries] == [("grant.revoke", person.user.id)]


async def test_a_token_is_made_with_what_was_ticked_and_shown_once_to_one_browser(
    stage: Stage, database: Database
) -> None:
    tenant = await stage.tenant("archive", "work")
    person = await stage.person((tenant, Role.OWNER))
    form: Form = {
        "tenant": tenant.id,
        "scope": ["memory:read", "memory:write"],
        "read": ["tenant", "work"],
        "write": ["tenant", "work"],
        "write_layer": "work",
        "days": "30",
    }
    made = await person.post("/console/tokens/new", form)
    where = made.headers["location"]
    thief = Person(stage, person.user, await stage.sign_in(person.user))
    assert "Shown already" in (await thief.get(where)).text
    assert "Shown already" in (await person.get(where)).text  # one look was taken, even by another browser

    shown = await person.after(await person.post("/console/tokens/new", form))
    token = re.search(r'<code class="copy secret">(ey[^<]+)</code>', shown.text)
    assert token is not None
    assert token[1] not in (await person.get(str(shown.url))).text
    record = (await stage.console.accounts.tokens.of_user(person.user.id))[-1]
    assert record.scopes == ("memory:read", "memory:write")
    assert (record.read_layers, record.write_layers) == (("", "work"), ("work", ""))
    assert record.expires - record.created == 30 * 86_400_000
    page = await person.get("/console/tokens")
    assert record.id in page.text
    assert token[1] not in page.text


async def test_a_reader_makes_no_token_that_writes(stage: Stage) -> None:
    person, tenant = await a_person(stage, Role.READER)
    assert "memory:write" not in (await person.get("/console/tokens/new")).text
    form: Form = {
        "tenant": tenant,
        "scope": ["memory:read", "memory:write"],
        "read": "tenant",
        "write": "tenant",
        "days": "7",
    }
    await person.post("/console/tokens/new", form)
    (record,) = await stage.console.accounts.tokens.of_user(person.user.id)
    assert (record.scopes, record.write_layers) == (("memory:read",), ())


async def test_a_token_for_a_tenant_that_one_does_not_belong_to_is_refused_like_for_none(stage: Stage) -> None:
    person, _ = await a_person(stage)
    _, foreign = await a_person(stage)
    answers = [
        await person.post("/console/tokens/new", {"tenant": tenant, "scope": "memory:read", "read": "tenant"})
        for tenant in (foreign, "tn-unknown")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert text_of(answers[0]) == text_of(answers[1])
    assert await stage.console.accounts.tokens.of_user(person.user.id) == []


async def test_a_token_form_that_breaks_a_rule_is_shown_again_with_what_was_ticked(stage: Stage) -> None:
    person, tenant = await a_person(stage, Role.OWNER, "work")
    again = await person.post(
        "/console/tokens/new", {"tenant": tenant, "scope": "ledger:read", "read": [], "days": "7"}
    )
    assert (again.status_code, "Tick at least one layer" in again.text) == (400, True)
    assert 'value="ledger:read" aria-label="Ledger: read" checked' in again.text
    assert 'value="memory:read" aria-label="Memory: read" checked' not in again.text
    assert '<option value="7" selected>' in again.text
    days = await person.post(
        "/console/tokens/new", {"tenant": tenant, "scope": "ledger:read", "read": "*", "days": "x"}
    )
    assert (days.status_code, "1 to 365 days" in days.text) == (400, True)


async def test_a_token_is_revoked_by_its_person_alone(stage: Stage, accounts: Accounts) -> None:
    tenant = await stage.tenant("archive")
    person, other = await stage.person((tenant, Role.OWNER)), await stage.person((tenant, Role.OWNER))
    made = await accounts.create_token(person.user, tenant)
    action = f"/console/tokens/{made.record.id}/revoke"
    assert (await other.post(action)).status_code == 404
    assert (await accounts.tokens.of_user(person.user.id))[0].alive
    assert "Revoked" in (await person.after(await person.post(action))).text
    assert not (await accounts.tokens.of_user(person.user.id))[0].alive


async def test_what_changes_the_ways_in_needs_a_sign_in_of_a_moment_ago(stage: Stage) -> None:
    person, _ = await a_person(stage)
    key = await stage.passkey(person.user, "iPhone")
    person = Person(stage, person.user, await stage.sign_in(person.user, ago=3600))
    forms: dict[str, Form] = {
        "password": {"password": "four plain words together", "again": "four plain words together"},
        "codes": {},
        f"passkeys/{key.id}/remove": {},
    }
    for form, fields in forms.items():
        answer = await person.post(f"/console/security/{form}", fields)
        assert answer.headers["location"] == "/sign-in?request=%2Fconsole%2Fsecurity"
    assert await stage.console.passkeys.of_user(person.user.id) == [key]
    assert await stage.console.recovery.left(person.user.id) == 0
    assert not await stage.services.passwords.known(person.user.id)
    page = await person.get("/console/security")
    assert "sign in once more" in page.text
    assert "/console/security/password" not in page.text


async def test_passkeys_are_renamed_and_removed_by_their_person_alone(stage: Stage) -> None:
    (person, _), (other, _) = await a_person(stage), await a_person(stage)
    key = await stage.passkey(person.user, "iPhone")
    base = f"/console/security/passkeys/{key.id}"
    assert (await other.post(f"{base}/rename", {"name": "mine"})).status_code == 404
    assert (await other.post(f"{base}/remove")).status_code == 404
    assert "1 to 64" in (await person.post(f"{base}/rename", {"name": " "})).text
    assert "blue key" in (await person.after(await person.post(f"{base}/rename", {"name": " blue  key "}))).text
    assert "blue key" not in (await person.after(await person.post(f"{base}/remove"))).text
    assert await stage.console.passkeys.of_user(person.user.id) == []


async def test_recovery_codes_are_shown_once_and_replace_those_before(stage: Stage) -> None:
    person, _ = await a_person(stage)
    shown = await person.after(await person.post("/console/security/codes"))
    codes = re.findall(r"<li><code>([^<]+)</code></li>", shown.text)
    assert len(set(codes)) == 10
    assert "You have 10 left" in text_of(await person.get("/console/security"))
    await person.post("/console/security/codes")
    assert not await stage.console.recovery.use(person.user.id, codes[0])


async def test_another_password_signs_every_other_browser_out(stage: Stage) -> None:
    person, _ = await a_person(stage)
    elsewhere = Person(stage, person.user, await stage.sign_in(person.user))
    new = "another four plain words"
    for bad, words in ((("short", "short"), "at least 12"), ((new, new + "x"), "differ")):
        refused = await person.post("/console/security/password", {"password": bad[0], "again": bad[1]})
        assert (refused.status_code, words in refused.text) == (400, True)
    assert (await elsewhere.get("/console")).status_code == 200
    page = await person.after(await person.post("/console/security/password", {"password": new, "again": new}))
    assert "Your password is changed" in page.text
    assert (await elsewhere.get("/console")).status_code == 303
    assert await stage.services.passwords.known(person.user.id)


async def test_browsers_are_listed_and_signed_out_one_by_one_or_all(stage: Stage) -> None:
    (person, _), (other, _) = await a_person(stage), await a_person(stage)
    cookies = [await stage.sign_in(person.user) for _ in range(3)]
    page = text_of(await person.get("/console/security"))
    assert page.count("Chrome on Linux") == 4
    assert page.count("this browser") == 1
    action = f"/console/security/sessions/{digest(cookies[0])}/end"
    assert (await other.post(action)).status_code == 404
    assert "Signed out there" in (await person.after(await person.post(action))).text
    assert (await Person(stage, person.user, cookies[0]).get("/console")).status_code == 303
    await person.post("/console/security/sessions/end")
    assert (await Person(stage, person.user, cookies[1]).get("/console")).status_code == 303
    assert (await person.get("/console")).status_code == 200
    sessions = await stage.services.browser.sessions_of(person.user.id, time.time())
    assert [session.id for session in sessions] == [digest(person.cookie)]


@pytest.mark.parametrize("said", ["nothing-we-say", "<script>", "changed"])
async def test_a_page_says_only_what_it_knows_to_say(stage: Stage, said: str) -> None:
    person, _ = await a_person(stage)
    page = await person.get("/console/programs", said=said)
    assert ('role="status"' in page.text) is (said == "changed")
    assert "<script>" not in page.text

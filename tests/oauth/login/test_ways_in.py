"""Recovery codes, invitations, links of an owner, and how often one may try."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from starlette.responses import Response

from app.context import Role
from app.errors import Conflict, Forbidden, InvalidInput, NotFound
from app.oauth.login.attempts import PER_ACCOUNT, Attempts, TooManyAttempts, Trial
from app.oauth.login.invitations import Invitations
from app.oauth.login.known import browser_of, remember
from app.oauth.login.link_page import issue_link_for_member
from app.oauth.login.recovery import NUMBER, RecoveryCodes
from app.store.control.attempts import AttemptStore
from app.store.database import Database
from app.store.statement import statement
from tests.oauth.conftest import PASSWORD, Gateway, Life, Person, form_of
from tests.oauth.login.test_password_page import FORGET_BUDGET

COUNT = statement("tests.count_attempts", "MATCH (a:_SignInAttempts) RETURN count(a) AS stored", control=True)
SPEND = statement(
    "tests.spend_the_strangers_budget",
    "MERGE (a:_SignInAttempts {id: 'strangers'}) SET a.count = $count, a.until = $until",
    writes=True,
    control=True,
)
FAR = 4e9


@pytest.fixture(autouse=True)
async def _fresh_budget(database: Database) -> Any:
    await database.control.write(lambda writing: writing.run(FORGET_BUDGET))
    yield
    await database.control.write(lambda writing: writing.run(FORGET_BUDGET))


@pytest.fixture
async def stranger(gateway: Gateway, open_life: Callable[..., Any]) -> Life:
    made: Life = await open_life(gateway, signed_in=False)
    return made


async def try_password(life: Life, password: str, email: str | None = None) -> int:
    page = await life.browser.get(f"{life.address}/sign-in")
    fields = {**form_of(page.text), "email": email or life.person.email, "password": password}
    return int((await life.browser.post(f"{life.address}/sign-in", data=fields)).status_code)


async def try_code(life: Life, code: str) -> Any:
    page = await life.browser.get(f"{life.address}/sign-in/recovery")
    fields = {**form_of(page.text), "email": life.person.email, "code": code}
    return await life.browser.post(f"{life.address}/sign-in/recovery", data=fields)


async def test_a_recovery_code_signs_in_once_however_it_is_typed(stranger: Life) -> None:
    user, codes = stranger.person.user.id, RecoveryCodes(stranger.gateway.main)
    made = await codes.make(user)
    assert len(set(made)) == NUMBER
    assert (await try_code(stranger, made[0].upper().replace("-", " "))).status_code == 303
    assert stranger.person.email in (await stranger.browser.get(f"{stranger.address}/signed-in")).text
    stranger.browser.cookies.clear()
    assert (await try_code(stranger, made[0])).status_code == 401
    assert await codes.left(user) == NUMBER - 1
    used = await asyncio.gather(*(codes.use(user, made[1]) for _ in range(4)))
    assert sorted(used) == [False, False, False, True]
    again = await codes.make(user)
    assert not await codes.use(user, made[2])
    assert await codes.use(user, again[2])


async def test_recovery_codes_are_tried_only_so_often(stranger: Life) -> None:
    code = (await RecoveryCodes(stranger.gateway.main).make(stranger.person.user.id))[0]
    for _ in range(PER_ACCOUNT):
        assert (await try_code(stranger, "wrong")).status_code == 401
    assert (await try_code(stranger, code)).status_code == 429


async def test_a_stranger_locks_nobody_out_of_a_browser_that_the_account_knows(
    stranger: Life, open_life: Callable[..., Any]
) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    assert await try_password(stranger, PASSWORD) == 303
    attacker: Life = await open_life(stranger.gateway, stranger.person, signed_in=False)
    for _ in range(PER_ACCOUNT):
        await try_password(attacker, "wrong wrong wrong")
    assert await try_password(attacker, PASSWORD) == 429
    stranger.browser.cookies.delete(next(name for name in stranger.browser.cookies if "session" in name))
    assert await try_password(stranger, PASSWORD) == 303


async def test_the_cookie_of_a_known_browser_counts_for_its_account_at_its_address_alone(gateway: Gateway) -> None:
    keys, address, response = await gateway.main.secrets(), gateway.address, Response()
    remember(response, "", keys, address, "us-one")
    cookie = response.headers["set-cookie"].partition("=")[2].partition(";")[0]
    assert "us-one" not in cookie
    assert browser_of(cookie, keys, address, "us-one")
    assert browser_of(cookie, keys, address, "us-two") == ""
    assert browser_of(cookie, keys, "https://other.example.com", "us-one") == ""
    assert browser_of(cookie[:-4] + "AAAA", keys, address, "us-one") == ""
    shared = Response()
    remember(shared, cookie, keys, address, "us-two")
    both = shared.headers["set-cookie"].partition("=")[2].partition(";")[0].strip('"')
    assert browser_of(both, keys, address, "us-one") == browser_of(cookie, keys, address, "us-one")
    assert browser_of(both, keys, address, "us-two")


async def test_a_known_browser_is_limited_too(stranger: Life) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    assert await try_password(stranger, PASSWORD) == 303
    for _ in range(PER_ACCOUNT):
        assert await try_password(stranger, "wrong wrong wrong") == 401
    assert await try_password(stranger, PASSWORD) == 429


async def test_a_spent_budget_stores_nothing_for_made_up_addresses_and_stops_no_known_browser(
    stranger: Life, database: Database, open_life: Callable[..., Any]
) -> None:
    await stranger.gateway.main.passwords.set(stranger.person.user.id, PASSWORD)
    assert await try_password(stranger, PASSWORD) == 303
    await database.control.write(lambda writing: writing.run(SPEND, count=1000, until=FAR))
    before = (await database.control.read(COUNT))[0]["stored"]
    attacker: Life = await open_life(stranger.gateway, signed_in=False)
    for number in range(5):
        assert await try_password(attacker, "wrong wrong wrong", f"made-up-{number}@example.org") == 429
    assert (await database.control.read(COUNT))[0]["stored"] == before
    assert await try_password(stranger, PASSWORD) == 303


async def test_of_attempts_at_once_no_more_than_allowed_count(database: Database) -> None:
    attempts = Attempts(AttemptStore(database.control))
    trial = Trial("password", f"{secrets.token_hex(6)}@example.org")
    results = await asyncio.gather(*(attempts.count(trial) for _ in range(2 * PER_ACCOUNT)), return_exceptions=True)
    assert results.count(None) == PER_ACCOUNT
    assert sum(isinstance(each, TooManyAttempts) for each in results) == PER_ACCOUNT


async def invited(life: Life, role: Role = Role.MEMBER, **more: Any) -> str:
    tenant = life.person.tenant
    return await Invitations(life.gateway.main).invite(tenant.id, role, address=life.address, **more)


async def accept(life: Life, link: str, **fields: str) -> Any:
    page = await life.browser.get(link)
    return await life.browser.post(f"{life.address}/invitation", data={**form_of(page.text), **fields})


NEW = {"password": PASSWORD, "again": PASSWORD}


async def test_an_invitation_makes_an_account_and_a_member_once(stranger: Life) -> None:
    services, email = stranger.gateway.main, f"{secrets.token_hex(6)}@example.org"
    link = await invited(stranger, read_layers=["tenant", "work"], write_layers=["work"], email=email)
    assert "work" in (await stranger.browser.get(link)).text
    answer = await accept(stranger, link, email="somebody-else@example.org", **NEW)
    assert answer.headers["location"] == "/signed-in"
    user = await services.users.by_email(email)
    assert user is not None
    membership = await services.users.membership(user.id, stranger.person.tenant.id)
    assert membership is not None
    assert (membership.role, membership.read_layers, membership.write_layers) == (Role.MEMBER, {"", "work"}, {"work"})
    assert (await stranger.browser.get(link)).status_code == 400
    stranger.browser.cookies.clear()
    assert await try_password(stranger, PASSWORD, email) == 303


async def test_whoever_has_an_account_signs_in_and_joins_and_changes_nothing_else(
    stranger: Life, open_life: Callable[..., Any]
) -> None:
    services = stranger.gateway.main
    link = await invited(stranger)
    guest: Life = await open_life(stranger.gateway, signed_in=False)
    await services.passwords.set(guest.person.user.id, PASSWORD)
    refused = await accept(guest, link, email=guest.person.email, **dict.fromkeys(NEW, "another password!"))
    assert refused.status_code == 400
    assert "Sign in with it first" in refused.text
    page = await guest.browser.get(f"{guest.address}/sign-in", params={"request": f"invitation.{link[-43:]}"})
    fields = {**form_of(page.text), "email": guest.person.email, "password": PASSWORD}
    answer = await guest.browser.post(f"{guest.address}/sign-in", data=fields)
    assert answer.headers["location"] == link.removeprefix(guest.address)
    assert (await accept(guest, link)).status_code == 303
    membership = await services.users.membership(guest.person.user.id, stranger.person.tenant.id)
    assert membership is not None
    assert membership.role is Role.MEMBER
    own: Life = await open_life(stranger.gateway, stranger.person)
    answer = await accept(own, await invited(stranger, Role.READER))
    assert answer.status_code == 400  # an owner who opens an invitation stays an owner
    membership = await services.users.membership(own.person.user.id, own.person.tenant.id)
    assert membership is not None
    assert membership.role is Role.OWNER


async def test_an_invitation_for_an_address_is_for_its_account(life: Life, open_life: Callable[..., Any]) -> None:
    link = await invited(life, email="somebody@example.org")
    guest: Life = await open_life(life.gateway)
    assert (await accept(guest, link)).status_code == 400
    assert await life.gateway.main.users.membership(guest.person.user.id, life.person.tenant.id) is None


async def test_of_two_people_with_one_link_one_gets_in(stranger: Life, open_life: Callable[..., Any]) -> None:
    link = await invited(stranger)
    guests: list[Life] = [await open_life(stranger.gateway) for _ in range(3)]
    answers = await asyncio.gather(*(accept(guest, link) for guest in guests))
    assert sorted(answer.status_code for answer in answers) == [303, 400, 400]


async def test_an_invitation_ends_when_it_is_withdrawn_or_its_inviter_may_not_invite_any_more(stranger: Life) -> None:
    services, invitations = stranger.gateway.main, Invitations(stranger.gateway.main)
    person: Person = stranger.person
    link = await invited(stranger, actor=person.user.id)
    (made,) = await invitations.of_tenant(person.tenant.id)
    with pytest.raises(NotFound):
        await invitations.withdraw("tn-another", made.id, person.user.id)
    await invitations.withdraw(person.tenant.id, made.id, person.user.id)
    assert (await stranger.browser.get(link)).status_code == 400
    link = await invited(stranger, actor=person.user.id)
    assert (await stranger.browser.get(link)).status_code == 200
    second = await services.users.create(f"{secrets.token_hex(6)}@example.org")
    await services.users.put_membership(second.id, person.tenant.id, Role.OWNER)
    await services.users.put_membership(person.user.id, person.tenant.id, Role.MEMBER)
    assert (await stranger.browser.get(link)).status_code == 400


async def test_an_invitation_of_the_operators_ends_when_its_inviter_is_no_owner_among_them(stranger: Life) -> None:
    services = stranger.gateway.main
    operators = await services.tenants.ensure(services.settings.oauth.admin_tenant, admin=True)
    second = await services.users.create(f"{secrets.token_hex(6)}@example.org")
    for user in (second.id, stranger.person.user.id):
        await services.users.put_membership(user, operators.id, Role.OWNER)
    link = await Invitations(services).invite(
        operators.id, Role.OWNER, address=stranger.address, actor=stranger.person.user.id
    )
    assert (await stranger.browser.get(link)).status_code == 200
    await services.users.put_membership(stranger.person.user.id, operators.id, Role.MEMBER)
    assert (await stranger.browser.get(link)).status_code == 400


@pytest.mark.parametrize(
    "more", [{"read_layers": ["*"]}, {"role": Role.READER, "write_layers": ["work"]}, {"email": "nobody"}]
)
async def test_an_invitation_holds_what_the_role_can_hold(stranger: Life, more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        await invited(stranger, **more)
    with pytest.raises(InvalidInput):
        await Invitations(stranger.gateway.main).invite(
            stranger.person.tenant.id, Role.MEMBER, address="https://evil.example"
        )


async def test_an_owner_issues_a_link_only_for_whoever_belongs_nowhere_else(
    stranger: Life, open_life: Callable[..., Any]
) -> None:
    services, owner, tenant = stranger.gateway.main, stranger.person.user.id, stranger.person.tenant.id
    member = await services.users.create(f"{secrets.token_hex(6)}@example.org")
    await services.users.put_membership(member.id, tenant, Role.MEMBER)
    link = await issue_link_for_member(services, tenant, member.id, stranger.address, actor=owner)
    assert (await stranger.browser.get(link)).status_code == 200
    with pytest.raises(Forbidden):
        await issue_link_for_member(services, tenant, owner, stranger.address, actor=member.id)
    elsewhere = await services.tenants.create(f"other {secrets.token_hex(6)}")
    await services.users.put_membership(member.id, elsewhere.id, Role.READER)
    with pytest.raises(Forbidden, match="other tenants"):
        await issue_link_for_member(services, tenant, member.id, stranger.address, actor=owner)
    outsider: Life = await open_life(stranger.gateway, signed_in=False)
    with pytest.raises(LookupError):
        await issue_link_for_member(services, tenant, outsider.person.user.id, stranger.address, actor=owner)


async def test_a_changed_address_keeps_the_account(stranger: Life, open_life: Callable[..., Any]) -> None:
    users, subject = stranger.gateway.main.users, stranger.person.user.id
    other: Life = await open_life(stranger.gateway, signed_in=False)
    with pytest.raises(Conflict):
        await users.change_email(subject, other.person.email.upper())
    new = f"{secrets.token_hex(6)}@example.org"
    changed = await users.change_email(subject, new)
    assert changed is not None
    assert changed.id == subject
    assert await users.by_email(stranger.person.email) is None
    assert [each.tenant for each in await users.memberships(subject)] == [stranger.person.tenant.id]


async def test_signing_out_everywhere_ends_every_browser(life: Life, open_life: Callable[..., Any]) -> None:
    elsewhere: Life = await open_life(life.gateway, life.person)
    page = await life.browser.get(f"{life.address}/signed-in")
    fields = {**form_of(page.text), "everywhere": "yes"}
    assert (await life.browser.post(f"{life.address}/sign-out", data=fields)).status_code == 303
    assert (await elsewhere.browser.get(f"{life.address}/signed-in")).status_code == 303

"""The token endpoint: codes, refresh tokens, client authentication, errors."""

from __future__ import annotations

import asyncio
import base64
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from app.context import Role
from app.errors import DatabaseUnavailable
from app.oauth.secrets import digest
from app.store.control.authorizations import AuthorizationStore
from app.store.control.revocations import RevocationKind, Revocations, member_key
from app.store.database import Database
from tests.oauth.conftest import CALLBACK, Gateway, Life

FORM = "application/x-www-form-urlencoded"


async def test_a_code_becomes_an_access_token_for_the_one_resource(life: Life) -> None:
    tokens = await life.tokens()
    claims = await life.claims(tokens["access_token"])
    assert claims["iss"] == life.address
    assert claims["aud"] == f"{life.address}/mcp"
    assert claims["sub"] == life.person.user.id
    assert claims["client_id"] == life.client["client_id"]
    assert claims["scope"] == "memory:read memory:write"
    assert claims["gk"]["tenant"] == life.person.tenant.id
    assert (claims["gk"]["read"], claims["gk"]["write"], claims["gk"]["layer"]) == (["*"], ["*"], "")
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "memory:read memory:write offline_access"


async def test_token_answers_are_never_stored(life: Life) -> None:
    answer = await life.exchange(await life.code())
    assert answer.headers["cache-control"] == "no-store"
    assert (await life.exchange("nothing")).headers["cache-control"] == "no-store"


async def test_a_code_used_twice_revokes_what_it_gave(life: Life, database: Database) -> None:
    code = await life.code()
    first = (await life.exchange(code)).json()
    again = await life.exchange(code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    refused = await life.refresh(first["refresh_token"])
    assert refused.json()["error"] == "invalid_grant"
    grant = (await life.claims(first["access_token"]))["gk"]["grant"]
    revoked = await Revocations(database.control).current()
    assert (RevocationKind.GRANT, grant) in {(entry.kind, entry.key) for entry in revoked}


async def test_of_many_exchanges_of_one_code_at_once_at_most_one_succeeds(life: Life) -> None:
    code = await life.code()
    answers = await asyncio.gather(*(life.exchange(code) for _ in range(8)))
    assert sum(answer.status_code == 200 for answer in answers) <= 1
    assert {answer.status_code for answer in answers} <= {200, 400}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": "é" * 43}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:49152/other"}, "invalid_grant"),
        ({"redirect_uri": None}, "invalid_request"),
        ({"resource": "https://evil.example/mcp"}, "invalid_target"),
        ({"code": None}, "invalid_request"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": None}, "invalid_request"),
    ],
)
async def test_an_exchange_that_does_not_fit_is_refused(life: Life, changes: dict[str, Any], error: str) -> None:
    answer = await life.exchange(await life.code(), **changes)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


async def test_a_code_has_a_short_life(life: Life, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    code = await life.code()
    record = await AuthorizationStore(database.control).use_code(
        "nothing like it", client=digest(life.client["client_id"]), issuer=life.address, now=time.time()
    )
    assert record is None
    later = time.time() + 61
    monkeypatch.setattr("app.oauth.token.time.time", lambda: later)
    answer = await life.exchange(code)
    assert (answer.json()["error"], answer.json()["error_description"]) == ("invalid_grant", "the code has expired")


async def test_an_exchange_that_fails_on_the_way_can_be_tried_again(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, services = await life.code(), life.gateway.main
    asked = 0

    async def away(*given: Any) -> float | None:
        nonlocal asked
        asked += 1
        raise DatabaseUnavailable("away for a moment")

    for where, name in (
        (services.grants, "find"),
        (services, "place_of"),
        (services, "secrets"),
        (services, "ring"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(where, name, away)
            assert (await life.exchange(code)).status_code == 503
    assert asked == 4
    answer = await life.exchange(code)
    assert answer.status_code == 200, answer.text
    assert (await life.refresh(answer.json()["refresh_token"])).status_code == 200


async def test_a_code_whose_verifier_was_guessed_wrong_is_used_up(life: Life) -> None:
    code = await life.code()
    assert (await life.exchange(code, code_verifier="w" * 43)).json()["error"] == "invalid_grant"
    assert (await life.exchange(code)).json()["error"] == "invalid_grant"


async def test_a_code_belongs_to_its_client(life: Life, open_life: Callable[..., Any]) -> None:
    code = await life.code()
    other: Life = await open_life(life.gateway, life.person)
    await other.register(client_name="Another")
    stolen = await other.exchange(code, code_verifier=life.verifier)
    assert stolen.json()["error"] == "invalid_grant"
    assert (await life.exchange(code)).status_code == 200  # and was not used up by the thief


@pytest.mark.parametrize("spelling", ["", "/"])
async def test_both_spellings_of_the_resource_yield_the_canonical_audience(life: Life, spelling: str) -> None:
    resource = f"{life.address}/mcp{spelling}"
    code = await life.code(resource=resource)
    tokens = (await life.exchange(code, resource=resource)).json()
    assert (await life.claims(tokens["access_token"]))["aud"] == f"{life.address}/mcp"


async def test_without_a_resource_the_audience_is_the_only_one(life: Life) -> None:
    code = await life.code(resource=None)
    tokens = (await life.exchange(code, resource=None)).json()
    assert (await life.claims(tokens["access_token"]))["aud"] == f"{life.address}/mcp"


async def test_a_refresh_token_is_replaced_and_the_old_one_ends_the_grant(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    gateway = await start_gateway(refresh_grace_seconds=0)
    life: Life = await open_life(gateway)
    await life.register()
    first = await life.tokens()
    second = (await life.refresh(first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    third = (await life.refresh(second["refresh_token"])).json()
    replayed = await life.refresh(first["refresh_token"])
    assert (replayed.status_code, replayed.json()["error"]) == (400, "invalid_grant")
    assert (await life.refresh(third["refresh_token"])).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("replicas", [1, 2])
async def test_parallel_refreshes_get_the_same_successor(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], replicas: int
) -> None:
    gateway = await start_gateway(replicas=replicas)
    life: Life = await open_life(gateway)
    await life.register()
    tokens = await life.tokens()
    answers = await asyncio.gather(*(life.refresh(tokens["refresh_token"]) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {200}
    successors = {answer.json()["refresh_token"] for answer in answers}
    assert len(successors) == 1
    assert (await life.refresh(successors.pop())).status_code == 200


async def test_who_comes_late_in_the_grace_gets_the_newest_token_not_a_used_one(life: Life) -> None:
    first = (await life.tokens())["refresh_token"]
    second = (await life.refresh(first)).json()["refresh_token"]
    third = (await life.refresh(second)).json()["refresh_token"]
    assert (await life.refresh(first)).json()["refresh_token"] == third
    assert (await life.refresh(third)).status_code == 200


async def test_a_client_that_registered_holds_one_grant_of_a_person(
    life: Life, open_life: Callable[..., Any], gateway: Gateway
) -> None:
    first = await life.tokens()
    other: Life = await open_life(gateway)
    other.client = life.client
    of_other = await other.tokens()
    second = await life.tokens(scope="memory:read")
    assert (await life.refresh(first["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await life.refresh(second["refresh_token"])).status_code == 200
    assert (await other.refresh(of_other["refresh_token"])).status_code == 200, "another person's is another grant"


async def test_a_token_made_while_its_holder_is_demoted_counts_as_made_before(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, person = life.gateway.main, life.person
    tokens = await life.tokens()
    second = await services.users.create(f"{secrets.token_hex(6)}@example.org")
    await services.users.put_membership(second.id, person.tenant.id, Role.OWNER)
    rotate = services.refresh.rotate

    async def demoted_meanwhile(*given: Any, **named: Any) -> float | None:
        await services.users.put_membership(person.user.id, person.tenant.id, Role.READER)
        return await rotate(*given, **named)

    monkeypatch.setattr(services.refresh, "rotate", demoted_meanwhile)
    made = await life.claims((await life.refresh(tokens["refresh_token"])).json()["access_token"])
    assert made["gk"]["role"] == "owner"
    member = member_key(person.user.id, person.tenant.id)
    assert await services.revocations.ends(RevocationKind.MEMBER, member, made["gk"]["at"])
    assert await services.revocations.names(RevocationKind.GRANT, made["gk"]["grant"])


async def test_an_answer_that_is_never_redeemed_takes_nothing_away(life: Life) -> None:
    first = await life.tokens()
    await life.code(scope="memory:read")
    assert (await life.refresh(first["refresh_token"])).status_code == 200


async def test_a_refresh_may_narrow_scopes_but_never_widen_them(life: Life) -> None:
    tokens = await life.tokens()
    wide = await life.refresh(tokens["refresh_token"], scope="memory:read ledger:write")
    assert wide.json()["error"] == "invalid_scope"
    narrow = (await life.refresh(tokens["refresh_token"], scope="memory:read")).json()
    assert narrow["scope"] == "memory:read offline_access"
    assert (await life.claims(narrow["access_token"]))["scope"] == "memory:read"
    whole = (await life.refresh(narrow["refresh_token"])).json()
    assert whole["scope"] == "memory:read memory:write offline_access"


async def test_a_lowered_role_ends_the_grant(life: Life) -> None:
    tokens = await life.tokens()
    heir = await life.gateway.main.users.create("heir." + life.person.email)
    await life.gateway.main.users.put_membership(heir.id, life.person.tenant.id, Role.OWNER)
    await life.gateway.main.users.put_membership(life.person.user.id, life.person.tenant.id, Role.READER)
    assert (await life.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


async def test_a_suspended_tenant_gets_no_token(life: Life) -> None:
    from app.store.control.tenants import TenantState

    tokens = await life.tokens()
    await life.gateway.main.tenants.set_state(life.person.tenant.id, TenantState.SUSPENDED)
    assert (await life.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_confidential_client_must_know_its_secret(life: Life, method: str) -> None:
    await life.register(token_endpoint_auth_method=method)
    secret = life.client["client_secret"]
    code = await life.code()
    refused = await life.exchange(code)
    assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
    wrong = await life.exchange(code, client_secret="wrong")
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert (await life.exchange(code, client_secret=secret)).status_code == 200


async def test_basic_authentication_works_and_its_failure_names_the_scheme(life: Life) -> None:
    await life.register(token_endpoint_auth_method="client_secret_basic")
    code = await life.code()
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": CALLBACK,
        "code_verifier": life.verifier,
    }

    async def post(secret: str) -> Any:
        pair = base64.b64encode(f"{life.client['client_id']}:{secret}".encode()).decode()
        return await life.browser.post(f"{life.address}/token", data=form, headers={"Authorization": f"Basic {pair}"})

    refused = await post("wrong")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic")
    assert (await post(life.client["client_secret"])).status_code == 200


async def test_an_unknown_client_is_told_so(life: Life) -> None:
    code = await life.code()
    for client_id in ("gk1.unknown.client", "", "x" * 5000, "gk1.é.é", "a\x00b"):
        answer = await life.exchange(code, client_id=client_id)
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), client_id


async def test_a_deleted_client_is_unknown(life: Life) -> None:
    tokens = await life.tokens()
    assert await life.gateway.main.clients.delete(digest(life.client["client_id"]), time.time())
    answer = await life.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_anything_but_one_clean_form_is_an_oauth_error(life: Life) -> None:
    for body, kind in (
        (b'{"grant_type": "authorization_code"}', "application/json"),
        (b"grant_type=authorization_code", "text/plain"),
        (b"grant_type=authorization_code&grant_type=refresh_token", FORM),
        (b"grant_type=%ff%fe", FORM),
        (b"\xff\xfe", FORM),
        (b"&".join(b"a=1" for _ in range(500)), FORM),
        (b"", FORM),
    ):
        answer = await life.browser.post(f"{life.address}/token", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), body
        assert answer.headers["cache-control"] == "no-store"


async def test_an_oversized_body_is_refused(gateway: Gateway, life: Life) -> None:
    answer = await life.browser.post(f"{gateway.address}/token", data={"code": "x" * 70_000})
    assert (answer.status_code, answer.json()["error"]) == (413, "invalid_request")

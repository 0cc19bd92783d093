from __future__ import annotations

import json
from typing import Any

import pytest
import structlog
from starlette.types import Message, Receive, Scope, Send

from app.access.accounts import Accounts
from app.access.authenticate import Authenticate
from app.access.snapshot import Snapshot
from app.access.verify import Verifier
from app.context import RequestContext
from app.edge.context import CONTEXT, context_of
from app.errors import OAuthError
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.access.conftest import Member
from tests.identity import ADDRESS, snapshot_of

Headers = list[tuple[bytes, bytes]]
METADATA = f"{ADDRESS}/.well-known/oauth-protected-resource/mcp"


class Downstream:
    """What lies behind the stage: remembers the context that reached it."""

    def __init__(self) -> None:
        self.context: RequestContext | None = None
        self.logged: dict[str, Any] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.context = context_of(scope)
        self.logged = structlog.contextvars.get_contextvars()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


class Answer:
    def __init__(self, messages: list[Message]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        body = b"".join(message.get("body", b"") for message in messages[1:])
        self.body: dict[str, Any] = json.loads(body) if body else {}


async def ask(app: Authenticate, headers: Headers, *, path: str = "/mcp", query: bytes = b"") -> Answer:
    async def unread() -> Message:
        raise AssertionError("the body was read before the caller was known")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query,
        "headers": headers,
        CONTEXT: RequestContext("req-1", ADDRESS),
    }
    await app(scope, unread, send)
    return Answer(sent)


def bearer(token: str, scheme: str = "Bearer") -> Headers:
    return [(b"authorization", f"{scheme} {token}".encode())]


def reached(downstream: Downstream) -> RequestContext:
    assert downstream.context is not None
    return downstream.context


@pytest.fixture
def downstream() -> Downstream:
    return Downstream()


@pytest.fixture
def app(downstream: Downstream, verifier: Verifier) -> Authenticate:
    return Authenticate(downstream, verifier, scopes=["memory:write", "memory:read"])


async def test_a_good_token_puts_its_principal_into_the_context(
    app: Authenticate, downstream: Downstream, member: Member
) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        downstream.context = None
        assert (await ask(app, bearer(member.token, scheme))).status == 204, scheme
        context = reached(downstream)
        assert context.principal is not None
        assert context.principal.subject == member.user.id
        assert context.request_id == "req-1"


async def test_every_line_that_is_logged_for_a_caller_carries_the_tenants_id(
    app: Authenticate, downstream: Downstream, member: Member
) -> None:
    await ask(app, bearer(member.token))
    assert downstream.logged["tenant"] == member.tenant.id
    assert "tenant" not in structlog.contextvars.get_contextvars()


async def test_what_took_long_to_arrive_can_have_its_token_judged_anew(
    app: Authenticate, downstream: Downstream, member: Member, accounts: Accounts, snapshot: Snapshot
) -> None:
    await ask(app, bearer(member.token))
    again = reached(downstream).again
    assert again is not None
    assert again() == reached(downstream).principal
    await accounts.revoke_token(member.token_id)
    await snapshot.refresh()
    with pytest.raises(OAuthError, match="revoked"):
        again()


async def test_without_a_token_the_challenge_says_where_to_sign_in_and_names_no_error(
    app: Authenticate, downstream: Downstream
) -> None:
    answer = await ask(app, [])
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == (
        f'Bearer resource_metadata="{METADATA}", scope="memory:read memory:write"'
    )
    assert answer.body["ok"] is False
    assert "Sign in" in answer.body["message"]
    assert answer.headers["cache-control"] == "no-store"
    assert downstream.context is None


async def test_a_bad_token_is_named_in_the_challenge(app: Authenticate, downstream: Downstream) -> None:
    for token in ("nonsense", "a.b.c", "", "two words", "é"):
        answer = await ask(app, bearer(token))
        assert answer.status == 401, token
        assert answer.headers["www-authenticate"].startswith('Bearer error="invalid_token", error_description="')
        assert f'resource_metadata="{METADATA}"' in answer.headers["www-authenticate"]
        assert 'scope="memory:read memory:write"' in answer.headers["www-authenticate"]
        assert answer.body["error"] == "invalid_token"
        assert downstream.context is None


async def test_a_token_in_the_query_string_counts_for_nothing(
    app: Authenticate, downstream: Downstream, member: Member
) -> None:
    query = f"access_token={member.token}".encode()
    alone = await ask(app, [], query=query)
    assert alone.status == 401
    assert "error" not in alone.headers["www-authenticate"]
    beside = await ask(app, bearer(member.token), query=query)
    assert beside.status == 400
    assert beside.body["error"] == "invalid_request"
    assert downstream.context is None


async def test_several_authorization_headers_are_refused(
    app: Authenticate, downstream: Downstream, member: Member
) -> None:
    answer = await ask(app, bearer(member.token) * 2)
    assert answer.status == 400
    assert 'error="invalid_request"' in answer.headers["www-authenticate"]
    assert downstream.context is None


async def test_another_scheme_is_no_token(app: Authenticate) -> None:
    answer = await ask(app, [(b"authorization", b"Basic b3duZXI6c2VjcmV0")])
    assert answer.status == 401
    assert "error" not in answer.headers["www-authenticate"]


async def test_a_caller_cannot_name_its_own_user_or_tenant(
    app: Authenticate, downstream: Downstream, member: Member
) -> None:
    claims: Headers = [(b"x-user-id", b"us-victim"), (b"x-tenant-id", b"tn-victim"), (b"x-forwarded-user", b"root")]
    answer = await ask(app, [*bearer(member.token), *claims], query=b"user_id=us-victim&tenant=tn-victim")
    assert answer.status == 204
    assert downstream.context is not None
    assert downstream.context.principal is not None
    assert downstream.context.principal.subject == member.user.id
    assert downstream.context.principal.tenant == member.tenant.id
    assert (await ask(app, claims)).status == 401


async def test_other_paths_pass_without_a_token(app: Authenticate, downstream: Downstream) -> None:
    assert (await ask(app, [], path="/healthz")).status == 204
    assert downstream.context is not None
    assert downstream.context.principal is None


async def test_a_member_of_a_suspended_tenant_is_told_so(
    app: Authenticate, snapshot: Snapshot, member: Member, database: Database
) -> None:
    await Tenants(database.control).set_state(member.tenant.id, TenantState.SUSPENDED)
    await snapshot.refresh()
    answer = await ask(app, bearer(member.token))
    assert answer.status == 403
    assert "suspended" in answer.body["message"]
    assert "www-authenticate" not in answer.headers


async def test_without_snapshot_and_database_the_answer_is_503_and_never_401(
    database: Database, member: Member, downstream: Downstream, tmp_path_factory: pytest.TempPathFactory
) -> None:
    blank = Verifier(snapshot_of(database, tmp_path_factory.mktemp("blank")))
    answer = await ask(Authenticate(downstream, blank, scopes=["memory:read"]), bearer(member.token))
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert answer.body["retryable"] is True
    assert downstream.context is None


async def test_the_challenge_cannot_be_broken_by_what_it_quotes(downstream: Downstream, verifier: Verifier) -> None:
    app = Authenticate(downstream, verifier, scopes=['a"b\r\nSet-Cookie: x=1'])
    header = (await ask(app, [])).headers["www-authenticate"]
    assert "\r" not in header
    assert header.count('"') == 4

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.access.authorize import Authorize
from app.access.snapshot import Snapshot
from app.context import Principal, RequestContext, Role
from app.edge.answers import json_answer
from app.edge.context import CONTEXT
from app.errors import CallError, Overloaded
from app.store.control.tenants import Tenants, TenantState
from app.store.database import Database
from tests.access.conftest import Member
from tests.access.test_authenticate import METADATA, Answer, Downstream
from tests.access.test_layers import a_tool
from tests.identity import ADDRESS, a_grant, a_principal, snapshot_of

TOOLS = {
    "read": a_tool("memory:read"),
    "write": a_tool("memory:write"),
    "operate": a_tool("admin", operators_only=True),
}
Call = Callable[..., Awaitable[Answer]]


def refuse(scope: Scope, error: CallError) -> Any:
    return json_answer(200, {"ok": False, "reason": error.reason, "retryable": error.retryable})


@pytest.fixture
def downstream() -> Downstream:
    return Downstream()


@pytest.fixture
def call(snapshot: Snapshot, downstream: Downstream) -> Call:
    return calling(snapshot, downstream)


def calling(snapshot: Snapshot, downstream: Downstream) -> Call:
    app = Authorize(downstream, snapshot, tool_named=lambda name: TOOLS.get(name), refuse=refuse)

    async def call(tool: str | None, principal: Principal | None) -> Answer:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        again = None if principal is None else lambda: principal
        context = RequestContext("req-1", ADDRESS, principal=principal, tool=tool, again=again)
        chosen: Receive = receive
        answering: Send = send
        await app({"type": "http", "path": "/mcp", "headers": [], CONTEXT: context}, chosen, answering)
        return Answer(sent)

    return call


async def test_a_granted_scope_lets_the_call_pass(call: Call, downstream: Downstream) -> None:
    assert (await call("read", a_principal(a_grant(scopes=["memory:read"])))).status == 204
    assert downstream.context is not None


async def test_a_missing_scope_that_the_person_could_grant_is_challenged_with_all_that_is_needed(
    call: Call, downstream: Downstream
) -> None:
    answer = await call("write", a_principal(a_grant(scopes=["memory:read", "ledger:read"])))
    assert answer.status == 403
    header = answer.headers["www-authenticate"]
    assert header.startswith('Bearer error="insufficient_scope", error_description="')
    assert 'scope="ledger:read memory:read memory:write"' in header
    assert f'resource_metadata="{METADATA}"' in header
    assert answer.body["error"] == "insufficient_scope"
    assert "memory:write" in answer.body["message"]
    assert downstream.context is None


@pytest.mark.parametrize(
    ("tool", "principal"),
    [
        ("write", a_principal(a_grant(scopes=["memory:read"]), role=Role.READER)),
        ("operate", a_principal(a_grant(scopes=["memory:read"]), role=Role.OWNER)),
    ],
)
async def test_what_the_role_can_never_reach_is_left_to_the_tools_own_refusal(
    call: Call, tool: str, principal: Principal
) -> None:
    answer = await call(tool, principal)
    assert answer.status == 204
    assert "www-authenticate" not in answer.headers


async def test_unknown_tools_and_other_methods_pass(call: Call) -> None:
    assert (await call("no_such_tool", a_principal(a_grant(scopes=[])))).status == 204
    assert (await call(None, a_principal(a_grant(scopes=[])))).status == 204


async def test_a_call_on_a_stale_snapshot_is_a_retryable_error_and_a_list_is_served(
    database: Database, snapshot: Snapshot, tmp_path_factory: pytest.TempPathFactory, downstream: Downstream
) -> None:
    stale = snapshot_of(database, snapshot._file.parent)
    assert stale.load()
    call = calling(stale, downstream)
    answer = await call("read", a_principal())
    assert answer.body == {"ok": False, "reason": "database_unavailable", "retryable": True}
    assert downstream.context is None
    assert (await call(None, a_principal())).status == 204


async def test_a_tenant_that_moves_reads_on_and_refuses_writes_for_a_moment(
    call: Call, snapshot: Snapshot, member: Member, database: Database, downstream: Downstream
) -> None:
    await Tenants(database.control).set_state(member.tenant.id, TenantState.MOVING)
    await snapshot.refresh()
    principal = replace(a_principal(), tenant=member.tenant.id)
    answer = await call("write", principal)
    assert answer.body == {"ok": False, "reason": "overloaded", "retryable": True}
    assert (await call("read", principal)).status == 204


async def test_what_took_long_to_arrive_is_asked_for_again(
    call: Call, snapshot: Snapshot, member: Member, database: Database, downstream: Downstream
) -> None:
    principal = replace(a_principal(), tenant=member.tenant.id)
    await call("write", principal)
    assert downstream.context is not None
    again = downstream.context.again
    assert again is not None
    assert again() == principal
    await Tenants(database.control).set_state(member.tenant.id, TenantState.MOVING)
    await snapshot.refresh()
    with pytest.raises(Overloaded):
        again()


async def test_a_local_caller_of_a_suspended_tenant_is_refused(
    call: Call, snapshot: Snapshot, member: Member, database: Database, downstream: Downstream
) -> None:
    await Tenants(database.control).set_state(member.tenant.id, TenantState.SUSPENDED)
    await snapshot.refresh()
    answer = await call("read", replace(a_principal(), tenant=member.tenant.id))
    assert answer.body == {"ok": False, "reason": "forbidden", "retryable": False}
    assert downstream.context is None

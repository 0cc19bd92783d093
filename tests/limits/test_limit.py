"""The limits stage before a real server: who spends, who waits, what a refusal says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.context import NO_RULES, Grant, Principal, RequestContext, Role, TenantRules
from app.contract import Arguments, Call, Cost, DeadlineClass, Tool
from app.edge.context import context_of, with_context
from app.edge.metrics import Metrics
from app.errors import CallError, RateLimited
from app.limits.bulkhead import Kind
from app.limits.limit import Limit
from app.limits.limits import Limits, kind_of
from app.settings import LimitSettings
from tests.edge.conftest import Serve, body_of


class Nothing(BaseModel):
    pass


async def _run(service: Any, call: Call, arguments: Any) -> Mapping[str, Any]:
    return {}


def tool(name: str, cost: Cost, kind: DeadlineClass, *, read_only: bool = True) -> Tool:
    return Tool(
        name=name,
        title=name,
        description=name,
        toolset="memory",
        input=Arguments,
        output=Nothing,
        run=_run,
        scope="memory:read",
        cost=cost,
        deadline=kind,
        read_only=read_only,
    )


TOOLS = {
    found.name: found
    for found in (
        tool("look", Cost.PLAIN, DeadlineClass.READ),
        tool("search", Cost.HEAVY, DeadlineClass.SEMANTIC),
        tool("change", Cost.PLAIN, DeadlineClass.WRITE, read_only=False),
        tool("everything", Cost.WHOLE_GRAPH, DeadlineClass.WHOLE_GRAPH, read_only=False),
    )
}


def signed_in(app: ASGIApp) -> ASGIApp:
    """Stands where authentication and the envelope are: the caller says who and what in headers."""

    async def stage(scope: Scope, receive: Receive, send: Send) -> None:
        said = {name.decode(): value.decode() for name, value in scope["headers"]}
        principal = Principal(
            subject=said.get("x-subject", "s"),
            client=said.get("x-client", "c"),
            tenant=said.get("x-tenant", "t"),
            tenant_name="home",
            data="d",
            role=Role.OWNER,
            operator=False,
            grant=Grant("g", frozenset(), frozenset(), frozenset(), None),
        )
        context = context_of(scope).identified(principal).calling(said.get("x-tool"))
        await app(with_context(scope, context), receive, send)

    return stage


def refuse(scope: Scope, error: CallError, tool: Tool | None) -> ASGIApp:
    hint = error.retry_after_ms
    return JSONResponse({"reason": error.reason, "retry_after_ms": hint, "outcome": error.outcome, "ok": False})


def limited(app: ASGIApp, *, metrics: Metrics | None = None, **settings: float) -> ASGIApp:
    """``app`` behind the limits; tokens come back so slowly that a busy machine gains none meanwhile."""
    limits = Limits(LimitSettings(**{"calls_per_minute": 1, "burst": 20, **settings}), pool_size=50)
    return signed_in(Limit(app, limits=limits, tool_of=TOOLS.get, refuse=refuse, metrics=metrics or Metrics()))


async def answers(scope: Scope, receive: Receive, send: Send) -> None:
    deadline = context_of(scope).deadline
    await JSONResponse({"ok": True, "left": deadline.remaining() if deadline else None})(scope, receive, send)


async def test_only_tool_calls_spend_and_each_spends_its_cost(serve: Serve) -> None:
    async with serve(limited(answers)) as server, server.client() as client:
        for _ in range(50):
            assert body_of(await client.post("/mcp"))["ok"]  # initialize, discovery, lists
        for _ in range(4):
            assert body_of(await client.post("/mcp", headers={"X-Tool": "search"}))["ok"]
        refused = await client.post("/mcp", headers={"X-Tool": "search"})
        assert refused.status_code == 200
        said = body_of(refused)
        assert (said["ok"], said["reason"], said["outcome"]) == (False, "rate_limited", "not_applied")
        assert 240_000 < said["retry_after_ms"] <= 300_000  # five tokens, one a minute


async def test_a_bucket_belongs_to_the_tenant_and_client_and_not_to_an_address(serve: Serve) -> None:
    async with serve(limited(answers)) as server, server.client() as client, server.proxy() as caddy:
        spent = {"X-Tool": "everything", "X-Tenant": "a", "X-Client": "one"}
        assert body_of(await client.post("/mcp", headers=spent))["ok"]
        for number in range(5):  # rotating addresses buy nothing (fault 28)
            forged = {"X-Forwarded-For": f"203.0.113.{number}", **spent}
            assert body_of(await client.post("/mcp", headers=forged))["reason"] == "rate_limited"
            assert body_of(await caddy.post("/mcp", headers=forged))["reason"] == "rate_limited"
        assert body_of(await client.post("/mcp", headers={**spent, "X-Client": "two"}))["ok"]
        assert body_of(await client.post("/mcp", headers={**spent, "X-Tenant": "b"}))["ok"]


async def test_an_unknown_tool_spends_a_token_and_goes_on(serve: Serve) -> None:
    async with serve(limited(answers)) as server, server.client() as client:
        for _ in range(20):
            assert body_of(await client.post("/mcp", headers={"X-Tool": "no-such-tool"}))["ok"]
        assert body_of(await client.post("/mcp", headers={"X-Tool": "no-such-tool"}))["reason"] == "rate_limited"


async def test_a_call_gets_the_deadline_of_its_class(serve: Serve) -> None:
    async with serve(limited(answers)) as server, server.client() as client:
        for name, seconds in (("look", 15), ("change", 15), ("search", 30)):
            left = body_of(await client.post("/mcp", headers={"X-Tool": name}))["left"]
            assert seconds - 1 < left <= seconds


async def test_a_call_that_runs_past_its_deadline_is_stopped_and_its_outcome_told(
    serve: Serve, monkeypatch: Any
) -> None:
    monkeypatch.setattr("app.limits.limit.OVERRUN_SECONDS", 0.05)

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    slow = limited(endless, read_seconds=0.05, write_seconds=0.05)
    async with serve(slow) as server, server.client() as client:
        read = body_of(await client.post("/mcp", headers={"X-Tool": "look"}))
        write = body_of(await client.post("/mcp", headers={"X-Tool": "change"}))
    assert (read["reason"], read["outcome"]) == ("deadline_exceeded", "not_applied")
    assert (write["reason"], write["outcome"]) == ("deadline_exceeded", "unknown")


async def test_a_tenant_beyond_its_slots_is_refused_while_another_is_served(serve: Serve) -> None:
    leave = asyncio.Event()
    metrics = Metrics()

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        principal = context_of(scope).principal
        if principal is not None and principal.tenant == "storm":
            await leave.wait()
        await answers(scope, receive, send)

    async with serve(limited(held, queue_seconds=0.1, metrics=metrics)) as server, server.client() as client:

        def call(tenant: str, number: int) -> Any:
            return client.post("/mcp", headers={"X-Tool": "change", "X-Tenant": tenant, "X-Client": f"c{number}"})

        storm = [asyncio.create_task(call("storm", number)) for number in range(10)]
        done, _ = await asyncio.wait(storm, return_when=asyncio.FIRST_COMPLETED)
        assert body_of(next(iter(done)).result())["reason"] == "overloaded"
        assert body_of(await call("calm", 0))["ok"]
        leave.set()
        reasons = [body_of(await one).get("reason", "served") for one in storm]
    assert sorted(reasons) == ["overloaded"] * 6 + ["served"] * 4
    assert metrics.refused.labels("overloaded")._value.get() == 6


def test_the_kind_of_a_tool_follows_its_declaration() -> None:
    kinds: dict[str, Kind] = {name: kind_of(found) for name, found in TOOLS.items()}
    assert kinds == {"look": Kind.READ, "search": Kind.READ, "change": Kind.WRITE, "everything": Kind.WHOLE_GRAPH}


async def test_a_tenants_own_limits_count_instead_of_the_configured_ones() -> None:
    limits = Limits(LimitSettings(calls_per_minute=1, burst=2), pool_size=50)
    grant = Grant("g", frozenset(), frozenset(), frozenset(), None)

    async def passed(tenant: str, rules: TenantRules) -> int:
        principal = Principal("s", "c", tenant, "home", "d", Role.OWNER, False, grant, rules=rules)
        count = 0
        with contextlib.suppress(RateLimited):
            while count < 10:
                async with limits.admit(RequestContext("r", "a", principal=principal), TOOLS["look"]):
                    count += 1
        return count

    assert await passed("usual", NO_RULES) == 2
    assert await passed("more", TenantRules(burst=5)) == 5
    assert await passed("less", TenantRules(calls_per_minute=1, burst=1)) == 1
    await limits.close()

"""The whole edge, as clients and proxies meet it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson
import pytest
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.edge import logs
from app.edge.context import context_of, with_context
from tests.edge.conftest import Serve, body_of, until
from tests.identity import a_principal


async def seen(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers what reached it."""
    context = context_of(scope)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    body = {"id": context.request_id, "address": context.address, "peer": context.peer, "scheme": scope["scheme"]}
    await JSONResponse({**body, "headers": headers})(scope, receive, send)


@pytest.fixture
def log_lines(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """What was logged to standard error since it was last asked."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure("info")
    yield lambda: capsys.readouterr().err
    root.handlers, root.level = before
    structlog.reset_defaults()


async def test_a_sane_request_id_is_kept_and_told_back(serve: Serve) -> None:
    async with serve(seen) as server, server.client() as client:
        answer = await client.get("/x", headers={"X-Request-Id": "client-made-0001"})
    assert answer.headers["x-request-id"] == body_of(answer)["id"] == "client-made-0001"


@pytest.mark.parametrize("given", ["short", "x" * 65, "with space in it", "semi;colon;here", "ünicode-request", ""])
async def test_any_other_request_id_is_replaced(serve: Serve, given: str) -> None:
    async with serve(seen) as server, server.client() as client:
        answer = await client.get("/x", headers={"X-Request-Id": given.encode("utf-8")})
    made = body_of(answer)["id"]
    assert answer.headers["x-request-id"] == made
    assert len(made) == 32
    assert made != given


async def test_forged_forwarded_headers_are_removed_on_the_loopback_port(serve: Serve) -> None:
    forged = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "memory.example"}
    async with serve(seen) as server, server.client() as client:
        got = body_of(
            await client.get("/x", headers={**forged, "Forwarded": "for=203.0.113.9", "X-Real-IP": "1.1.1.1"})
        )
        assert got["address"] == server.url
    assert got["peer"] in {"127.0.0.1", "::1"}
    assert got["scheme"] == "http"
    assert not {"x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host"} & set(got["headers"])


async def test_the_unix_socket_is_believed_and_only_the_rightmost_hop_counts(serve: Serve) -> None:
    forwarded = {"X-Forwarded-For": "6.6.6.6, 203.0.113.9", "X-Forwarded-Proto": "https", "Host": "memory.example"}
    async with serve(seen) as server, server.proxy() as client:
        got = body_of(await client.get("/x", headers=forwarded))
    assert (got["peer"], got["scheme"], got["address"]) == ("203.0.113.9", "https", "https://memory.example")


async def test_what_an_identity_proxy_says_is_believed_from_the_unix_socket_alone(serve: Serve) -> None:
    said = {"Cf-Access-Jwt-Assertion": "a.b.c", "Host": "memory.example", "X-Forwarded-Proto": "https"}
    async with serve(seen) as server, server.client() as client, server.proxy() as caddy:
        direct = body_of(await client.get("/x", headers={"Cf-Access-Jwt-Assertion": "a.b.c"}))
        assert "cf-access-jwt-assertion" not in direct["headers"]
        assert "cf-access-jwt-assertion" in body_of(await caddy.get("/x", headers=said))["headers"]


async def test_hops_of_configured_proxies_are_passed_over(serve: Serve) -> None:
    forwarded = {"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 10.1.2.3", "Host": "memory.example"}
    async with serve(seen, trusted_proxies=("10.0.0.0/8",)) as server, server.proxy() as client:
        answer = await client.get("/x", headers={**forwarded, "X-Forwarded-Proto": "https"})
    assert body_of(answer)["peer"] == "203.0.113.9"


async def test_a_chain_that_is_no_address_is_believed_only_as_far_as_it_is_one(serve: Serve) -> None:
    async with serve(seen) as server, server.proxy() as client:
        got = body_of(await client.get("/x", headers={"X-Forwarded-For": "203.0.113.9, <script>"}))
    assert got["peer"] == "local"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:8080", "localhost", "localhost:1", "memory.example"])
async def test_a_host_that_is_no_public_address_is_told_the_right_ones(serve: Serve, host: str) -> None:
    async with serve(seen) as server, server.client() as client:
        answer = await client.get("/mcp", headers={"Host": host})
        assert answer.status_code == 421
        assert server.url in body_of(answer)["message"]
    assert "https://memory.example" in body_of(answer)["message"]


async def test_a_right_host_with_the_wrong_scheme_names_the_remedy(serve: Serve) -> None:
    async with serve(seen) as server, server.client() as client:
        answer = await client.get("/mcp", headers={"Host": "memory.example"})
    assert "GRAPHKEEP_TRUSTED_PROXIES" in body_of(answer)["message"]


async def test_the_host_may_be_spelled_in_capitals_and_with_the_default_port(serve: Serve) -> None:
    async with serve(seen) as server, server.proxy() as client:
        for host in ("MEMORY.example", "memory.example:443"):
            got = body_of(await client.get("/x", headers={"Host": host, "X-Forwarded-Proto": "https"}))
            assert got["address"] == "https://memory.example"


async def test_two_hosts_or_none_are_no_host(serve: Serve) -> None:
    async with serve(seen) as server:
        own = f"localhost:{server.port}"
        for lines in (f"Host: {own}\r\nHost: {own}\r\n", ""):
            reader, writer = await server.raw()
            writer.write(f"GET /x HTTP/1.1\r\n{lines}Connection: close\r\n\r\n".encode())
            assert b" 421 " in await reader.readline() or lines == ""
            writer.close()
            await writer.wait_closed()


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:1", "https://claude.ai.evil.example"]
)
async def test_pages_of_other_origins_may_not_call_mcp(serve: Serve, origin: str) -> None:
    async with serve(seen) as server, server.client() as client:
        answer = await client.post("/mcp", headers={"Origin": origin})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers
        assert (await client.get("/authorize", headers={"Origin": origin})).status_code == 200


async def test_known_origins_are_told_what_they_may_read(serve: Serve) -> None:
    async with serve(seen) as server, server.client() as client:
        for origin in ("https://claude.ai", server.url, "https://memory.example"):
            answer = await client.post("/mcp", headers={"Origin": origin})
            assert answer.status_code == 200
            assert answer.headers["access-control-allow-origin"] == origin
            assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in answer.headers


async def test_a_preflight_is_answered_without_authentication(serve: Serve) -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the preflight went on")

    asked = "authorization, content-type, mcp-method, mcp-param-region, x-evil"
    headers = {"Origin": "https://claude.ai", "Access-Control-Request-Method": "POST"}
    async with serve(never) as server, server.client() as client:
        answer = await client.options("/mcp", headers={**headers, "Access-Control-Request-Headers": asked})
    assert answer.status_code == 204
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "mcp-method", "mcp-param-region"} <= set(allowed)
    assert "x-evil" not in allowed


async def test_browsers_are_told_to_be_careful_and_a_page_keeps_its_own_policy(serve: Serve) -> None:
    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        own = {"content-security-policy": "default-src 'self'"} if scope["path"] == "/own" else {}
        await JSONResponse({}, headers=own)(scope, receive, send)

    async with serve(page) as server, server.client() as client, server.proxy() as caddy:
        plain = await client.get("/x")
        own = await client.get("/own")
        https = await caddy.get("/x", headers={"Host": "memory.example", "X-Forwarded-Proto": "https"})
        refused = await client.get("/x", headers={"Host": "evil.example"})
    for answer in (plain, refused):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert own.headers["content-security-policy"] == "default-src 'self'"
    assert "strict-transport-security" not in plain.headers
    assert "strict-transport-security" in https.headers
    assert "server" not in plain.headers


async def test_an_unexpected_error_answers_500_with_the_request_id_and_nothing_of_the_cause(
    serve: Serve, log_lines: Callable[[], str]
) -> None:
    caller = a_principal()

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        with_context(scope, replace(context_of(scope), principal=caller))
        raise RuntimeError("the secret memory text")

    async with serve(broken) as server, server.client() as client:
        answer = await client.get("/x", headers={"Accept": "application/json"})
        page = await client.get("/x", headers={"Accept": "text/html,*/*"})
    logged = log_lines()
    body = body_of(answer)
    assert answer.status_code == 500
    assert body["reason"] == "internal_error"
    assert body["request_id"] == answer.headers["x-request-id"]
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["x-request-id"] in page.text
    assert "secret" not in answer.text + page.text + logged
    faults = [line for line in map(orjson.loads, logged.splitlines()) if line["event"] == "unhandled error"]
    assert faults[0]["error"] == "RuntimeError"
    assert (faults[0]["request_id"], faults[0]["tenant"]) == (body["request_id"], caller.tenant)
    assert any(":broken" in frame for frame in faults[0]["frames"])


async def test_who_hangs_up_in_the_middle_of_a_body_is_no_error_of_ours(
    serve: Serve, log_lines: Callable[[], str]
) -> None:
    over = asyncio.Event()

    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await Request(scope, receive).body()
        finally:
            over.set()

    async with serve(reads) as server:
        _, writer = await server.raw()
        writer.write(f"POST /token HTTP/1.1\r\nHost: localhost:{server.port}\r\nContent-Length: 9\r\n\r\nx".encode())
        await until(lambda: len(server.instruments.drain) == 1)
        writer.close()
        await asyncio.wait_for(over.wait(), 5)
        await until(lambda: len(server.instruments.drain) == 0)
    lines = [orjson.loads(line) for line in log_lines().splitlines()]
    assert [(line["level"], line["status"]) for line in lines if line.get("path") == "/token"] == [("info", 0)]
    assert not [line for line in lines if line["level"] in {"warning", "error", "critical"}]


async def test_one_line_a_request_is_logged_without_query_body_or_token(
    serve: Serve, log_lines: Callable[[], str]
) -> None:
    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        deeper = with_context(scope, context_of(scope).calling("graph_search"))
        await JSONResponse({})(deeper, receive, send)

    async with serve(named) as server, server.client() as client:
        answer = await client.post(
            "/mcp?q=secret-query", content=b"secret-body", headers={"Authorization": "Bearer secret-t"}
        )
        await client.get("/healthz")
    logged = log_lines()
    lines = [orjson.loads(line) for line in logged.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert "secret" not in logged
    assert len(requests) == 1
    line = requests[0]
    assert (line["method"], line["path"], line["status"], line["tool"]) == ("POST", "/mcp", 200, "graph_search")
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["ms"] >= 0


@pytest.mark.parametrize("odd", ["x@{own}", "{own}/", "{own}?x", "{own}#x", "{own}\\x"])
async def test_a_host_that_two_parsers_read_differently_is_no_address_of_ours(serve: Serve, odd: str) -> None:
    async with serve(seen) as server, server.client() as client:
        host = odd.format(own=f"localhost:{server.port}")
        assert (await client.get("/x", headers={"Host": host})).status_code == 421

"""The whole gateway, run as it is run: real listeners, a real database, real tokens."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import psutil
import pytest
import pytest_asyncio
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from app.errors import StartError
from app.server import serve
from app.settings import LimitSettings, Settings
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import META, MODERN, Gateway, owner_token, running, settings_for
from tests.identity import SECRET_KEY
from tests.ports import free_port
from tests.store.proxy import Proxy


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gk")


@pytest_asyncio.fixture(scope="module")
async def gateway(neo4j_server: Server, database: Database, home: Path) -> AsyncIterator[Gateway]:
    settings = settings_for(neo4j_server, home)
    async with running(settings, await owner_token(settings, database)) as found:
        yield found


async def test_it_is_ready_and_says_what_it_has_and_lacks(gateway: Gateway) -> None:
    async with gateway.client() as client:
        answer = await client.get("/readyz")
    found = answer.json()
    assert answer.status_code == 200
    assert found["checks"]["database"]["ok"]
    assert found["checks"]["schema"] == {"ok": True, "reason": "version 1"}
    assert not found["checks"]["model"]["ok"]
    assert "addresses" in found["checks"]


async def test_without_a_token_it_challenges_before_it_reads_the_body(gateway: Gateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.settings.run.http_port)
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{gateway.settings.run.http_port}\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(head.encode())  # and not a byte of the body
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
    writer.close()
    assert b" 401 " in answer.splitlines()[0]
    metadata = f'resource_metadata="{gateway.url}/.well-known/oauth-protected-resource/mcp"'
    assert metadata in answer.decode()


async def test_a_forged_token_is_refused_and_a_trailing_slash_is_no_way_around(gateway: Gateway) -> None:
    async with gateway.client(token="made.up.token") as client, httpx2.AsyncClient(base_url=gateway.url) as nobody:
        for path in ("/mcp", "/mcp/", "/mcp//"):
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            assert (await client.post(path, json=body)).status_code == 401
            assert (await nobody.post(path, json=body)).status_code == 401


async def test_modern_clients_discover_list_and_call(gateway: Gateway) -> None:
    async with gateway.client() as client:
        discovered = (await gateway.ask(client, "server/discover")).json()["result"]
        assert MODERN in discovered["supportedVersions"]
        listed = (await gateway.ask(client, "tools/list")).json()["result"]["tools"]
        assert {"graph_relate", "graph_query", "graph_entities", "graph_search", "graph_stats"} <= {
            tool["name"] for tool in listed
        }
        related = await gateway.insist(
            client,
            "graph_relate",
            idempotency_key="main-1",
            from_name="Ada of Main",
            from_type="Person",
            relation="WORKS_ON",
            to_name="Engine of Main",
            to_type="Project",
        )
        assert related["ok"], related
        found = await gateway.insist(client, "graph_query", entities=["Ada of Main"])
        assert found["ok"], found
        assert "Engine of Main" in str(found)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdks_own_client_lists_and_calls_in_both_eras(gateway: Gateway, mode: str) -> None:
    http = gateway.client()
    transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
    async with http, Client(transport, mode=mode) as client:
        tools = await client.list_tools()
        assert "graph_stats" in {tool.name for tool in tools.tools}
        stats = await client.call_tool("graph_stats", {})
        assert not stats.is_error
        assert stats.structured_content is not None
        assert stats.structured_content["ok"] is True


async def test_legacy_initialize_is_stateless_and_an_invented_session_changes_nothing(gateway: Gateway) -> None:
    async with gateway.client() as client:
        answer = await client.post("/mcp", json=INITIALIZE, headers={"Mcp-Session-Id": "invented-long-ago"})
        assert answer.status_code == 200
        assert "mcp-session-id" not in answer.headers
        assert (await client.get("/mcp")).status_code == 405
        assert (await client.delete("/mcp")).headers["allow"] == "POST"


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


async def test_memory_stays_flat_over_thousands_of_initialize_calls(gateway: Gateway) -> None:
    process = psutil.Process()

    async def initialize(client: httpx2.AsyncClient, count: int) -> None:
        for _ in range(count):
            assert (await client.post("/mcp", json=INITIALIZE)).status_code == 200

    async with gateway.client() as client:
        await initialize(client, 200)
        before = process.memory_info().rss
        await asyncio.gather(*(initialize(client, 200) for _ in range(4)))
        grown = process.memory_info().rss - before
    assert grown < 16 * 1024 * 1024


async def test_hundreds_of_overlapping_calls_each_get_their_own_answer(gateway: Gateway) -> None:
    async with gateway.client(limits=httpx2.Limits(max_connections=100)) as client:

        async def one(number: int) -> None:
            headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "graph_entities"}
            params = {"_meta": META, "name": "graph_entities", "arguments": {"id": f"nobody-{number}"}}
            body = {"jsonrpc": "2.0", "id": f"call-{number}", "method": "tools/call", "params": params}
            answer = await client.post("/mcp", json=body, headers=headers)
            assert answer.status_code == 200
            assert answer.json()["id"] == f"call-{number}"
            said = answer.json()["result"]["structuredContent"]
            assert said["ok"] or said["retryable"], said

        await asyncio.gather(*(one(number) for number in range(200)))


async def test_a_refusal_by_the_limiter_is_a_tool_error_in_both_eras(
    neo4j_server: Server, database: Database, tmp_path: Path, home: Path
) -> None:
    settings = settings_for(
        neo4j_server, home, limits=LimitSettings(calls_per_minute=0.001, burst=1), socket=tmp_path / "s"
    )
    async with running(settings, await owner_token(settings, database)) as found, found.client() as client:
        first = await found.call(client, "graph_stats")
        assert first["ok"], first
        refused = await found.ask(client, "tools/call", name="graph_stats", arguments={})
        assert refused.status_code == 200
        result = refused.json()["result"]
        assert (result["isError"], result["resultType"]) == (True, "complete")
        said = result["structuredContent"]
        assert (said["ok"], said["reason"], said["retryable"]) == (False, "rate_limited", True)
        assert said["retry_after_ms"] > 0
        body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "graph_stats", "arguments": {}}}
        legacy = (await client.post("/mcp", json=body, headers={"MCP-Protocol-Version": "2025-11-25"})).json()
        assert legacy["id"] == 7
        assert legacy["result"]["structuredContent"]["reason"] == "rate_limited"
        assert "resultType" not in legacy["result"]
        assert (await found.ask(client, "tools/list")).status_code == 200  # lists never spend


FORM = "Content-Type: application/x-www-form-urlencoded"


async def test_strangers_whose_bodies_never_come_keep_nobody_out(
    neo4j_server: Server, database: Database, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.edge.stages.PAGE_SECONDS", 120.0)
    monkeypatch.setattr("app.edge.admission.TOO_LATE", 120.0)
    limits = LimitSettings(open_requests=8)
    settings = settings_for(neo4j_server, home, limits=limits, socket=tmp_path / "s")
    async with running(settings, await owner_token(settings, database)) as found, found.client() as client:
        port = settings.run.http_port
        head = f"POST /token HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 100\r\n{FORM}\r\n\r\na".encode()
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in strangers:
            writer.write(head)
        answers = [asyncio.create_task(reader.readline()) for reader, _ in strangers]
        try:
            async with asyncio.timeout(20):
                for turn, answer in enumerate(asyncio.as_completed(answers), start=1):
                    assert b" 503 " in await answer
                    if turn == 18:  # two are a quarter of eight
                        break
                assert (await found.ask(client, "tools/list")).status_code == 200
                assert (await client.get("/.well-known/oauth-authorization-server")).status_code == 200
                assert (await client.post("/token", data={"grant_type": "none"})).status_code in {400, 401}
        finally:
            for answer, (_, writer) in zip(answers, strangers, strict=True):
                answer.cancel()
                writer.close()


async def test_metrics_are_served_on_their_own_loopback_port_only(gateway: Gateway) -> None:
    async with gateway.client() as client:
        assert (await client.get("/metrics")).status_code == 404
        await gateway.insist(client, "graph_stats")
        metrics = f"http://127.0.0.1:{gateway.settings.edge.metrics_port}/metrics"
        text = (await client.get(metrics)).text
        rebound = await client.get(metrics, headers={"Host": "metrics.example.org"})
        assert (rebound.status_code, "graphkeep_" in rebound.text) == (421, False)
    assert 'graphkeep_tool_calls_total{tool="graph_stats"}' in text
    assert "graphkeep_loop_lag_seconds" in text


async def test_a_database_that_is_away_at_the_start_is_no_reason_to_stop(home: Path, gateway: Gateway) -> None:
    nowhere = Server(f"bolt://127.0.0.1:{free_port()}", "neo4j", "whatever")
    settings = settings_for(nowhere, home, socket=home / "away")
    async with running(settings, gateway.token) as away, away.client() as client:
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["checks"]["database"] == {"ok": False, "reason": "the database does not answer"}
        assert (await client.get("/healthz")).status_code == 200
        # The snapshot that the other gateway of this home left behind verifies the token.
        assert len((await away.ask(client, "tools/list")).json()["result"]["tools"]) >= 5
        began = time.monotonic()
        said = await away.call(client, "graph_stats")
        assert (said["ok"], said["reason"], said["retryable"]) == (False, "database_unavailable", True)
        assert time.monotonic() - began < 15
        assert (await client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 200
        registered = await client.post("/register", json={"redirect_uris": ["http://localhost/callback"]})
        assert (registered.status_code, registered.json()["reason"]) == (503, "starting")


async def test_a_wrong_database_password_is_fatal_and_says_what_to_do(neo4j_server: Server, home: Path) -> None:
    settings = settings_for(Server(neo4j_server.uri, "stranger", "wrong-password"), home, socket=home / "wrong")
    with pytest.raises(StartError, match="NEO4J_PASSWORD"):
        async with running(settings, ""):
            pass


async def test_a_database_that_comes_late_and_cannot_be_used_ends_the_process(neo4j_server: Server, home: Path) -> None:
    proxy = Proxy(neo4j_server.uri)
    proxy.port = free_port()
    settings = settings_for(Server(proxy.uri, "stranger", "wrong-password"), home, socket=home / "late")
    ready = asyncio.Event()
    serving = asyncio.create_task(serve(settings, ready=ready.set, stop=asyncio.Event()))
    await asyncio.wait_for(ready.wait(), 60)
    await proxy.start()
    try:
        with pytest.raises(StartError, match="NEO4J_PASSWORD") as refused:
            await asyncio.wait_for(serving, 60)
    finally:
        await proxy.stop()
    assert refused.value.exit_code == 78


async def test_a_busy_port_is_fatal_and_names_the_setting(gateway: Gateway, neo4j_server: Server, home: Path) -> None:
    settings = settings_for(neo4j_server, home, socket=home / "busy")
    busy = Settings(
        run=settings.run.model_copy(update={"http_port": gateway.settings.run.http_port}),
        store=settings.store,
        edge=settings.edge,
        oauth=settings.oauth,
    )
    with pytest.raises(StartError, match="GRAPHKEEP_HTTP_PORT"):
        await serve(busy)


async def test_who_starts_a_gateway_is_told_when_first_calls_are_as_fast_as_later_ones(
    neo4j_server: Server, home: Path
) -> None:
    planned, stop = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(
        serve(settings_for(neo4j_server, home, socket=home / "planned"), planned=planned.set, stop=stop)
    )
    try:
        await asyncio.wait_for(planned.wait(), 60)
    finally:
        stop.set()
        await serving


PROCESS = "from app.server import run; from app.settings import Settings; run(Settings())"


async def test_sigterm_with_open_connections_exits_in_time_and_cleanly(neo4j_server: Server, tmp_path: Path) -> None:
    port = free_port()
    environment = {
        **os.environ,
        "GRAPHKEEP_HOME": str(tmp_path),
        "GRAPHKEEP_HTTP_PORT": str(port),
        "GRAPHKEEP_STOP_SECONDS": "6",
        "GRAPHKEEP_EMBEDDING": "none",
        "GRAPHKEEP_PLAN_AHEAD": "false",
        "GRAPHKEEP_SECRET_KEY": SECRET_KEY,
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_PASSWORD": neo4j_server.password,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROCESS, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with httpx2.AsyncClient(base_url=f"http://localhost:{port}", trust_env=False) as client:
            await answering(client, process)
            idle = await asyncio.open_connection("127.0.0.1", port)
            half = await asyncio.open_connection("127.0.0.1", port)
            half[1].write(f"POST /register HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 9\r\n\r\nx".encode())
            await half[1].drain()
            await client.get("/healthz")
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 10) == 0
            assert time.monotonic() - began < 7
            for _, writer in (idle, half):
                writer.close()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert not (tmp_path / "run" / "gateway.sock").exists()


async def answering(client: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(90):
        while process.returncode is None:
            with contextlib.suppress(httpx2.TransportError):
                if (await client.get("/readyz")).status_code == 200:
                    return
            await asyncio.sleep(0.1)
    raise AssertionError("the gateway ended before it answered")

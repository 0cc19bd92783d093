"""What a gateway does while its database is stopped, hangs, or comes back: the tests follow one another."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from app.settings import LimitSettings, Settings
from app.store.child import ChildRecord
from app.store.embedded import EmbeddedServer
from app.store.schema import migrate
from tests.conftest import Server, engine_cache
from tests.gateway import LEGACY, MODERN, Gateway, message_of, owner_token, running, settings_for
from tests.ports import free_port

DEADLINE = 10.0
"""Seconds that a call may take here."""

RELATION = {"from_name": "Ada", "from_type": "Person", "relation": "WORKS_ON", "to_name": "Atlas", "to_type": "Project"}
INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@dataclass
class Place:
    """A database of its own that can be stopped, and the gateway on it, which can be started again."""

    home: Path
    port: int
    stack: AsyncExitStack
    server: EmbeddedServer | None = None
    settings: Settings | None = None
    token: str = ""
    gateway: Gateway = field(init=False)

    async def start_database(self) -> Server:
        self.server = EmbeddedServer(
            self.home, port=self.port, heap="512m", page_cache="64m", engine_cache=engine_cache()
        )
        address = await self.server.start(print)
        return Server(address.uri, address.user, address.password)

    async def stop_database(self) -> None:
        if self.server is not None:
            await self.server.stop()
            self.server = None

    async def start_gateway(self) -> None:
        assert self.settings is not None
        self.gateway = await self.stack.enter_async_context(running(self.settings, self.token))

    async def stop_gateway(self) -> None:
        await self.stack.aclose()

    def java(self) -> int:
        record = next(filter(None, map(ChildRecord.read, (self.home / "neo4j").rglob("*.json"))))
        return record.pid


@pytest_asyncio.fixture(scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    made = Place(tmp_path_factory.mktemp("database"), free_port(), AsyncExitStack())
    server = await made.start_database()
    limits = LimitSettings(
        calls_per_minute=100_000,
        burst=10_000,
        concurrent_reads=20,
        read_seconds=DEADLINE,
        write_seconds=DEADLINE,
        semantic_seconds=DEADLINE,
    )
    made.settings = settings_for(server, tmp_path_factory.mktemp("gk"), limits=limits)
    database = await server.connect()
    await migrate(database)
    made.token = await owner_token(made.settings, database)
    await database.close()
    await made.start_gateway()
    try:
        yield made
    finally:
        await made.stop_gateway()
        await made.stop_database()


async def until(holds: Callable[[], Any], seconds: float = 90.0) -> None:
    """Wait until an awaited condition holds."""
    async with asyncio.timeout(seconds):
        while not await holds():  # noqa: ASYNC110 - another process has no event of ours
            await asyncio.sleep(0.1)


async def ready(client: httpx2.AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 200


async def not_ready(client: httpx2.AsyncClient) -> bool:
    return not await ready(client)


async def what_needs_no_database_is_served(place: Place, client: httpx2.AsyncClient) -> None:
    for era in (MODERN, LEGACY):
        listed = message_of(await place.gateway.ask(client, "tools/list", era=era))["result"]["tools"]
        assert {"graph_relate", "graph_search", "graph_stats"} <= {tool["name"] for tool in listed}
    discovered = message_of(await place.gateway.ask(client, "server/discover"))["result"]
    assert MODERN in discovered["supportedVersions"]
    greeted = message_of(await place.gateway.ask(client, "initialize", era=LEGACY, **INITIALIZE))["result"]
    assert greeted["protocolVersion"] == LEGACY
    assert (await client.get("/healthz")).status_code == 200
    assert (await client.get("/.well-known/oauth-protected-resource/mcp")).status_code == 200


async def every_tool_says_that_it_may_be_tried_again(place: Place, client: httpx2.AsyncClient) -> None:
    calls: dict[str, dict[str, Any]] = {
        "graph_relate": RELATION,
        "graph_query": {"entities": ["Ada"]},
        "graph_entities": {"id": "ada"},
        "graph_search": {"query": "who works on Atlas?"},
        "graph_stats": {},
    }

    async def one(tool: str, arguments: dict[str, Any], era: str) -> None:
        began = time.monotonic()
        answer = await place.gateway.ask(client, "tools/call", era=era, name=tool, arguments=arguments)
        took = time.monotonic() - began
        assert answer.status_code == 200
        result = message_of(answer)["result"]
        said = result["structuredContent"]
        assert result["isError"] is True
        assert (said["ok"], said["retryable"], said["outcome"]) == (False, True, "not_applied"), said
        assert said["reason"] in {"database_unavailable", "deadline_exceeded"}, said
        assert took < DEADLINE + 5, (tool, took)

    await asyncio.gather(*(one(*call, era) for call in calls.items() for era in (MODERN, LEGACY)))


async def test_with_its_database_it_keeps_and_finds(place: Place) -> None:
    async with place.gateway.client() as client:
        await until(lambda: ready(client))
        kept = await place.gateway.insist(client, "graph_relate", RELATION)
        assert kept["ok"], kept


async def test_a_stopped_database_is_said_and_everything_else_goes_on(place: Place) -> None:
    await place.stop_database()
    async with place.gateway.client() as client:
        await until(lambda: not_ready(client))
        said = (await client.get("/readyz")).json()
        assert said["checks"]["database"]["ok"] is False
        assert said["checks"]["database"]["reason"]
        assert str(place.port) not in json.dumps(said)
        await what_needs_no_database_is_served(place, client)
        await every_tool_says_that_it_may_be_tried_again(place, client)
    async with place.gateway.client(token="no.such.token") as stranger:
        assert (await place.gateway.ask(stranger, "tools/list")).status_code == 401


async def test_a_gateway_restarted_meanwhile_still_knows_its_tokens(place: Place) -> None:
    await place.stop_gateway()
    await place.start_gateway()
    async with place.gateway.client() as client:
        assert (await client.get("/readyz")).status_code == 503
        await what_needs_no_database_is_served(place, client)
        await every_tool_says_that_it_may_be_tried_again(place, client)
        registered = await client.post("/register", json={"redirect_uris": ["http://localhost/callback"]})
        assert registered.status_code == 503


async def test_it_recovers_by_itself_when_the_database_returns(place: Place) -> None:
    await place.start_database()
    async with place.gateway.client() as client:
        await until(lambda: ready(client))
        found = await place.gateway.insist(client, "graph_query", entities=["Ada"])
        assert "Atlas" in json.dumps(found)
        kept = await place.gateway.insist(client, "graph_relate", {**RELATION, "to_name": "Borealis"})
        assert kept["ok"], kept


async def test_a_database_that_hangs_is_said_within_the_deadline_and_found_again(place: Place) -> None:
    java = place.java()
    async with place.gateway.client() as client:
        os.kill(java, signal.SIGSTOP)
        try:
            began = time.monotonic()
            said = await place.gateway.call(client, "graph_query", entities=["Ada"])
            assert (said["ok"], said["retryable"]) == (False, True), said
            assert time.monotonic() - began < DEADLINE + 5
            await until(lambda: not_ready(client))
            await what_needs_no_database_is_served(place, client)
        finally:
            os.kill(java, signal.SIGCONT)
        await until(lambda: ready(client))
        found = await place.gateway.insist(client, "graph_query", entities=["Ada"])
        assert "Borealis" in json.dumps(found)

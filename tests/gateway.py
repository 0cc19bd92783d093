"""A whole gateway for tests, run as it is run: real listeners, a real database, real tokens, both eras on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from pydantic import SecretStr

from app.access.service import accounts_of
from app.context import Role
from app.server import serve
from app.settings import EdgeSettings, EmbeddingSettings, LimitSettings, RunSettings, Settings, StoreSettings
from app.store.database import Database
from tests.conftest import Server
from tests.identity import fresh_email, fresh_name, settings_of_tests
from tests.ports import NO_TLS, free_port

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Gateway:
    """A gateway that answers, and the first owner's token."""

    settings: Settings
    token: str

    @property
    def url(self) -> str:
        return f"http://localhost:{self.settings.run.http_port}"

    def client(self, token: str | None = None, **options: Any) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token or self.token}", "Accept": "application/json, text/event-stream"}
        usual = {"timeout": 30, "trust_env": False, "verify": NO_TLS}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, **{**usual, **options})

    async def send(self, client: httpx2.AsyncClient, body: bytes, era: str, **headers: str) -> httpx2.Response:
        """A body as it is, under the headers of an era and ``headers`` (underscores for hyphens)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        head = {"MCP-Protocol-Version": era, "Content-Type": "application/json", **named}
        return await client.post("/mcp", content=body, headers=head)

    async def ask(
        self, client: httpx2.AsyncClient, method: str, *, era: str = MODERN, **params: Any
    ) -> httpx2.Response:
        """One request in the form of its era."""
        headers: dict[str, str] = {}
        if era == MODERN:
            headers = {"Mcp_Method": method} | ({"Mcp_Name": params["name"]} if "name" in params else {})
            params = {"_meta": META, **params}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.send(client, json.dumps(body).encode(), era, **headers)

    async def call(
        self,
        client: httpx2.AsyncClient,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        era: str = MODERN,
        **more: Any,
    ) -> dict[str, Any]:
        """The structured content of one tool call."""
        given = {**(arguments or {}), **more}
        answer = await self.ask(client, "tools/call", era=era, name=tool, arguments=given)
        if answer.status_code == 503:  # refused by the edge before it was read: a machine too busy to serve
            return {"ok": False, "reason": "busy", "retryable": True, "outcome": "not_applied"}
        content: dict[str, Any] = message_of(answer)["result"]["structuredContent"]
        return content

    async def insist(
        self,
        client: httpx2.AsyncClient,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        era: str = MODERN,
        **more: Any,
    ) -> dict[str, Any]:
        """Call as a client should: again while the answer says that it may help (a busy machine plans slowly)."""
        async with asyncio.timeout(120):
            while (said := await self.call(client, tool, arguments, era=era, **more)).get("retryable"):  # noqa: ASYNC110 - as clients do
                await asyncio.sleep(said.get("retry_after_ms", 500) / 1000)
        return said


def message_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC message of an answer: its body, or the last event of its stream."""
    text = answer.text
    if answer.headers["content-type"].startswith("text/event-stream"):
        text = [line.removeprefix("data:") for line in text.split("\n") if line.startswith("data:")][-1]
    found: dict[str, Any] = json.loads(text)
    return found


def settings_for(
    server: Server,
    home: Path,
    *,
    limits: LimitSettings | None = None,
    embedding: EmbeddingSettings | None = None,
    plan_ahead: bool = False,
    **run: Any,
) -> Settings:
    """Settings of a gateway on free ports, without a model unless one is asked for.

    Planning ahead costs a minute of processor time on a new database: each gateway would spend it again.
    """
    return Settings(
        run=RunSettings(home=home, http_port=free_port(), https_port=free_port(), **run),
        edge=EdgeSettings(metrics_port=free_port()),
        store=StoreSettings(
            neo4j_uri=server.uri,
            neo4j_user=server.user,
            neo4j_password=SecretStr(server.password),
            pool_size=20,
            plan_ahead=plan_ahead,
        ),
        limits=limits or LimitSettings(calls_per_minute=100_000, burst=10_000),
        oauth=settings_of_tests(),
        embedding=embedding or EmbeddingSettings(embedding="none"),
    )


async def owner_token(settings: Settings, database: Database) -> str:
    """A personal access token of the owner of a fresh tenant."""
    accounts = accounts_of(settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    user, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    return (await accounts.create_token(user.email, tenant.name)).text


@contextlib.asynccontextmanager
async def running(settings: Settings, token: str) -> AsyncIterator[Gateway]:
    """A gateway that serves until the block ends."""
    ready, stop = asyncio.Event(), asyncio.Event()
    serving = asyncio.create_task(serve(settings, ready=ready.set, stop=stop))
    waiting = asyncio.create_task(ready.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        waiting.cancel()
        await serving
    try:
        yield Gateway(settings, token)
    finally:
        stop.set()
        await asyncio.wait_for(serving, settings.run.stop_seconds + 5)

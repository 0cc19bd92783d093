"""A whole gateway with two public addresses, its victims and attackers, and a host that the attacker runs."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import digest
from app.settings import LimitSettings
from app.store.control.browser import SessionRecord
from app.store.control.schema import UNIQUE
from app.store.database import Database
from app.store.statement import statement
from tests.conftest import Server
from tests.gateway import Gateway, owner_token, running, settings_for
from tests.oauth.conftest import Gateway as Services
from tests.oauth.conftest import Life, Person
from tests.oauth.publisher import Publisher, publishing
from tests.ports import NO_TLS

LABELS = sorted({label for label, _ in UNIQUE})
CONTROL = statement(
    "tests.count_control_records",
    f"MATCH (n:{'|'.join(LABELS)}) UNWIND labels(n) AS label RETURN label, count(*) AS n",
    control=True,
)


@dataclass
class House:
    """What is attacked: ``addresses`` are its two public ones, each an issuer and a resource of its own."""

    gateway: Gateway
    database: Database
    publisher: Publisher
    addresses: tuple[str, str]
    _closing: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def services(self) -> Services:
        """The stores and secrets that the gateway works with, at its first address."""
        return Services(self.addresses[0], self.gateway.settings, [self.database])

    async def person(self, *, role: Role = Role.OWNER) -> Person:
        """Someone with a tenant of their own."""
        services, email = self.services.main, f"{secrets.token_hex(6)}@example.org"
        user = await services.users.create(email)
        tenant = await services.tenants.create(f"home {secrets.token_hex(6)}")
        await services.users.put_membership(user.id, tenant.id, role)
        return Person(user, tenant, email)

    async def life(self, person: Person | None = None, *, address: str = "", signed_in: bool = True) -> Life:
        """A browser and a client at an address. Signed in as ``sign_in`` would, without the seconds of a password."""
        services, person = self.services, person or await self.person()
        services.address = address or self.addresses[0]
        browser = await self._closing.enter_async_context(
            httpx2.AsyncClient(trust_env=False, timeout=60, verify=NO_TLS)
        )
        life = Life(services, browser, person)
        if signed_in:
            token, now = secrets.token_urlsafe(32), time.time()
            await services.main.browser.add_session(
                SessionRecord(digest(token), person.user.id, life.address, now, now + 3600)
            )
            domain = "localhost.local" if "localhost" in life.address else "127.0.0.1"
            browser.cookies.set(cookie_name(life.address), token, domain=domain)
        return life

    async def connected(self, **asked: str) -> tuple[Life, dict[str, Any]]:
        """A registered client that got its tokens."""
        life = await self.life()
        await life.register()
        return life, await life.tokens(**asked)

    async def works(self, token: str, address: str = "") -> bool:
        """Whether the resource takes this token. Waits for a replica that has not read of a new tenant yet."""
        async with asyncio.timeout(60):
            while (answer := await self.resource(token, address)).status_code == 503:  # noqa: ASYNC110 - as clients do
                await asyncio.sleep(0.2)
        assert answer.status_code in (200, 401), answer.text
        return answer.status_code == 200

    async def resource(self, token: str, address: str = "", **headers: str) -> httpx2.Response:
        """A call of the resource with this token."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        async with httpx2.AsyncClient(trust_env=False, timeout=60, verify=NO_TLS) as client:
            return await client.post(
                f"{address or self.addresses[0]}/mcp",
                json=body,
                headers={**accepted, "Authorization": f"Bearer {token}", **headers},
            )

    async def records(self) -> dict[str, int]:
        """How many control records there are, by label."""
        return {row["label"]: row["n"] for row in await self.database.control.read(CONTROL)}


def told(capfd: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The lines that the gateway logged since the last look; a failure of its own among them is one of the test's."""
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert [line for line in lines if line.get("level") in ("error", "critical") or "exception" in line] == []
    return lines


@pytest_asyncio.fixture(scope="module")
async def house(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    async with AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(publishing(tmp_path_factory.mktemp("publisher")))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SSL_CERT_FILE", str(publisher.authority))
        settings = settings_for(
            neo4j_server,
            tmp_path_factory.mktemp("gk"),
            limits=LimitSettings(calls_per_minute=100_000, burst=10_000, write_seconds=60, read_seconds=60),
        )
        addresses = (f"http://localhost:{settings.run.http_port}", f"http://127.0.0.1:{settings.run.http_port}")
        settings.edge = settings.edge.model_copy(update={"public_urls": addresses})
        settings.oauth = settings.oauth.model_copy(update={"client_document_hosts": (publisher.host,)})
        gateway = await stack.enter_async_context(running(settings, await owner_token(settings, database)))
        opened = House(gateway, database, publisher, addresses)
        await stack.enter_async_context(opened._closing)
        yield opened


@asynccontextmanager
async def trap() -> AsyncIterator[tuple[int, list[str]]]:
    """A port inside the network that nobody outside should make the gateway call, and who did."""
    callers: list[str] = []

    async def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(str(writer.get_extra_info("peername")))
        writer.close()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], callers


@pytest.fixture
def raw() -> Callable[..., Any]:
    """``await raw(address, head, body=b"")``: what is answered to bytes that no client library would send."""

    async def send(address: str, head: bytes, body: bytes = b"") -> bytes:
        host, _, port = address.partition("://")[2].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(head + body)
            await writer.drain()
            return await asyncio.wait_for(reader.read(65536), 60)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    return send

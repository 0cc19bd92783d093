"""Programs by others against the whole running gateway, through Caddy: authorization, tokens, both eras."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio

from app.access.service import accounts_of
from app.cli.connector.browser import Browser
from app.cli.connector.discovery import Documents, read_challenge, read_resource, read_server
from app.cli.connector.entering import Cookie
from app.cli.connector.life import live
from app.cli.connector.network import trust
from app.cli.connector.tokens import Connection
from app.cli.dev.caddy import Caddy
from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import digest
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.database import Database
from tests.cli.connector.spoiling import Proxy, proxied
from tests.conformance.person import Person
from tests.conformance.programs import AUTHLAB, CONFORMANCE, INSPECTOR, Ended, authlab, node, started, started_node
from tests.conformance.results import read_results
from tests.conftest import Server
from tests.gateway import running, settings_for
from tests.identity import fresh_email, fresh_name
from tests.ports import free_port

ERAS = ["legacy", "auto", "modern"]
LEAST_SCORE = 98


@dataclass
class Place:
    """A gateway at HTTPS, a personal token for it, and somebody who allows what is asked at either address."""

    token: str
    authority: Path
    home: Path
    person: Person
    neighbour: Person
    """The same person at the gateway's other address."""

    @property
    def https(self) -> str:
        return self.person.issuer

    async def foreign_token(self) -> str:
        """A valid token of the same gateway for its other address, which is another resource."""
        documents = Documents(f"{self.neighbour.issuer}/mcp", self.neighbour.client)
        for read in (read_challenge, read_resource, read_server):
            await read(documents)
        connection = Connection(documents, self.neighbour.browser)
        await connection.register()
        await connection.consent(["memory:read"])
        await connection.exchange()
        return connection.access_token


@pytest_asyncio.fixture(scope="module")
async def place(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    home = tmp_path_factory.mktemp("running")
    settings = settings_for(neo4j_server, home)
    accounts = accounts_of(settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    user, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    token = (await accounts.create_token(user.email, tenant.name)).text
    caddy = Caddy(home=home, port=settings.run.https_port, socket=settings.run.socket_path, progress=print)
    async with running(settings, token):
        await caddy.start()
        try:
            context = trust(caddy.root_certificate)
            async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=60) as client:
                people = [await signed_in(database, user.id, address, client) for address in settings.addresses]
                yield Place(token, caddy.root_certificate, home, *people)
        finally:
            await caddy.stop()


async def signed_in(database: Database, user: str, address: str, client: httpx2.AsyncClient) -> Person:
    session, now = secrets.token_urlsafe(32), time.time()
    await BrowserStore(database.control).add_session(SessionRecord(digest(session), user, address, now, now + 3600))
    browser = Browser(client, address)
    browser.cookies[cookie_name(address)] = session
    return Person(browser, client, address)


async def test_both_authorization_scenarios_pass(place: Place, show: Callable[[str], None]) -> None:
    port = free_port()
    metadata = {"redirect_uris": [f"http://127.0.0.1:{port}/callback"], "token_endpoint_auth_method": "none"}
    registered = await place.person.client.post(f"{place.https}/register", json=metadata)
    arguments = ("--url", place.https, "--client-id", registered.json()["client_id"], "-p", str(port))
    folder = place.home / "authorization"
    process = await started_node(
        CONFORMANCE,
        "authorization",
        *arguments,
        *("--resource", f"{place.https}/mcp", "-o", folder),
        NODE_EXTRA_CA_CERTS=str(place.authority),
    )
    ended = await place.person.attend(process)
    leg = read_results(folder)
    assert leg.scenarios == {"authorization-server-metadata-endpoint", "authorization-code-grant"}, ended
    assert not leg.of("FAILURE", "SKIPPED"), ended.said
    assert ended.code == 0, ended
    show(f"conformance authorization: 2 of 2 scenarios; warnings: {sorted(leg.of('WARNING')) or 'none'}")


async def test_the_authorization_lab_finds_nothing_that_is_wrong(place: Place, show: Callable[[str], None]) -> None:
    url = f"{place.https}/mcp"
    own = {"HOME": str(place.home), "XDG_CONFIG_HOME": str(place.home), "SSL_CERT_FILE": str(place.authority)}
    # The lab's own browser does nothing: the person reads the address that it prints.
    login = await started(*AUTHLAB, "login", url, "--scope", "memory:read", "--thorough", **own, BROWSER="true")
    ended = await place.person.attend(login)
    assert ended.code == 0, ended
    arguments = ("--foreign-token", await place.foreign_token(), "--tool", "graph_relate", "--format", "json")
    scanned = await authlab("scan", url, *arguments, **own)
    report = json.loads(scanned.said)
    wrong = {found["id"]: found for found in report["results"] if found["status"] in ("fail", "warn", "error")}
    assert not wrong, wrong
    show(f"mcp-authlab: {report['score']} of 100, {report['conformance']}, {report['coverage']['line']}")
    assert report["score"] >= LEAST_SCORE


async def test_the_inspector_connects_in_each_era_and_lists_the_tools_without_a_complaint(place: Place) -> None:
    async def listed(era: str) -> Ended:
        return await node(
            INSPECTOR,
            *("--cli", f"{place.https}/mcp", "--transport", "http", "--protocol-era", era),
            *("--header", f"Authorization: Bearer {place.token}"),
            *("--method", "tools/list", "--strict", "--format", "json"),
            NODE_EXTRA_CA_CERTS=str(place.authority),
            HOME=str(place.home),
        )

    for era, ended in zip(ERAS, await asyncio.gather(*map(listed, ERAS)), strict=True):
        assert ended.code == 0, (era, ended)
        assert "graph_relate" in ended.said, era


async def test_the_doctor_finds_it_sound_over_https(place: Place) -> None:
    name, value = next(iter(place.person.browser.cookies.items()))
    report = await live(f"{place.https}/mcp", way_in=Cookie(name, value), context=trust(place.authority))
    assert report.failed is None, report.failed
    assert report.complete
    assert "TLSv1.3" in report.steps[1].detail


# What the suite asks of any server, with tools of its own or not; the rest needs the tools of its fixture.
OF_ANY_SERVER = {
    "2025-11-25": ("server-initialize", "ping", "tools-list", "prompts-list", "resources-list"),
    "2026-07-28": ("tools-list", "prompts-list", "resources-list"),
}


async def test_what_the_suite_asks_of_any_server_holds_for_the_product_itself(place: Place) -> None:
    address = place.neighbour.issuer
    proxy, together = Proxy(address, token=place.token, patient=True), asyncio.Semaphore(2)
    async with proxied(proxy) as port:
        proxy.rename = (f"localhost:{port}", address.partition("://")[2])

        async def run(revision: str, scenario: str) -> tuple[str, Ended]:
            arguments = ("--url", f"http://localhost:{port}/mcp", "--scenario", scenario, "--spec-version", revision)
            async with together:
                return f"{revision} {scenario}", await node(CONFORMANCE, "server", *arguments)

        wanted = [run(revision, scenario) for revision, scenarios in OF_ANY_SERVER.items() for scenario in scenarios]
        ended = dict(await asyncio.gather(*wanted))
    failed = {name: found.said for name, found in ended.items() if found.code != 0}
    assert not failed, failed

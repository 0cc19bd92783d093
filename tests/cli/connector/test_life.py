"""The doctor against a real gateway, and against the same one with one thing spoilt on the way."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from starlette.requests import Request

from app.access.service import accounts_of
from app.cli.connector.entering import Cookie, Link
from app.cli.connector.life import live
from app.cli.connector.report import Report
from app.cli.connector.run import Options, run
from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer, issue_sign_in_link
from app.oauth.vault import Vault
from app.settings import EdgeSettings, Settings
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.control.keys import Keys
from app.store.database import Database
from tests.cli.connector.spoiling import Answer, Proxy, Spoil, proxied
from tests.conftest import Server
from tests.gateway import running, settings_for
from tests.identity import fresh_email, fresh_name, sealer_of_tests
from tests.oauth.conftest import PASSWORD
from tests.ports import NO_TLS

STEPS = [
    "name",
    "certificate",
    "challenge",
    "resource metadata",
    "issuer metadata",
    "OpenID configuration",
    "client metadata document",
    "registration",
    "authorization",
    "sign-in",
    "consent",
    "token",
    "refresh",
    "parallel refresh",
    "discovery",
    "handshake",
    "tool call",
    "step-up",
    "revocation",
]
OPTIONAL = {"client metadata document"}


@dataclass
class House:
    """A gateway behind the proxy, and somebody who owns a tenant there."""

    proxy: Proxy
    address: str
    settings: Settings
    database: Database
    user: str
    email: str
    token: str

    async def examined(self, spoil: Spoil | None = None, *, path: str = "/mcp") -> Report:
        """The doctor's report, signed in as the owner."""
        self.proxy.spoil = spoil
        session, now = secrets.token_urlsafe(32), time.time()
        await BrowserStore(self.database.control).add_session(
            SessionRecord(digest(session), self.user, self.address, now, now + 600)
        )
        way_in = Cookie(cookie_name(self.address), session)
        try:
            return await live(f"{self.address}{path}", way_in=way_in, context=NO_TLS)
        finally:
            self.proxy.spoil = None


@pytest_asyncio.fixture(scope="module")
async def house(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[House]:
    proxy = Proxy("")
    async with proxied(proxy) as port:
        address = f"http://localhost:{port}"
        settings = settings_for(neo4j_server, tmp_path_factory.mktemp("doctor"))
        settings.edge = EdgeSettings(public_urls=(address,))
        accounts = accounts_of(settings, database)
        tenant = await accounts.create_tenant(fresh_name("tenant"))
        user, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
        token = (await accounts.create_token(user.email, tenant.name)).text
        async with running(settings, token) as gateway:
            proxy.upstream = gateway.url
            yield House(proxy, address, settings, database, user.id, user.email, token)


def seen(report: Report) -> dict[str, str]:
    return {step.step: f"{step.state}: {step.detail}" for step in report.steps}


async def test_every_step_of_a_connectors_life_passes_at_a_sound_gateway(house: House) -> None:
    report = await house.examined()
    assert report.failed is None, seen(report)
    assert [step.step for step in report.steps] == STEPS
    assert {step.step for step in report.steps if step.state != "ok"} <= OPTIONAL
    said = seen(report)
    assert re.search(r"refused after \d", said["revocation"])
    assert "memory:write" in said["step-up"]
    assert report.as_json()["ok"] is True


def at(path: str, change: Callable[[Answer], Any], *, method: str | None = None) -> Spoil:
    """Spoil the answers of one path (below it too, where it ends in a slash)."""

    def spoil(request: Request, answer: Answer) -> None:
        found = request.url.path
        if (found == path or (path.endswith("/") and found.startswith(path))) and method in (None, request.method):
            change(answer)

    return spoil


def becomes(status: int, body: bytes = b"", **headers: str) -> Callable[[Answer], None]:
    def change(answer: Answer) -> None:
        answer.status, answer.body = status, body
        answer.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]

    return change


def challenged(pattern: str, by: str) -> Spoil:
    """Rewrite the challenge of 401 and 403."""

    def spoil(_request: Request, answer: Answer) -> None:
        answer.header("www-authenticate", lambda value: re.sub(pattern, by, value))

    return spoil


RESOURCE, SERVER, OPENID = (
    f"/.well-known/{name}"
    for name in ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")
)
PART_OF_OPENID = b'{"issuer": "http://localhost", "authorization_endpoint": "http://localhost/authorize"}'


def documents(path: str, change: Callable[[dict[str, Any]], Any]) -> Spoil:
    """Change both documents: at the root and with the path inserted."""

    def spoil(request: Request, answer: Answer) -> None:
        if request.url.path in (path, f"{path}/mcp"):
            answer.document(change)

    return spoil


def without(*names: str) -> Callable[[dict[str, Any]], None]:
    return lambda values: [values.pop(name) for name in names] and None


SPOILT: dict[str, tuple[Spoil, str, str]] = {
    "the endpoint redirects": (
        at("/mcp", becomes(307, location="http://localhost/mcp/")),
        "challenge",
        "redirects",
    ),
    "a firewall answers": (at("/mcp", becomes(403, b"<html>", content_type="text/html")), "challenge", "firewall"),
    "the gateway is down behind its proxy": (at("/mcp", becomes(502)), "challenge", "502"),
    "the endpoint is elsewhere": (at("/mcp", becomes(404)), "challenge", "404"),
    "no challenge": (
        lambda _, answer: answer.header("www-authenticate", lambda _: None),
        "challenge",
        "WWW-Authenticate",
    ),
    "no resource_metadata": (challenged(r'resource_metadata="[^"]*"', 'realm="x"'), "challenge", "resource_metadata"),
    "a relative resource_metadata": (challenged(r'"http://[^/"]*/', '"/'), "challenge", "absolute"),
    "a resource_metadata elsewhere": (challenged(r"http://localhost:\d+", "http://inside:8080"), "challenge", "inside"),
    "no scope": (challenged(r'scope="[^"]*"', 'realm="x"'), "challenge", "scope"),
    "an error though no token was sent": (
        challenged("^Bearer ", 'Bearer error="invalid_token", '),
        "challenge",
        "error",
    ),
    "no resource document": (at(f"{RESOURCE}/mcp", becomes(404)), "resource metadata", "404"),
    "a page for the resource document": (at(f"{RESOURCE}/mcp", becomes(200, b"<html>")), "resource metadata", "JSON"),
    "another document at the root": (
        at(RESOURCE, lambda answer: answer.document(lambda values: values.update(resource_name="another"))),
        "resource metadata",
        "differ",
    ),
    "a resource with a slash behind": (
        documents(RESOURCE, lambda values: values.update(resource=f"{values['resource']}/")),
        "resource metadata",
        "the same text",
    ),
    "a resource of another scheme": (
        documents(RESOURCE, lambda values: values.update(resource=values["resource"].replace("http:", "https:"))),
        "resource metadata",
        "the same text",
    ),
    "no authorization server": (
        documents(RESOURCE, without("authorization_servers")),
        "resource metadata",
        "authorization_servers",
    ),
    "no issuer document": (at(SERVER, becomes(404)), "issuer metadata", "404"),
    "an issuer with a slash behind": (
        documents(SERVER, lambda values: values.update(issuer=f"{values['issuer']}/")),
        "issuer metadata",
        "the same text",
    ),
    "endpoints at an inner address": (
        documents(SERVER, lambda values: values.update(token_endpoint="http://inside:8080/token")),
        "issuer metadata",
        "token_endpoint",
    ),
    "metadata documents half advertised": (
        documents(
            SERVER,
            lambda values: values.update(
                client_id_metadata_document_supported=True, token_endpoint_auth_methods_supported=["client_secret_post"]
            ),
        ),
        "issuer metadata",
        "`none`",
    ),
    "no S256": (
        documents(SERVER, lambda values: values.update(code_challenge_methods_supported=["plain"])),
        "issuer metadata",
        "S256",
    ),
    "no offline_access": (
        documents(SERVER, lambda values: values["scopes_supported"].remove("offline_access")),
        "issuer metadata",
        "offline_access",
    ),
    "no iss": (
        documents(SERVER, without("authorization_response_iss_parameter_supported")),
        "issuer metadata",
        "RFC 9207",
    ),
    "no registration_endpoint": (
        documents(SERVER, without("registration_endpoint")),
        "issuer metadata",
        "registration",
    ),
    "a part of an OpenID configuration": (
        at(OPENID, becomes(200, PART_OF_OPENID, content_type="application/json")),
        "OpenID configuration",
        "jwks_uri",
    ),
    "no client is known by its document": (
        lambda request, answer: becomes(400, b"<html>")(answer) if "claude.ai" in str(request.url.query) else None,
        "client metadata document",
        "was refused",
    ),
    "no registration": (at("/register", becomes(403)), "registration", "403"),
    "unknown clients are told nothing": (at("/token", becomes(500)), "registration", "invalid_client"),
    "no sign-in": (at("/sign-in", becomes(502)), "authorization", "/sign-in"),
    "the consent page is lost": (at("/consent", becomes(200, b"hello"), method="POST"), "consent", "/consent"),
    "the code comes without its issuer": (
        at(
            "/consent",
            lambda answer: answer.header("location", lambda value: re.sub(r"&iss=[^&]*", "&iss=evil", value)),
            method="POST",
        ),
        "consent",
        "issuer",
    ),
    "the tools are behind a firewall": (
        lambda request, answer: becomes(403)(answer) if request.headers.get("mcp-method") == "tools/call" else None,
        "tool call",
        "403",
    ),
}


@pytest.mark.parametrize("what", SPOILT)
async def test_the_one_thing_that_is_spoilt_is_named(house: House, what: str) -> None:
    spoil, step, words = SPOILT[what]
    report = await house.examined(spoil)
    assert report.failed is not None, seen(report)
    assert report.failed.step == step, seen(report)
    assert words in f"{report.failed.detail} {report.failed.remedy}"
    assert report.failed.remedy
    after = report.steps[report.steps.index(report.failed) + 1 :]
    assert {found.state for found in after} <= {"not tried"}
    assert report.as_json()["failed"] == step


async def test_without_anybody_to_sign_in_the_rest_is_tried_with_a_token_and_what_was_not_is_said(house: House) -> None:
    report = await live(f"{house.address}/mcp", way_in=None, token=house.token, context=NO_TLS)
    assert report.failed is None, seen(report)
    assert not report.complete
    states = {step.step: step.state for step in report.steps}
    assert {states[name] for name in ("discovery", "handshake", "tool call", "authorization")} == {"ok"}
    assert {states[name] for name in ("sign-in", "consent", "token", "step-up", "revocation")} == {"not tried"}
    assert "--signin" in seen(report)["sign-in"]


async def test_a_one_time_link_signs_in_but_the_doctor_chooses_nobodys_password(house: House) -> None:
    services = AuthorizationServer(
        house.database, house.settings, Vault(Keys(house.database.control), sealer_of_tests(house.settings.run.folder))
    )
    link = await issue_sign_in_link(services, house.user, house.address)
    refused = await live(f"{house.address}/mcp", way_in=Link(link), context=NO_TLS)
    assert refused.failed is not None
    assert (refused.failed.step, "password" in refused.failed.detail) == ("sign-in", True)
    await services.passwords.set(house.user, PASSWORD)
    signed_in = await live(f"{house.address}/mcp", way_in=Link(link), context=NO_TLS)
    assert signed_in.failed is None, seen(signed_in)
    used = await live(f"{house.address}/mcp", way_in=Link(link), context=NO_TLS)
    assert used.failed is not None
    assert used.failed.step == "sign-in"
    elsewhere = await live(f"{house.address}/mcp", way_in=Link("https://other.example.com/sign-in/link?token=x"))
    assert "each address has its own" in (elsewhere.failed or used.failed).remedy


async def test_the_command_signs_in_through_the_store_of_its_machine_and_leaves_no_session(
    house: House, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(user=house.email)

    async def doctor(*, as_json: bool) -> tuple[int, str]:
        capsys.readouterr()
        code = await asyncio.to_thread(run, house.settings, house.address, options, as_json=as_json)
        return code, capsys.readouterr().out

    browser = BrowserStore(house.database.control)
    before = await browser.sessions_of(house.user, now=time.time())
    code, said = await doctor(as_json=True)
    assert code == 0, said
    report = json.loads(said)
    assert (report["ok"], report["url"]) == (True, f"{house.address}/mcp")
    assert [step["step"] for step in report["steps"]] == STEPS
    assert {step["state"] for step in report["steps"]} == {"ok"}

    house.proxy.spoil = SPOILT["no offline_access"][0]
    try:
        code, said = await doctor(as_json=False)
    finally:
        house.proxy.spoil = None
    assert code == 1
    assert "FAILED     issuer metadata: offline_access" in said
    assert "A connector fails at the step 'issuer metadata'." in said
    assert await browser.sessions_of(house.user, now=time.time()) == before

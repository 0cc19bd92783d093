"""Cloudflare Access, played by a local key server; and the list of addresses that may come by a provider."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from app.errors import StartError
from app.oauth.login.allowlist import AllowList
from app.oauth.login.cloudflare import ASSERTION, CloudflareAccess
from app.oauth.login.providers import Providers
from app.oauth.login.vouching import KeyServer, NotVouched
from app.settings import SignInSettings
from tests.oauth.conftest import Life, form_of, serving

AUDIENCE = "0123456789abcdef"


@dataclass
class Team:
    """A team's key server. ``asked`` counts how often its keys were fetched."""

    address: str = ""
    keys: list[RSAKey] = field(default_factory=lambda: [RSAKey.generate_key(2048, {"kid": "one"})])
    asked: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        keys = [{**key.as_dict(private=False), "use": "sig", "alg": "RS256"} for key in self.keys]
        await JSONResponse({"keys": [*keys, {"kty": "unheard of"}]})(scope, receive, send)

    def assertion(self, key: Any = None, algorithm: str = "RS256", **changes: Any) -> str:
        now = int(time.time())
        claims = {
            "iss": self.address,
            "aud": [AUDIENCE],
            "sub": secrets.token_hex(8),
            "email": f"{secrets.token_hex(6)}@example.org",
            "iat": now,
            "nbf": now,
            "exp": now + 600,
            "type": "app",
            **changes,
        }
        given = {name: value for name, value in claims.items() if value is not None}
        used = key or self.keys[0]
        return jwt.encode({"alg": algorithm, "kid": used.kid or "one"}, given, used, algorithms=[algorithm])


@pytest_asyncio.fixture(scope="module")
async def team() -> AsyncIterator[Team]:
    made = Team()
    async with serving(made) as port:
        made.address = f"http://127.0.0.1:{port}"
        yield made


@pytest.fixture
async def stranger(start_gateway: Callable[..., Any], open_life: Callable[..., Any], team: Team) -> Life:
    signin = SignInSettings(
        access_team_domain=team.address, access_audience=AUDIENCE, allowed_emails=("*@example.org",)
    )
    made: Life = await open_life(await start_gateway(signin=signin), signed_in=False)
    return made


async def come(life: Life, assertion: str) -> Any:
    page = await life.browser.get(f"{life.address}/sign-in", headers={ASSERTION: assertion})
    return await life.browser.post(
        f"{life.address}/sign-in/access", data={"csrf": form_of(page.text)["csrf"]}, headers={ASSERTION: assertion}
    )


async def test_an_assertion_signs_in_and_the_subject_is_the_identity(stranger: Life, team: Team) -> None:
    subject, email = secrets.token_hex(8), f"{secrets.token_hex(6)}@example.org"
    page = await stranger.browser.get(
        f"{stranger.address}/sign-in", headers={ASSERTION: team.assertion(sub=subject, email=email)}
    )
    assert f"Continue as {email}" in page.text
    assert (await come(stranger, team.assertion(sub=subject, email=email))).status_code == 303
    assert email in (await stranger.browser.get(f"{stranger.address}/signed-in")).text
    stranger.browser.cookies.clear()
    moved = team.assertion(sub=subject, email=f"{secrets.token_hex(6)}@example.org")
    assert (await come(stranger, moved)).status_code == 303
    assert email in (await stranger.browser.get(f"{stranger.address}/signed-in")).text


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"aud": ["another"]}, 401),
        ({"aud": None}, 401),
        ({"iss": "https://another.cloudflareaccess.com"}, 401),
        ({"exp": int(time.time()) - 3600}, 401),
        ({"exp": None}, 401),
        ({"nbf": int(time.time()) + 3600}, 401),
        ({"sub": ""}, 401),
        ({"email": None, "common_name": "a service token"}, 401),
        ({"email": "somebody@example.com"}, 403),
        ({"email": "somebody@sub.example.org"}, 403),
    ],
)
async def test_an_assertion_that_is_not_for_us_is_refused(
    stranger: Life, team: Team, changes: dict[str, Any], status: int
) -> None:
    assert (await come(stranger, team.assertion(**changes))).status_code == status
    assert (await stranger.browser.get(f"{stranger.address}/signed-in")).status_code == 303


async def test_a_forged_assertion_is_refused(stranger: Life, team: Team) -> None:
    others = RSAKey.generate_key(2048, {"kid": "one"})
    shared = OctKey.import_key(secrets.token_bytes(32), {"kid": "one"})
    for forged in (
        team.assertion(key=others),
        team.assertion(key=shared, algorithm="HS256"),
        team.assertion().rpartition(".")[0] + ".",
        "a.b.c",
        "x" * 20_000,
    ):
        assert (await come(stranger, forged)).status_code == 401


async def test_keys_are_fetched_once_and_again_for_a_new_one(team: Team) -> None:
    access, before = CloudflareAccess(team.address, AUDIENCE), team.asked
    for _ in range(3):
        await access.vouched(team.assertion())
    assert team.asked == before + 1
    with pytest.raises(NotVouched):  # not at once again: a flood of forgeries asks nobody
        await access.vouched(team.assertion(key=RSAKey.generate_key(2048, {"kid": "unknown"})))
    assert team.asked == before + 1
    keys = KeyServer(ask_again_seconds=0)
    where = f"{team.address}/cdn-cgi/access/certs"
    await keys.claims(team.assertion(), where)
    team.keys.insert(0, RSAKey.generate_key(2048, {"kid": "two"}))
    assert (await keys.claims(team.assertion(), where))["iss"] == team.address


def test_the_list_admits_addresses_and_domains_in_any_case() -> None:
    allowed = AllowList.of(("Me@Example.com", "*@example.org"))
    assert allowed.admits("me@example.com")
    assert allowed.admits("ANYONE@EXAMPLE.ORG")
    for other in (
        "you@example.com",
        "a@sub.example.org",
        "a@example.org.evil",
        "a@evil@example.org",
        "",
        "example.org",
    ):
        assert not allowed.admits(other)
    assert not AllowList.of(())
    assert AllowList.of(("*",)).admits("anyone@example.net")
    assert not AllowList.of(("*",)).admits("no address")


@pytest.mark.parametrize(
    "entry", ["example.org", "@example.org", "*@", "*@*", "*@*.example.org", "a@b@example.org", "a*@example.org", "**"]
)
def test_a_list_that_cannot_be_read_stops_the_start(entry: str) -> None:
    with pytest.raises(StartError, match="GRAPHKEEP_ALLOWED_EMAILS"):
        Providers(SignInSettings(allowed_emails=("me@example.com", entry)))


@pytest.mark.parametrize(
    "settings",
    [
        {"oidc_issuer": "https://id.example.com", "oidc_client_id": "x"},
        {"oidc_issuer": "https://id.example.com", "allowed_emails": ("*",)},
        {"oidc_issuer": "http://id.example.com", "oidc_client_id": "x", "allowed_emails": ("*",)},
        {"oidc_client_id": "x", "allowed_emails": ("*",)},
        {"access_team_domain": "team.cloudflareaccess.com", "access_audience": "x"},
        {"access_team_domain": "team.cloudflareaccess.com", "allowed_emails": ("*",)},
        {"access_team_domain": "http://team.example.com", "access_audience": "x", "allowed_emails": ("*",)},
    ],
)
def test_half_a_provider_stops_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(StartError, match="Nothing was started"):
        Providers(SignInSettings(**settings))

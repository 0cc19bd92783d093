"""The authorization endpoint: a page before anything is trusted, a redirect after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.oauth.conftest import Life

UNTRUSTED: tuple[dict[str, Any], ...] = (
    {"client_id": None},
    {"client_id": "gk1.made.up"},
    {"client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata"},
    {"redirect_uri": "https://claude.ai.evil/x"},
    {"redirect_uri": "https://claude.ai/api/mcp/auth_callback"},
    {"redirect_uri": "http://127.0.0.1:49152/callback/"},
    {"redirect_uri": "http://127.0.0.1:49152/callback#x"},
    {"redirect_uri": "http://x@127.0.0.1:49152/callback"},
    {"redirect_uri": "//evil.example"},
    {"state": "x" * 5000},
)
TRUSTED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"response_type": None}, "invalid_request"),
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_mode": "fragment"}, "invalid_request"),
    ({"code_challenge": None}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge_method": None}, "invalid_request"),
    ({"resource": "https://evil.example/mcp"}, "invalid_target"),
    ({"scope": "openid email"}, "invalid_scope"),
    ({"prompt": "none"}, "interaction_required"),
    ({"request": "x"}, "request_not_supported"),
    ({"request_uri": "https://evil.example/x"}, "request_uri_not_supported"),
)


async def test_before_client_and_address_are_trusted_an_error_is_a_page(life: Life) -> None:
    for changes in UNTRUSTED:
        answer = await life.ask(**changes)
        assert answer.status_code == 400, changes
        assert "location" not in answer.headers
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_later_errors_go_back_to_the_client_with_state_and_issuer(life: Life) -> None:
    for changes, error in TRUSTED:
        assert life.returned(await life.ask(**changes))["error"] == error, changes


async def test_a_repeated_parameter_is_refused(life: Life) -> None:
    url = life.question() + "&scope=admin"
    assert life.returned(await life.browser.get(url))["error"] == "invalid_request"
    twice = life.question() + "&redirect_uri=" + quote("https://claude.ai/x")
    assert (await life.browser.get(twice)).status_code == 400


async def test_a_loopback_client_may_come_back_on_another_port(life: Life) -> None:
    elsewhere = "http://127.0.0.1:50001/callback"
    page = await life.to_consent(redirect_uri=elsewhere)
    answer = await life.answer(page)
    assert answer.headers["location"].startswith(f"{elsewhere}?")


async def test_a_query_in_the_redirect_uri_is_kept(life: Life) -> None:
    await life.register(redirect_uris=["http://127.0.0.1:49152/callback?tool=a"])
    answer = await life.answer(await life.to_consent())
    assert answer.headers["location"].startswith("http://127.0.0.1:49152/callback?tool=a&code=")


async def test_a_stricter_policy_reaches_clients_that_registered_before(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any]
) -> None:
    gateway = await start_gateway(redirect_hosts=("https://example.org",))
    life: Life = await open_life(gateway)
    await life.register(redirect_uris=["https://example.org/callback"])
    from app.oauth.clients.redirect import RedirectPolicy

    gateway.main.policy = RedirectPolicy(["https://claude.ai"])
    assert (await life.ask()).status_code == 400


async def test_unknown_scopes_are_left_out_and_none_means_all_but_admin(life: Life) -> None:
    tokens = await life.tokens(scope="memory:read openid mcp")
    assert tokens["scope"] == "memory:read"
    everything = await life.tokens(scope=None)
    assert "ledger:write" in everything["scope"]
    assert "admin" not in everything["scope"]

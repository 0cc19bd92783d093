"""Where a browser may be sent: nothing that two readers could read differently."""

from __future__ import annotations

import pytest

from app.oauth.clients.redirect import RedirectPolicy, matches, read_target
from app.settings import OAuthSettings

CLAUDE = "https://claude.ai/api/mcp/auth_callback"
DEFAULT = RedirectPolicy(OAuthSettings.model_fields["redirect_hosts"].default)


@pytest.mark.parametrize(
    "uri",
    [
        CLAUDE,
        "https://claude.com/api/mcp/auth_callback",
        "https://chatgpt.com/connector/oauth/x",
        "https://vscode.dev/redirect",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "vscode://ms.mcp/callback",
        "http://localhost:3118/callback",
        "http://127.0.0.1:51000/",
        "http://[::1]:51000/callback",
        "https://claude.ai:443/x",
    ],
)
def test_known_connectors_and_loopback_are_allowed(uri: str) -> None:
    assert DEFAULT.allows(uri)


TRICKS = [
    "https://claude.ai.evil/api/mcp/auth_callback",
    "https://claude.ai.evil.example/x",
    "https://evilclaude.ai/x",
    "https://evil.example/claude.ai",
    "https://claude.ai@evil.example/x",
    "https://claude.ai:x@evil.example/",
    "https://claude.ai%40evil.example/",
    "https://claude.ai%2eevil.example/",
    "https://claude.ai%00.evil.example/",
    "https://claude.ai\\@evil.example/",
    "https://evil.example\\.claude.ai/",
    "https:\\\\claude.ai/x",
    "https:/claude.ai/x",
    "https:claude.ai/x",
    "https:///claude.ai/x",
    "//claude.ai/x",
    "/x",
    "claude.ai",
    "https://claude.ai./x",
    "https://.claude.ai/x",
    "https://claude..ai/x",
    "https://CLAUDE.ai.evil/x",
    "https://claude.ai/x#fragment",
    "https://claude.ai/x#",
    "https://claude.ai:444/x",
    "https://claude.ai:/x",
    "https://claude.ai:0/x",
    "https://claude.ai:99999/x",
    "https://claude.ai:4４3/x",
    "https://сlaude.ai/x",
    "https://claude。ai/x",
    "https://xn--laude-u5d.ai/x",
    "https://claude.ai/x\n",
    "https://claude.ai/x\r\nLocation: https://evil.example",
    " https://claude.ai/x",
    "https://claude.ai\t/x",
    "https://claude.ai/\x00",
    "https://sub.claude.ai/x",
    "http://claude.ai/x",
    "http://localhost.evil.example/x",
    "http://127.0.0.1.evil.example/x",
    "http://127.0.0.2/x",
    "http://0.0.0.0/x",
    "http://2130706433/x",
    "http://[::ffff:127.0.0.1]/x",
    "http://user@localhost/x",
    "http://localhost@evil.example/x",
    "javascript:alert(1)",
    "JAVASCRIPT:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "vbscript:x",
    "blob:https://claude.ai/x",
    "evil://x",
    "cursorx://x",
    "",
    "https://",
    "https://claude.ai/" + "x" * 600,
]


@pytest.mark.parametrize("uri", TRICKS)
def test_tricks_are_refused(uri: str) -> None:
    assert not DEFAULT.allows(uri)
    assert not DEFAULT.verified(uri)


@pytest.mark.parametrize("uri", [uri for uri in TRICKS if uri not in ("evil://x", "cursorx://x")])
def test_an_open_policy_still_refuses_what_is_not_well_formed(uri: str) -> None:
    harmless_hosts = {
        "https://claude.ai.evil/api/mcp/auth_callback",
        "https://claude.ai.evil.example/x",
        "https://evilclaude.ai/x",
        "https://evil.example/claude.ai",
        "https://claude.ai:444/x",
        "https://xn--laude-u5d.ai/x",
        "https://sub.claude.ai/x",
    }
    assert RedirectPolicy(["*"]).allows(uri) is (uri in harmless_hosts)


def test_an_open_policy_marks_what_it_does_not_name() -> None:
    policy = RedirectPolicy(["*", "https://claude.ai"])
    assert policy.verified(CLAUDE)
    assert policy.allows("https://example.org/callback")
    assert not policy.verified("https://example.org/callback")


def test_a_program_on_loopback_is_allowed_and_never_verified() -> None:
    assert DEFAULT.allows("http://localhost:1/x")
    assert not DEFAULT.verified("http://localhost:1/x")


@pytest.mark.parametrize(
    ("entry", "uri", "allowed"),
    [
        ("claude.ai", CLAUDE, True),
        ("https://Claude.ai/", CLAUDE, True),
        ("*.example.org", "https://a.example.org/x", True),
        ("*.example.org", "https://example.org/x", False),
        ("*.example.org", "https://a.b.example.org/x", False),
        ("https://example.org:8443", "https://example.org:8443/x", True),
        ("https://example.org:8443", "https://example.org/x", False),
        ("zed://", "zed://x", True),
        ("zed://", "zedx://x", False),
        ("", "https://x/", False),
    ],
)
def test_the_list_takes_hosts_one_label_wildcards_ports_and_schemes(entry: str, uri: str, allowed: bool) -> None:
    assert RedirectPolicy([entry]).allows(uri) is allowed


@pytest.mark.parametrize(
    ("registered", "presented", "same"),
    [
        (CLAUDE, CLAUDE, True),
        (CLAUDE, CLAUDE + "/", False),
        (CLAUDE, CLAUDE + "?x=1", False),
        (CLAUDE, CLAUDE.upper(), False),
        (CLAUDE, "https://claude.ai/api/mcp/../mcp/auth_callback", False),
        (CLAUDE, "https://claude.ai/api/mcp/auth%5Fcallback", False),
        (CLAUDE, "https://claude.ai:443/api/mcp/auth_callback", False),
        ("http://localhost/callback", "http://localhost:5000/callback", True),
        ("http://localhost:3000/callback", "http://localhost:5000/callback", True),
        ("http://127.0.0.1/callback", "http://localhost:5000/callback", False),
        ("http://localhost/callback", "http://localhost:5000/other", False),
        ("http://localhost/callback", "http://localhost:5000/callback?x=1", False),
        ("http://localhost/callback", "https://localhost:5000/callback", False),
        ("http://[::1]/callback", "http://[::1]:5000/callback", True),
        ("cursor://a/b", "cursor://a/b", True),
        ("cursor://a/b", "cursor://a/c", False),
    ],
)
def test_only_the_port_of_a_loopback_address_may_differ(registered: str, presented: str, same: bool) -> None:
    assert matches([registered], presented) is same


def test_a_target_names_its_host_and_what_a_content_policy_must_allow() -> None:
    assert (read_target(CLAUDE).host, read_target(CLAUDE).origin) == ("claude.ai", "https://claude.ai")
    assert read_target("cursor://x/y").origin == "cursor:"
    assert read_target("http://127.0.0.1:5000/x").origin == "http://127.0.0.1:5000"

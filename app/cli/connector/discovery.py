"""What a connector reads before it asks anybody anything: the challenge and the metadata documents."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import httpx2

from app.cli.connector.report import Trouble

__all__ = [
    "ACCEPT",
    "INITIALIZE",
    "Documents",
    "challenge_of",
    "check_openid",
    "read_challenge",
    "read_resource",
    "read_server",
]

RESOURCE: Final = "/.well-known/oauth-protected-resource"
SERVER: Final = "/.well-known/oauth-authorization-server"
OPENID: Final = "/.well-known/openid-configuration"
OPENID_FIELDS: Final = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "response_types_supported",
    "subject_types_supported",
    "id_token_signing_alg_values_supported",
)
INITIALIZE: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "graphkeep-doctor", "version": "1"},
    },
}
ACCEPT: Final = {"Accept": "application/json, text/event-stream"}

_PARAMETER: Final = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')


@dataclass(slots=True)
class Documents:
    """What was learnt of the gateway at ``url`` (the address of its MCP endpoint, as a person would type it)."""

    url: str
    client: httpx2.AsyncClient
    challenge: dict[str, str] = field(default_factory=dict)
    resource: dict[str, Any] = field(default_factory=dict)
    server: dict[str, Any] = field(default_factory=dict)

    @property
    def parts(self) -> SplitResult:
        """The address in parts."""
        return urlsplit(self.url)

    @property
    def origin(self) -> str:
        """Scheme and host."""
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def issuer(self) -> str:
        """Who issues tokens: the first authorization server, the only one that known connectors use."""
        return str(self.resource["authorization_servers"][0])

    @property
    def scopes(self) -> list[str]:
        """The scopes that the challenge asks for."""
        return self.challenge.get("scope", "").split()


@dataclass(frozen=True, slots=True)
class Found:
    """A document and where it was."""

    url: str
    values: dict[str, Any]


async def read_challenge(documents: Documents) -> str:
    """An unauthenticated call gets 401 with all that a connector needs (RFC 9728 §5.1, RFC 6750 §3).

    Raises:
        Trouble: it gets something else.
    """
    answer = await documents.client.post(documents.url, json=INITIALIZE, headers=ACCEPT)
    _refuse_redirect(documents.url, answer)
    if answer.status_code != httpx2.codes.UNAUTHORIZED:
        raise _no_challenge(documents, answer)
    header = answer.headers.get("www-authenticate", "")
    if not header.lower().startswith("bearer"):
        raise Trouble(
            "401 comes without `WWW-Authenticate: Bearer`",
            "Let the proxy pass the header WWW-Authenticate on unchanged.",
        )
    documents.challenge = challenge_of(answer)
    _check_challenge(documents)
    return f"401 with resource_metadata and scope {documents.challenge['scope']!r}"


def challenge_of(answer: httpx2.Response) -> dict[str, str]:
    """The parameters of ``WWW-Authenticate`` (RFC 9110 §11.6.1)."""
    return dict(_PARAMETER.findall(answer.headers.get("www-authenticate", "")))


def _no_challenge(documents: Documents, answer: httpx2.Response) -> Trouble:
    status = answer.status_code
    if status == httpx2.codes.MISDIRECTED_REQUEST:
        return Trouble(
            f"421: the gateway does not know the address {documents.origin}",
            "Name it in GRAPHKEEP_PUBLIC_URLS, exactly as clients type it, and let the proxy keep the Host header and "
            "send X-Forwarded-Proto.",
        )
    if status == httpx2.codes.FORBIDDEN:
        return Trouble(
            "403 instead of 401",
            "A web application firewall or bot check stands before the gateway; switch it off for this name.",
        )
    if status == httpx2.codes.NOT_FOUND:
        return Trouble(
            f"404 at {documents.parts.path or '/'}",
            f"The endpoint of the gateway is /mcp: use {documents.origin}/mcp, and let the proxy hand that path on.",
        )
    if status >= httpx2.codes.INTERNAL_SERVER_ERROR:
        return Trouble(
            f"{status}: the gateway, or the way from the proxy to it, is down",
            "Ask `graphkeep doctor` on the gateway's machine, and look at the log of the proxy.",
        )
    return Trouble(
        f"a call without a token was answered {status} instead of 401",
        "Nothing before the gateway may answer for it or add credentials of its own.",
    )


def _check_challenge(documents: Documents) -> None:
    challenge = documents.challenge
    metadata = challenge.get("resource_metadata")
    advice = "Let the proxy pass the header WWW-Authenticate on unchanged; the gateway writes it."
    if not metadata:
        raise Trouble("the challenge has no resource_metadata", advice)
    if urlsplit(metadata).scheme not in ("https", "http") or not urlsplit(metadata).netloc:
        raise Trouble(f"resource_metadata is {metadata!r}, no absolute address", advice)
    if not metadata.startswith(f"{documents.origin}/"):
        raise Trouble(
            f"resource_metadata leads to {metadata}, another address than {documents.origin}",
            "Let the proxy keep the Host header and send X-Forwarded-Proto; name the address in GRAPHKEEP_PUBLIC_URLS.",
        )
    if not challenge.get("scope"):
        raise Trouble("the challenge names no scope", advice)
    if "error" in challenge:
        raise Trouble(
            f"the challenge says error={challenge['error']!r} though no token was sent (RFC 6750 §3.1)",
            "Nothing before the gateway may add an Authorization header to calls.",
        )


async def read_resource(documents: Documents) -> str:
    """Both documents of the resource, and the one that the challenge names, say the same (RFC 9728 §3).

    Raises:
        Trouble: one is missing, differs, or names another resource than the address that was typed.
    """
    inserted = f"{documents.origin}{RESOURCE}{documents.parts.path}"
    first = await _document(documents, inserted)
    for url in dict.fromkeys((documents.challenge["resource_metadata"], f"{documents.origin}{RESOURCE}")):
        other = await _document(documents, url)
        if other.values != first.values:
            raise Trouble(
                f"{first.url} and {other.url} differ",
                "Both come from the gateway; let the proxy serve or cache neither of them itself.",
            )
    values = first.values
    if values.get("resource") != documents.url:
        raise Trouble(
            f"resource is {values.get('resource')!r}, and the address is {documents.url!r}: they must be the same text",
            "Type the address exactly as GRAPHKEEP_PUBLIC_URLS has it, with /mcp behind; mind http or https, upper "
            "case, the port and a slash at the end.",
        )
    servers = values.get("authorization_servers")
    if not isinstance(servers, list) or not servers or not isinstance(servers[0], str):
        raise Trouble("no authorization_servers are named", "The document comes from the gateway; let it pass.")
    if "offline_access" in values.get("scopes_supported", []):
        raise Trouble("scopes_supported of the resource has offline_access", "The document must be the gateway's own.")
    documents.resource = values
    return f"resource is {documents.url}, issuer {documents.issuer}"


async def read_server(documents: Documents) -> str:
    """Both documents of the issuer agree, and offer what connectors need (RFC 8414, RFC 9207, facts of connectors).

    Raises:
        Trouble: something is missing, contradicts itself or belongs to another issuer.
    """
    issuer = documents.issuer
    first = await _document(documents, f"{issuer}{SERVER}")
    other = await _document(documents, f"{issuer}{SERVER}{documents.parts.path}")
    if other.values != first.values:
        raise Trouble(
            f"{first.url} and {other.url} differ",
            "Both come from the gateway; let the proxy serve or cache neither of them itself.",
        )
    _check_server(first.values, issuer)
    documents.server = first.values
    keys = await _document(documents, str(first.values.get("jwks_uri")))
    if not keys.values.get("keys"):
        raise Trouble(f"{keys.url} has no keys", "The gateway has not reached its database: `graphkeep doctor`.")
    ways = [
        way
        for way, offered in (
            ("client metadata documents", first.values.get("client_id_metadata_document_supported")),
            ("registration", first.values.get("registration_endpoint")),
        )
        if offered
    ]
    return f"issuer {issuer}; clients by {' and '.join(ways)}"


def _check_server(values: Mapping[str, Any], issuer: str) -> None:
    advice = "This document is the gateway's: nothing before it may change or replace it."
    if values.get("issuer") != issuer:
        raise Trouble(
            f"issuer is {values.get('issuer')!r}, and the resource names {issuer!r}: they must be the same text",
            "Let the proxy keep the Host header and send X-Forwarded-Proto.",
        )
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        if not str(values.get(name, "")).startswith(f"{issuer}/"):
            raise Trouble(f"{name} is {values.get(name)!r}, not at {issuer}", advice)
    methods = values.get("token_endpoint_auth_methods_supported", [])
    if values.get("client_id_metadata_document_supported") and "none" not in methods:
        raise Trouble(
            "client metadata documents are offered, but not the method `none`: connectors then fail to register",
            advice,
        )
    for missing, words in (
        ("S256" not in values.get("code_challenge_methods_supported", []), "PKCE with S256 is not offered"),
        ("code" not in values.get("response_types_supported", []), "the response type `code` is not offered"),
        ("none" not in methods, "public clients (`none`) are not offered"),
        (
            "offline_access" not in values.get("scopes_supported", []),
            "offline_access is not offered: connectors would have to ask the person again every hour",
        ),
        (
            values.get("authorization_response_iss_parameter_supported") is not True,
            "the issuer in authorization responses (`iss`, RFC 9207) is not offered",
        ),
        (
            not str(values.get("registration_endpoint", "")).startswith(f"{issuer}/"),
            "there is no registration_endpoint: connectors that bring no metadata document cannot begin",
        ),
    ):
        if missing:
            raise Trouble(words, advice)


async def check_openid(documents: Documents) -> str:
    """An OpenID configuration is absent or complete: some clients stop at one that is neither.

    Raises:
        Trouble: there is a part of one.
    """
    path = documents.parts.path
    seen = 0
    for url in (
        f"{documents.issuer}{OPENID}",
        f"{documents.issuer}{OPENID}{path}",
        f"{documents.issuer}{path}{OPENID}",
    ):
        answer = await documents.client.get(url, headers={"Accept": "application/json"})
        if answer.status_code != httpx2.codes.OK:
            continue
        seen += 1
        values = _json(answer) or {}
        missing = [name for name in OPENID_FIELDS if not values.get(name)]
        if missing or values.get("issuer") != documents.issuer:
            said = f"lacks {', '.join(missing)}" if missing else f"names the issuer {values.get('issuer')!r}"
            raise Trouble(
                f"{url} {said}",
                "The gateway serves no such document; whatever stands before it must answer 404 there.",
            )
    return f"{seen} complete documents" if seen else "absent, as it should be"


async def _document(documents: Documents, url: str) -> Found:
    answer = await documents.client.get(url, headers={"Accept": "application/json"})
    _refuse_redirect(url, answer)
    if answer.status_code != httpx2.codes.OK:
        raise Trouble(
            f"{url} answers {answer.status_code}",
            "Let the proxy hand /.well-known/ on to the gateway; no firewall or bot check may stand before it.",
        )
    values = _json(answer)
    if values is None:
        raise Trouble(
            f"{url} is no JSON object ({answer.headers.get('content-type', 'no content type')})",
            "Something else answers there, often a page of the proxy; let it hand /.well-known/ on to the gateway.",
        )
    return Found(url, values)


def _refuse_redirect(url: str, answer: httpx2.Response) -> None:
    location = answer.headers.get("location")
    if location is not None and 300 <= answer.status_code < 400:
        raise Trouble(
            f"{url} redirects ({answer.status_code}) to {location}",
            "Connectors do not follow it, or lose their token on the way: let that address answer itself, without a "
            "redirect to another scheme, host or slash.",
        )


def _json(answer: httpx2.Response) -> dict[str, Any] | None:
    try:
        found = json.loads(answer.content)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

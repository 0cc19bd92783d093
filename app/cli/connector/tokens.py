"""A connector becomes a client, sends a person to consent, and gets tokens that it renews."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from app.cli.connector.browser import Browser, Page
from app.cli.connector.discovery import Documents
from app.cli.connector.report import NotTried, Trouble

__all__ = ["KNOWN_DOCUMENT", "Connection", "WayIn", "pkce"]

REGISTERED: Final = "http://127.0.0.1:49151/callback"
RETURNED: Final = "http://127.0.0.1:49152/callback"
"""Another port than was registered: programs on a person's computer take a free one each time (RFC 8252 §7.3)."""

KNOWN_DOCUMENT: Final = "https://claude.ai/oauth/mcp-oauth-client-metadata"
KNOWN_CALLBACK: Final = "https://claude.ai/api/mcp/auth_callback"
OFFLINE: Final = "offline_access"
ALLOW: Final = ("answer", "allow")


class WayIn(Protocol):
    """How the doctor's browser signs in as a person."""

    async def enter(self, browser: Browser) -> None:
        """Sign in.

        Raises:
            Trouble: it does not let in.
        """


def pkce() -> tuple[str, str]:
    """A code verifier and its S256 challenge (RFC 7636 §4)."""
    verifier = secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    return verifier, base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(slots=True)
class Connection:
    """One client and the person who connects it."""

    documents: Documents
    browser: Browser
    client_id: str = ""
    code: str = ""
    verifier: str = ""
    tokens: dict[str, Any] = field(default_factory=dict)

    @property
    def access_token(self) -> str:
        """The newest access token."""
        return str(self.tokens["access_token"])

    @property
    def granted(self) -> list[str]:
        """The scopes of the newest token."""
        return str(self.tokens.get("scope", "")).split()

    def question(self, scopes: Iterable[str], *, client: str, redirect: str) -> tuple[str, str]:
        """The address of an authorization request, and its state."""
        self.verifier, challenge = pkce()
        state = secrets.token_urlsafe(16)
        query = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": redirect,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": state,
            "resource": self.documents.url,
            "scope": " ".join(scopes),
        }
        return f"{self.documents.server['authorization_endpoint']}?{urlencode(query)}", state

    async def check_metadata_document(self) -> str:
        """A client that is known by its metadata document is accepted, as far as the question to the person.

        Raises:
            Trouble: it is refused. NotTried: the gateway offers no such clients.
        """
        if not self.documents.server.get("client_id_metadata_document_supported"):
            raise NotTried("the gateway offers no client metadata documents; connectors register instead")
        url, _ = self.question(["memory:read", OFFLINE], client=KNOWN_DOCUMENT, redirect=KNOWN_CALLBACK)
        page = await Browser(self.documents.client, self.browser.origin).get(url)
        # A refusal is a page at the very address; whether the pages behind it work is the next steps' matter.
        if page.elsewhere or page.path == urlsplit(self.documents.server["authorization_endpoint"]).path:
            raise Trouble(
                f"the client {KNOWN_DOCUMENT} was refused ({_said(page)})",
                "The gateway must reach that address, or know the document (it is built in); look for the client in "
                "its log, and for its host in GRAPHKEEP_REDIRECT_HOSTS.",
            )
        return f"{KNOWN_DOCUMENT} is accepted"

    async def register(self) -> str:
        """Register as a public client (RFC 7591).

        Raises:
            Trouble: it is refused.
        """
        metadata = {
            "client_name": "graphkeep doctor",
            "redirect_uris": [REGISTERED],
            "token_endpoint_auth_method": "none",
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "application_type": "native",
        }
        answer = await self.documents.client.post(self.documents.server["registration_endpoint"], json=metadata)
        values = _object(answer)
        if answer.status_code != httpx2.codes.CREATED or not values.get("client_id"):
            raise Trouble(
                f"registration answers {_error(answer)}",
                "Let the proxy hand POST /register on; the gateway's log has the reason of a refusal.",
            )
        self.client_id = str(values["client_id"])
        await self._check_unknown_client()
        return "registered as a public client; an unknown one is told so"

    async def _check_unknown_client(self) -> None:
        """A client that was deleted must hear `invalid_client`, else it never registers again."""
        form = {"grant_type": "refresh_token", "refresh_token": "none", "client_id": "unknown"}
        answer = await self.documents.client.post(self.documents.server["token_endpoint"], data=form)
        if answer.status_code != httpx2.codes.UNAUTHORIZED or _object(answer).get("error") != "invalid_client":
            raise Trouble(
                f"a client that nobody knows is answered {_error(answer)} instead of 401 invalid_client",
                "Let the proxy pass the answers of /token on unchanged.",
            )

    async def reach_question(self, scopes: Iterable[str]) -> str:
        """Without anybody signed in, an authorization request leads to the sign-in page.

        Raises:
            Trouble: it leads elsewhere.
        """
        url, _ = self.question(scopes, client=self.client_id, redirect=RETURNED)
        page = await Browser(self.documents.client, self.browser.origin).get(url)
        if page.elsewhere or page.status != httpx2.codes.OK or not page.forms:
            raise Trouble(
                f"an authorization request leads to {_said(page)} instead of a page to sign in",
                "Let the proxy hand /authorize, /consent and /sign-in on to the gateway, with their cookies.",
            )
        return f"it leads to {page.path}"

    async def consent(self, scopes: Iterable[str]) -> str:
        """Ask the person, who allows it; the code comes back with state and issuer (RFC 9207).

        Raises:
            Trouble: no question, no code, or one that does not belong to the request.
        """
        asked = list(scopes)
        url, state = self.question(asked, client=self.client_id, redirect=RETURNED)
        page = await self.browser.get(url)
        form = page.form(*ALLOW)
        if form is None:
            raise Trouble(
                f"there is no question to the person, but {_said(page)}",
                "The person must be signed in and belong to a tenant; a refusal is explained on that page.",
            )
        back = await self.browser.submit(page, form, ALLOW)
        self.code = self._code_of(back, state)
        return f"allowed: {' '.join(asked)}"

    def _code_of(self, page: Page, state: str) -> str:
        if not page.elsewhere.startswith(RETURNED):
            raise Trouble(
                f"the answer leads to {_said(page)} instead of back to the client",
                "Let the proxy pass the redirect (303) of POST /consent on unchanged.",
            )
        values = {name: found[0] for name, found in parse_qs(urlsplit(page.elsewhere).query).items()}
        if "code" not in values:
            raise Trouble(f"the client gets {values.get('error', 'no code')}", "Look into the log of the gateway.")
        if values.get("state") != state or values.get("iss") != self.documents.issuer:
            raise Trouble(
                "the code comes back with another state or issuer",
                "Nothing before the gateway may change the address that the browser is sent to.",
            )
        return values["code"]

    async def exchange(self) -> str:
        """Redeem the code (OAuth 2.1 §4.1.3).

        Raises:
            Trouble: no tokens, or not as connectors need them.
        """
        answer = await self._token(
            grant_type="authorization_code", code=self.code, redirect_uri=RETURNED, code_verifier=self.verifier
        )
        self.tokens = _tokens(answer, "the code")
        return f"an access token for {self.tokens.get('expires_in')} s: {self.tokens.get('scope')}"

    async def renew(self) -> str:
        """Renew the tokens once.

        Raises:
            Trouble: it does not work, or the refresh token stays the same.
        """
        before = self.tokens
        answer = await self._token(grant_type="refresh_token", refresh_token=before["refresh_token"])
        self.tokens = _tokens(answer, "the refresh token")
        if self.tokens["refresh_token"] == before["refresh_token"]:
            raise Trouble(
                "the refresh token is not replaced", "The answer must be the gateway's own, never a cached one."
            )
        return "new tokens"

    async def renew_twice(self) -> str:
        """Two renewals at the same time with the same refresh token get the same successor.

        Raises:
            Trouble: one of them loses.
        """
        token = self.tokens["refresh_token"]
        answers = await asyncio.gather(*(self._token(grant_type="refresh_token", refresh_token=token) for _ in "ab"))
        first, second = (_tokens(answer, "one of two refreshes at the same time") for answer in answers)
        if first["refresh_token"] != second["refresh_token"]:
            raise Trouble(
                "two refreshes at the same time end in two different refresh tokens",
                "All gateways behind this address must share one database and one GRAPHKEEP_SECRET_KEY.",
            )
        self.tokens = second
        return "both get the same successor"

    async def revoke(self) -> str:
        """Give the grant back (RFC 7009).

        Raises:
            Trouble: it is refused.
        """
        endpoint = self.documents.server.get("revocation_endpoint")
        if not endpoint:
            raise Trouble("no revocation_endpoint is named", "The document of the issuer must be the gateway's own.")
        form = {"token": self.tokens["refresh_token"], "client_id": self.client_id}
        answer = await self.documents.client.post(endpoint, data=form)
        if answer.status_code != httpx2.codes.OK:
            raise Trouble(f"revocation answers {_error(answer)}", "Let the proxy hand POST /revoke on.")
        return "given back"

    async def _token(self, **form: str) -> httpx2.Response:
        fields = {"client_id": self.client_id, "resource": self.documents.url, **form}
        return await self.documents.client.post(self.documents.server["token_endpoint"], data=fields)


def _tokens(answer: httpx2.Response, what: str) -> dict[str, Any]:
    values = _object(answer)
    if answer.status_code != httpx2.codes.OK:
        raise Trouble(
            f"{what} is answered {_error(answer)}",
            "All gateways behind this address must share one database and one GRAPHKEEP_SECRET_KEY; the log has the "
            "reason of a refusal.",
        )
    if str(values.get("token_type", "")).lower() != "bearer" or not values.get("access_token"):
        raise Trouble(f"{what} yields no bearer token", "The answer must be the gateway's own, unchanged.")
    if not values.get("refresh_token"):
        raise Trouble(f"{what} yields no refresh token", "The answer must be the gateway's own, unchanged.")
    if "no-store" not in answer.headers.get("cache-control", ""):
        raise Trouble(
            "tokens come without `Cache-Control: no-store`", "Nothing before the gateway may change that header."
        )
    return values


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _error(answer: httpx2.Response) -> str:
    values = _object(answer)
    named = values.get("error")
    return f"{answer.status_code} {named}: {values.get('error_description', '')}" if named else str(answer.status_code)


def _said(page: Page) -> str:
    if page.elsewhere:
        parts = urlsplit(page.elsewhere)
        error = parse_qs(parts.query).get("error", [""])[0]
        return f"{parts.scheme}://{parts.netloc}{parts.path}{f' with the error {error}' if error else ''}"
    return f"{page.path} with status {page.status}"

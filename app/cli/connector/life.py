"""The life of a connector from the first name look-up to the end of its grant, in the order in which it happens."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

import httpx2

from app.cli.connector import discovery, network
from app.cli.connector.browser import Browser
from app.cli.connector.calls import Calls
from app.cli.connector.discovery import Documents
from app.cli.connector.report import NotTried, Report, Trouble
from app.cli.connector.tokens import OFFLINE, Connection, WayIn

__all__ = ["live"]

SECONDS: Final = 30.0
NO_WAY_IN: Final = (
    "nobody to sign in as: run this on the gateway's machine, or give a one-time link with --signin (an owner or "
    "operator can make one)"
)

Action = Callable[[], Awaitable[str]]


class _Life:
    def __init__(self, documents: Documents, way_in: WayIn | None, token: str | None) -> None:
        self.documents = documents
        self.browser = Browser(documents.client, documents.origin)
        self.connection = Connection(documents, self.browser)
        self.calls = Calls(documents)
        self._way_in = way_in
        self._token = token
        self._left = False

    @property
    def reading(self) -> list[str]:
        """What the first consent asks for: what reads, so that something is left to step up to."""
        return [scope for scope in self.documents.scopes if scope.endswith(":read")] or self.documents.scopes

    async def sign_in(self) -> str:
        if self._way_in is None:
            raise NotTried(NO_WAY_IN)
        await self._way_in.enter(self.browser)
        return "signed in"

    def when_signed_in(self, action: Action) -> Action:
        """``action``, for which somebody must be signed in."""

        async def guarded() -> str:
            if self._way_in is None:
                raise NotTried("nobody is signed in")
            return await action()

        return guarded

    def with_token(self, action: Callable[[str], Awaitable[str]]) -> Action:
        """``action`` with the token of the consent, or the one that was given."""

        async def guarded() -> str:
            if self.connection.tokens:
                return await action(self.connection.access_token)
            if self._token is None:
                raise NotTried("there is no token")
            return await action(self._token)

        return guarded

    async def consent(self) -> str:
        return await self.connection.consent([*self.reading, OFFLINE])

    async def step_up(self) -> str:
        tool = self.calls.writer()
        missing = await self.calls.refused_scopes(self.connection.access_token, tool)
        scopes = dict.fromkeys([*self.connection.granted, *missing, OFFLINE])
        await self.connection.consent(scopes)
        await self.connection.exchange()
        return f"403 asks for {' '.join(missing)}; {await self.calls.passes(self.connection.access_token, tool)}"

    async def revocation(self) -> str:
        await self.connection.revoke()
        self._left = True
        return await self.calls.ends(self.connection.access_token)

    async def leave(self) -> None:
        """Give back what was granted if the life ended before its last step."""
        if self.connection.tokens and not self._left:
            with contextlib.suppress(Trouble, httpx2.HTTPError, OSError):
                await self.connection.revoke()


async def live(
    url: str, *, way_in: WayIn | None, token: str | None = None, context: ssl.SSLContext | None = None
) -> Report:
    """Play a connector's life against the gateway whose MCP endpoint is ``url``; never raises for what it finds.

    ``way_in`` signs the doctor's browser in; without it, what needs a person is not tried. ``token`` is a personal
    access token with which tools are called where there is no consent.
    """
    report = Report(url)
    parts = urlsplit(url)
    trusted = context or network.trust()
    # Connectors use IPv4 alone: so does this.
    transport = httpx2.AsyncHTTPTransport(verify=trusted, local_address="0.0.0.0")  # noqa: S104 (a source, no listener)
    async with httpx2.AsyncClient(
        transport=transport, timeout=SECONDS, trust_env=False, headers={"User-Agent": "graphkeep-doctor"}
    ) as client:
        life = _Life(Documents(url, client), way_in, token)
        documents, connection, calls = life.documents, life.connection, life.calls
        steps: tuple[tuple[str, Action], ...] = (
            ("name", lambda: network.check_name(parts)),
            ("certificate", lambda: network.check_certificate(parts, trusted)),
            ("challenge", lambda: discovery.read_challenge(documents)),
            ("resource metadata", lambda: discovery.read_resource(documents)),
            ("issuer metadata", lambda: discovery.read_server(documents)),
            ("OpenID configuration", lambda: discovery.check_openid(documents)),
            ("client metadata document", connection.check_metadata_document),
            ("registration", connection.register),
            ("authorization", lambda: connection.reach_question(life.reading)),
            ("sign-in", life.sign_in),
            ("consent", life.when_signed_in(life.consent)),
            ("token", life.when_signed_in(connection.exchange)),
            ("refresh", life.when_signed_in(connection.renew)),
            ("parallel refresh", life.when_signed_in(connection.renew_twice)),
            ("discovery", life.with_token(calls.discover)),
            ("handshake", life.with_token(calls.initialize)),
            ("tool call", life.with_token(calls.call)),
            ("step-up", life.when_signed_in(life.step_up)),
            ("revocation", life.when_signed_in(life.revocation)),
        )
        for name, action in steps:
            await report.take(name, action)
        await life.leave()
    return report

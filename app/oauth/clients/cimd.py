"""Clients whose id is the address of their metadata (OAuth Client ID Metadata Document; MCP authorization, 2026-07-28).

A document is taken from, in this order: the pinned ones, this process's memory, the database, the address itself. What
was fetched counts for as long as its HTTP headers say (within bounds); the last good copy is used again when a later
fetch fails. Fetches have a budget, for all addresses together and for each host, and one address is fetched once at a
time. An address that yields nothing is stored nowhere, and forgotten in half a minute.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog

from app.errors import OAuthError
from app.fetching.addresses import Unfetchable, check_location
from app.oauth.clients.budget import Budget
from app.oauth.clients.client import Client
from app.oauth.clients.fetching import Fetched, Fetcher
from app.oauth.clients.freshness import fresh_seconds
from app.oauth.clients.keys import read_keys
from app.oauth.clients.metadata import check_flow, choice, client_name, likely_type, text, web_address
from app.oauth.clients.redirect import RedirectPolicy
from app.store.control.documents import ClientDocument, DocumentStore
from app.store.control.revocations import client_key

__all__ = ["SCHEME", "Documents", "read_metadata"]

SCHEME: Final = "https://"
"""How a client id begins that is an address. ``http`` is none: such a document could be anybody's."""

REMEMBERED: Final = 512
NEGATIVE_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 60.0
"""So long a copy that could not be fetched again counts as fresh."""

MAX_REDIRECTS: Final = 20
MAX_SCOPE: Final = 1000

_KEPT: Final = ("client_id", "client_name", "client_uri", "scope", "token_endpoint_auth_method")
_log = structlog.get_logger("graphkeep.oauth")


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What this process knows of an address: a document, or why there is none."""

    fresh_until: float
    metadata: Mapping[str, Any] | None
    reason: str = ""


class Documents:
    """Finds clients by the address of their document.

    ``pinned`` documents are used as they are and never fetched; ``clock`` gives Unix seconds.
    """

    def __init__(
        self,
        store: DocumentStore,
        fetcher: Fetcher,
        policy: RedirectPolicy,
        *,
        allowed: Iterable[str] = (),
        pinned: Iterable[Mapping[str, Any]] = (),
        budget: Budget | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._fetcher = fetcher
        self._policy = policy
        self._allowed = tuple(allowed)
        self._pinned = {str(document["client_id"]): document for document in pinned}
        self._budget = budget or Budget()
        self._clock = clock
        self._known: OrderedDict[str, _Remembered] = OrderedDict()
        self._flights: dict[str, asyncio.Task[Mapping[str, Any]]] = {}

    async def client(self, url: str, address: str, *, fresh: bool = False) -> Client:
        """The client that ``url`` describes, as it asks at the public address ``address``.

        With ``fresh`` a copy that is no longer fresh is fetched again first; otherwise any copy will do.

        Raises:
            OAuthError: invalid_client, naming the cause; temporarily_unavailable (503), too many were asked for.
            CallError: the database is away.
        """
        pinned = self._pinned.get(url)
        metadata = pinned if pinned is not None else await self._metadata(url, fresh=fresh)
        return self._described(url, metadata, address)

    async def again(self, client: Client) -> Client:
        """The client as its document has it now, where its copy is a minute old: its keys may have changed.

        Raises:
            OAuthError: invalid_client.
        """
        if client.kind != "document" or client.id in self._pinned:
            return client
        stored = await self._store.find(client_key(client.id))
        if stored is not None and stored.fetched_at > self._clock() - RETRY_SECONDS:
            return client
        metadata = await self._fly(client.id, fresh=True, anew=True)
        return self._described(client.id, metadata, client.issuer)

    async def sweep(self, now: float) -> None:
        """Remove documents that led to nothing."""
        await self._store.sweep(now)

    def _described(self, url: str, metadata: Mapping[str, Any], address: str) -> Client:
        try:
            return read_metadata(url, metadata, address=address, policy=self._policy)
        except OAuthError as error:  # the redirect policy became stricter since the document was kept
            raise _unusable(url, f"cannot be used: {error.description}") from error

    async def _metadata(self, url: str, *, fresh: bool) -> Mapping[str, Any]:
        known = self._known.get(url)
        if known is not None and (known.fresh_until > self._clock() or (known.metadata is not None and not fresh)):
            self._known.move_to_end(url)
            if known.metadata is None:
                raise _unusable(url, known.reason)
            return known.metadata
        return await self._fly(url, fresh=fresh)

    async def _fly(self, url: str, *, fresh: bool, anew: bool = False) -> Mapping[str, Any]:
        """One look-up of an address at a time; whoever asks meanwhile gets the same answer."""
        flight = self._flights.get(url)
        if flight is None:
            flight = asyncio.create_task(self._look_up(url, fresh=fresh, anew=anew), name="client document")
            self._flights[url] = flight
            flight.add_done_callback(lambda done: self._landed(url, done))
        # Shielded: that one caller hangs up must not fail the others.
        return await asyncio.shield(flight)

    def _landed(self, url: str, flight: asyncio.Task[Mapping[str, Any]]) -> None:
        self._flights.pop(url, None)
        if not flight.cancelled():
            flight.exception()  # whoever waited has it; if all hung up, it is of no interest

    async def _look_up(self, url: str, *, fresh: bool, anew: bool) -> Mapping[str, Any]:
        host = _location(url, self._allowed)
        stored = await self._store.find(client_key(url))
        if stored is not None and not anew and (stored.fresh_until > self._clock() or not fresh):
            return self._remember(url, stored.metadata, stored.fresh_until)
        if not self._budget.spend(host):
            if stored is not None:
                return self._remember(url, stored.metadata, self._clock() + RETRY_SECONDS)
            raise OAuthError(
                "temporarily_unavailable",
                "Too many programs that this gateway does not know ask to be looked up; try again in a minute",
                status=503,
            )
        try:
            metadata, seconds = self._read(url, await self._fetcher.get(url))
        except Unfetchable as error:
            _log.info("client_document_unusable", host=host, reason=error.reason, copy=stored is not None)
            if stored is not None:
                return self._remember(url, stored.metadata, self._clock() + RETRY_SECONDS)
            self._keep(url, _Remembered(self._clock() + NEGATIVE_SECONDS, None, error.reason))
            raise _unusable(url, error.reason) from error
        now = self._clock()
        await self._store.put(ClientDocument(client_key(url), url, metadata, now, now + seconds))
        return self._remember(url, metadata, now + seconds)

    def _read(self, url: str, fetched: Fetched) -> tuple[Mapping[str, Any], float]:
        """What is kept of a document, once it was found usable, and for how many seconds it is fresh."""
        kind = fetched.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise Unfetchable(f"is not JSON but {_shown(kind)}")
        try:
            document = json.loads(fetched.body)
        except (ValueError, RecursionError) as error:
            raise Unfetchable("is not valid JSON") from error
        if not isinstance(document, dict):
            raise Unfetchable("is not a JSON object")
        try:
            client = read_metadata(url, document, address="", policy=self._policy)
        except OAuthError as error:
            raise Unfetchable(f"cannot be used: {error.description}") from error
        kept = {name: document[name] for name in _KEPT if name in document}
        kept["redirect_uris"] = list(client.redirect_uris)
        if client.keys:
            kept["jwks"] = {"keys": [dict(key) for key in client.keys]}
        return kept, fresh_seconds(fetched.headers, self._clock())

    def _remember(self, url: str, metadata: Mapping[str, Any], fresh_until: float) -> Mapping[str, Any]:
        self._keep(url, _Remembered(fresh_until, metadata))
        return metadata

    def _keep(self, url: str, remembered: _Remembered) -> None:
        self._known[url] = remembered
        self._known.move_to_end(url)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def read_metadata(url: str, document: Mapping[str, Any], *, address: str, policy: RedirectPolicy) -> Client:
    """The client that a document describes. Redirect URIs that the policy does not allow are left out.

    Raises:
        OAuthError: invalid_client_metadata, the document contradicts itself or cannot be used here.
    """
    if document.get("client_id") != url:
        raise _wrong("its client_id is not the address that it was found at")
    if "client_secret" in document:
        raise _wrong("it holds a client_secret, which everyone can read there")
    if not document.get("client_name"):
        raise _wrong("client_name is missing")
    redirects = _redirects(document.get("redirect_uris"), policy)
    check_flow(document)
    scope = text(document, "scope")
    if len(scope) > MAX_SCOPE:
        raise _wrong(f"scope has more than {MAX_SCOPE} characters")
    authentication = choice(document, "token_endpoint_auth_method", ("none", "private_key_jwt"), "none")
    client = Client(
        id=url,
        issuer=address,
        name=client_name(document, redirects),
        redirect_uris=redirects,
        authentication=authentication,
        application_type=likely_type(redirects),
        scope=scope,
        uri=web_address(document, "client_uri"),
        issued=0,
        kind="document",
    )
    return replace(client, keys=_keys(document)) if authentication == "private_key_jwt" else client


def _redirects(value: object, policy: RedirectPolicy) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_REDIRECTS:
        raise _wrong(f"redirect_uris must be a list of 1 to {MAX_REDIRECTS} URIs")
    usable = tuple(uri for uri in value if isinstance(uri, str) and policy.allows(uri))
    if not usable:
        raise _wrong(
            "none of its redirect_uris is one that clients may be redirected to; "
            "the operator can add its host to GRAPHKEEP_REDIRECT_HOSTS"
        )
    return usable


def _keys(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    if "jwks" not in document:
        # An address of keys would be one more that a stranger has this gateway fetch.
        raise _wrong("a client that signs puts its public keys into the document as jwks; jwks_uri is not followed")
    try:
        return read_keys(document["jwks"])
    except ValueError as error:
        raise _wrong(str(error)) from error


def _location(url: str, allowed: Iterable[str]) -> str:
    try:
        host, _ = check_location(url, allowed=allowed)
    except Unfetchable as error:
        raise _unusable(url, error.reason) from error
    return host


def _unusable(url: str, reason: str) -> OAuthError:
    return OAuthError("invalid_client", f"The client's metadata document at {_shown(url)} {reason}", status=401)


def _wrong(reason: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", reason)


def _shown(value: str) -> str:
    return value[:200] if value.isascii() and value.isprintable() and value else "an unprintable value"

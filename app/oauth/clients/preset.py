"""Clients that an operator adds: with a secret, and with redirect URIs that count byte for byte."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Final, get_args

from app.errors import Conflict, InvalidInput, NotFound
from app.oauth.clients.client import AuthenticationMethod, Client
from app.oauth.clients.metadata import MAX_NAME, likely_type
from app.oauth.clients.redirect import RedirectPolicy, read_target
from app.oauth.secrets import digest, new_token
from app.store.control.audit import Audit
from app.store.control.clients import ClientRecord, ClientStore
from app.store.control.revocations import client_key
from app.store.session import ControlSession

__all__ = ["PREFIX", "PresetClients", "client_of"]

PREFIX: Final = "cl-"
"""How the id of such a client begins."""

MAX_REDIRECTS: Final = 10
METHODS: Final = ("client_secret_basic", "client_secret_post", "none")


def client_of(record: ClientRecord, address: str) -> Client:
    """The client as it asks at the public address ``address``: an operator's clients are known at each of them."""
    methods: dict[str, AuthenticationMethod] = {each: each for each in get_args(AuthenticationMethod)}
    return Client(
        id=record.client_id,
        issuer=address,
        name=record.name,
        redirect_uris=record.redirect_uris,
        authentication=methods[record.authentication],
        application_type=likely_type(record.redirect_uris),
        scope="",
        uri="",
        issued=int(record.created_at),
        kind="preset",
        secret_hash=record.secret,
    )


class PresetClients:
    """Add, list, remove and restore clients. Each change stands in the audit of the gateway."""

    def __init__(self, control: ControlSession, policy: RedirectPolicy) -> None:
        self._store = ClientStore(control)
        self._audit = Audit(control)
        self._policy = policy

    async def add(
        self, name: str, redirect_uris: Sequence[str], *, method: str = "client_secret_basic", actor: str
    ) -> tuple[ClientRecord, str | None]:
        """A new client and its secret, which is shown once; None for the method ``none``.

        Raises:
            InvalidInput: a bad name, method or redirect URI.
        """
        shown = " ".join(name.split())
        if not shown or len(shown) > MAX_NAME or not shown.isprintable():
            raise InvalidInput(f"a client's name has 1 to {MAX_NAME} printable characters.", field="name")
        if method not in METHODS:
            raise InvalidInput(f"{method!r} is no method; there are {', '.join(METHODS)}.", field="method")
        hosts = [self._host(uri) for uri in redirect_uris]
        if not 1 <= len(hosts) <= MAX_REDIRECTS:
            raise InvalidInput(f"a client has 1 to {MAX_REDIRECTS} redirect URIs.", field="redirect_uri")
        secret = None if method == "none" else new_token()
        client_id = f"{PREFIX}{secrets.token_hex(12)}"
        record = ClientRecord(
            id=client_key(client_id),
            client_id=client_id,
            issuer="",
            name=shown,
            host=hosts[0],
            created_at=time.time(),
            redirect_uris=tuple(redirect_uris),
            authentication=method,
            secret="" if secret is None else digest(secret),
        )
        await self._store.add(record)
        await self._audit.append(tenant="", actor=actor, action="client.add", target=record.id)
        return record, secret

    async def all(self) -> list[ClientRecord]:
        """Every client that is kept, those that people connected among them."""
        return await self._store.all()

    async def remove(self, client_id: str, *, actor: str) -> ClientRecord:
        """Delete a client of any kind: from now on it is unknown, and within 5 seconds its tokens are refused.

        Raises:
            NotFound: nobody connected or added such a client.
        """
        record = await self._known(client_id)
        await self._store.delete(record.id, time.time())
        await self._audit.append(tenant="", actor=actor, action="client.remove", target=record.id)
        return record

    async def restore(self, client_id: str, *, actor: str) -> ClientRecord:
        """Let a deleted client ask people again; what they had granted it stays revoked.

        Raises:
            NotFound: there is no such client. Conflict: it was not removed.
        """
        record = await self._known(client_id)
        if not await self._store.restore(record.id):
            raise Conflict("this client was not removed, so there is nothing to restore. Nothing was changed.")
        await self._audit.append(tenant="", actor=actor, action="client.restore", target=record.id)
        return record

    async def _known(self, client_id: str) -> ClientRecord:
        for key in (client_key(client_id), client_id):
            record = await self._store.find(key)
            if record is not None:
                return record
        raise NotFound("there is no such client; `graphkeep client list` shows them. Nothing was changed.")

    def _host(self, uri: str) -> str:
        try:
            target = read_target(uri)
        except ValueError as error:
            raise InvalidInput(f"{error}. Nothing was changed.", field="redirect_uri") from error
        if not self._policy.allows(uri):
            raise InvalidInput(
                f"clients may not be redirected to {target.host}; add it to GRAPHKEEP_REDIRECT_HOSTS first. "
                "Nothing was changed.",
                field="redirect_uri",
            )
        return target.host

"""What the endpoints of the authorization server stand on: stores, keys, settings, and one rule of who may what."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from starlette.requests import Request

from app.access.grants import within
from app.access.layers import allowed_scopes
from app.context import Grant, Role
from app.edge.context import context_of
from app.oauth.clients import cimd, preset
from app.oauth.clients.client import Client
from app.oauth.clients.fetching import Fetcher
from app.oauth.clients.pinned import pinned_documents
from app.oauth.clients.redirect import RedirectPolicy
from app.oauth.clients.rfc7591 import read_client
from app.oauth.jwks import KeyRing
from app.oauth.login.attempts import Attempts
from app.oauth.login.passwords import Passwords
from app.oauth.login.providers import Providers
from app.oauth.secrets import Secrets, digest, new_token
from app.oauth.vault import Vault
from app.settings import Settings
from app.store.control.attempts import AttemptStore
from app.store.control.audit import Audit
from app.store.control.authorizations import AuthorizationStore
from app.store.control.browser import BrowserStore
from app.store.control.clients import ClientStore
from app.store.control.documents import DocumentStore
from app.store.control.grants import GrantRecord, GrantStore
from app.store.control.identities import Identities
from app.store.control.invitations import InvitationStore
from app.store.control.links import LinkRecord, LinkStore
from app.store.control.once import OnceStore
from app.store.control.passkeys import Passkeys
from app.store.control.passwords import PasswordStore
from app.store.control.refresh import RefreshStore
from app.store.control.revocations import Revocations, client_key
from app.store.control.service_accounts import ServiceAccountStore
from app.store.control.shown import ShownStore
from app.store.control.tenants import Tenant, Tenants
from app.store.control.users import Membership, User, Users
from app.store.database import Database

__all__ = ["AuthorizationServer", "Place", "issue_sign_in_link", "narrowed"]

SECRET_NAME: Final = "oauth"  # noqa: S105 (the name of a secret, not the secret)
LINK_SECONDS: Final = 24 * 3600
SWEEP_EVERY: Final = 60.0

_log = structlog.get_logger("graphkeep.oauth")


@dataclass(frozen=True, slots=True)
class Place:
    """A tenant that a user belongs to, and what they are there."""

    tenant: Tenant
    membership: Membership

    @property
    def role(self) -> Role:
        """The user's role in the tenant."""
        return self.membership.role

    @property
    def scopes(self) -> frozenset[str]:
        """What this person can grant at most in this tenant."""
        return allowed_scopes(self.role, operator=self.tenant.admin)


class AuthorizationServer:
    """One object for all endpoints. It keeps no state of a flow: every replica finds everything in the database.

    ``ring`` gives the key ring to sign and publish with; by default it is read from the vault.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        vault: Vault,
        *,
        ring: Callable[[], Awaitable[KeyRing]] | None = None,
    ) -> None:
        control = database.control
        self.control = control
        self.settings = settings
        self.addresses = settings.addresses
        self.providers = Providers(settings.signin)
        self.policy = RedirectPolicy(settings.oauth.redirect_hosts)
        self.audit = Audit(control)
        self.authorizations = AuthorizationStore(control)
        self.browser = BrowserStore(control)
        self.clients = ClientStore(control)
        self.documents = _documents(database, settings, self.policy)
        self.grants = GrantStore(control)
        self.links = LinkStore(control)
        self.refresh = RefreshStore(control)
        self.shown = ShownStore(control)
        self.revocations = Revocations(control)
        self.service_accounts = ServiceAccountStore(control)
        self.tenants = Tenants(control)
        self.users = Users(control)
        self.identities = Identities(control)
        self.invitations = InvitationStore(control)
        self.once = OnceStore(control)
        self.passkeys = Passkeys(control)
        self._attempts = AttemptStore(control)
        self.attempts = Attempts(self._attempts)
        self.passwords = Passwords(PasswordStore(control), self.attempts)
        self.ring = ring or vault.ring
        self._vault = vault
        self._secrets: Secrets | None = None
        self._swept = 0.0

    async def secrets(self) -> Secrets:
        """The keys that all replicas share; read once.

        Raises:
            CallError: the database is away and they were never read.
        """
        if self._secrets is None:
            self._secrets = Secrets(await self._vault.secret(SECRET_NAME))
        return self._secrets

    def address(self, request: Request) -> str:
        """The public address that the request came to: issuer of everything that comes of it."""
        return context_of(request.scope).address

    async def client(self, client_id: str, address: str, *, fresh: bool = False) -> Client | None:
        """The client that asks at ``address``, None when it is unknown or was deleted. ``fresh``: with its metadata as
        they are now, where they are found at an address of the client's own.

        Raises:
            OAuthError: the metadata cannot be had there.
            CallError: the database is away.
        """
        registered = read_client(client_id, address=address, secrets=await self.secrets())
        if registered is None and not client_id.startswith((cimd.SCHEME, preset.PREFIX)):
            return None
        kept = await self.clients.find(client_key(client_id))
        if kept is not None and kept.deleted_at is not None:
            return None
        if client_id.startswith(cimd.SCHEME):
            return await self.documents.client(client_id, address, fresh=fresh)
        return registered if kept is None or not kept.preset else preset.client_of(kept, address)

    async def places(self, user: User) -> list[Place]:
        """Tenants that the user belongs to and that are neither suspended nor deleted, by name."""
        places = []
        for membership in await self.users.memberships(user.id):
            place = await self._place(membership)
            if place is not None:
                places.append(place)
        return sorted(places, key=lambda place: (place.tenant.admin, place.tenant.name.casefold(), place.tenant.id))

    async def is_operator(self, user: str) -> bool:
        """Whether this subject operates the gateway: a member of the operators' tenant."""
        for membership in await self.users.memberships(user):
            tenant = await self.tenants.by_id(membership.tenant)
            if tenant is not None and tenant.admin:
                return True
        return False

    async def place_of(self, grant: GrantRecord) -> Place | None:
        """Where a grant is valid at present, None when it no longer is: revoked, or the person or tenant is gone."""
        if await self.grants.ended(grant):
            return None
        membership = await self.users.membership(grant.user, grant.tenant)
        return None if membership is None else await self._place(membership)

    async def _place(self, membership: Membership) -> Place | None:
        tenant = await self.tenants.by_id(membership.tenant)
        if tenant is None or not tenant.in_use:
            return None
        return Place(tenant, membership)

    async def sweep(self) -> None:
        """Remove what has expired; at most once a minute in each process, beside requests that add something."""
        if time.monotonic() - self._swept < SWEEP_EVERY:
            return
        self._swept = time.monotonic()
        now = time.time()
        for store in (
            self._attempts,
            self.shown,
            self.authorizations,
            self.browser,
            self.documents,
            self.grants,
            self.invitations,
            self.links,
            self.once,
            self.refresh,
        ):
            await store.sweep(now)

    async def sign_out_everywhere(self, user: str, *, keep: str = "") -> None:
        """End a person's browser sessions but the one whose hash is ``keep``, and with them the one-time links that
        are still open: whoever cleans up after a thief means both."""
        await self.links.end_of(user)
        await self.browser.end_sessions_of(user, keep=keep)

    async def note(self, action: str, *, actor: str, tenant: str = "", target: str = "", **detail: str) -> None:
        """Write to the audit trail and the log. Never a secret, a token or an address that names a person."""
        _log.info("oauth_event", tenant=tenant or None, action=action, actor=actor, target=target, **detail)
        await self.audit.append(tenant=tenant, actor=actor, action=action, target=target, detail=detail)

    async def end_grant(self, grant: GrantRecord, reason: str) -> None:
        """Revoke a whole grant: its refresh tokens at once, its access tokens within seconds on every replica."""
        await self.grants.revoke(grant.id, reason=reason, now=time.time())
        await self.note("grant.revoke", actor=grant.user, tenant=grant.tenant, target=grant.id, reason=reason)


def _documents(database: Database, settings: Settings, policy: RedirectPolicy) -> cimd.Documents:
    allowed = settings.oauth.client_document_hosts
    return cimd.Documents(
        DocumentStore(database.control),
        Fetcher(allowed=allowed),
        policy,
        allowed=allowed,
        pinned=pinned_documents(settings.oauth.pinned_clients),
    )


def narrowed(record: GrantRecord, place: Place) -> Grant:
    """The grant as a token carries it: what the person consented to and may still give."""
    grant = Grant(
        id=record.id,
        scopes=frozenset(record.scopes),
        read_layers=frozenset(record.read_layers),
        write_layers=frozenset(record.write_layers),
        write_layer=record.write_layer,
    )
    return within(grant, place.membership, operator=place.tenant.admin)


async def issue_sign_in_link(
    services: AuthorizationServer, user_subject: str, address: str, *, actor: str = "command", tenant: str = ""
) -> str:
    """A link that signs the user in at ``address`` once, within 24 hours, and lets them set a password.

    Raises:
        LookupError: there is no such user, or ``address`` is none of the public ones.
    """
    if address not in services.addresses:
        raise LookupError(f"{address} is not one of the public addresses: {', '.join(services.addresses)}")
    if await services.users.by_id(user_subject) is None:
        raise LookupError("there is no such user")
    token = new_token()
    now = time.time()
    await services.links.add(LinkRecord(digest(token), user_subject, address, now, now + LINK_SECONDS))
    await services.note("link.issue", actor=actor, tenant=tenant, target=user_subject)
    return f"{address}/sign-in/link?token={token}"

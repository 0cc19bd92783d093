"""From the text of a token to a :class:`~app.context.Principal`, and only from there (fault 9)."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from app.access.layers import allowed_scopes
from app.access.snapshot import Snapshot, SnapshotMissing
from app.access.view import View
from app.context import EVERY_LAYER, Grant, Principal, Role
from app.errors import Forbidden, OAuthError
from app.oauth import personal, rfc9068
from app.oauth.jwks import BadSignature
from app.store.control.revocations import RevocationKind, client_key, member_key
from app.store.control.tenants import Tenant, TenantState

__all__ = ["LONGEST_TOKEN", "Verifier"]

LONGEST_TOKEN: Final = 32 * 1024
CACHE_SIZE: Final = 10_000
UNAUTHORIZED: Final = 401


@dataclass(slots=True)
class _Judged:
    """A token whose signature, type, issuer and audience were found good. What can change is judged on each call."""

    kid: str
    token_id: str
    subject: str
    client: str
    tenant: str
    member_key: str
    role: Role
    operator: bool
    grant: Grant
    expires: float
    issued: int
    principal: Principal | None = None
    of: Tenant | None = None


class Verifier:
    """Judges tokens by the snapshot. Verified ones are remembered by hash; the memory is bounded."""

    def __init__(self, snapshot: Snapshot, *, clock: Callable[[], float] = time.time) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._known: OrderedDict[tuple[str, bytes], _Judged] = OrderedDict()
        self._uses: dict[str, int] = {}

    def verify(self, token: str, address: str) -> Principal:
        """Who holds ``token``, presented at the public base address ``address``.

        Raises:
            OAuthError: ``invalid_token``: malformed, not ours, for another resource, expired or revoked.
            Forbidden: the token is good, but its tenant is suspended.
            SnapshotMissing: neither snapshot nor database is there, or the tenant is newer than the snapshot.
        """
        view = self._snapshot.view
        judged = self._judge(token, address, view)
        now = self._clock()
        _check_life(judged, view, now)
        tenant = view.tenants.get(judged.tenant)
        if tenant is None and judged.issued >= (now - self._snapshot.age) * 1000:
            raise SnapshotMissing(
                "this tenant is so new that this replica has not read of it yet; try again shortly.",
                retry_after_ms=2000,
            )
        if tenant is None or tenant.state is TenantState.DELETED:
            raise _invalid("the tenant of this token does not exist any more")
        if tenant.state is TenantState.SUSPENDED:
            raise Forbidden("this tenant is suspended; ask an operator of the gateway to resume it.")
        self._uses[judged.grant.id] = int(now * 1000)
        if judged.principal is None or judged.of != tenant:
            judged.principal, judged.of = _principal(judged, tenant), tenant
        return judged.principal

    def take_uses(self) -> dict[str, int]:
        """Grants used since the last call of this: id to Unix milliseconds. A personal token is its own grant."""
        uses, self._uses = self._uses, {}
        return uses

    def _judge(self, token: str, address: str, view: View) -> _Judged:
        if len(token) > LONGEST_TOKEN:
            raise _invalid("the token is malformed")
        key = (address, hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest())
        known = self._known.get(key)
        if known is not None and known.kid in view.ring:
            self._known.move_to_end(key)
            return known
        judged = _parse(token, address, view)
        self._known[key] = judged
        if len(self._known) > CACHE_SIZE:
            self._known.popitem(last=False)
        return judged


def _parse(token: str, address: str, view: View) -> _Judged:
    try:
        header, claims = view.ring.verify(token)
    except BadSignature as error:
        raise _invalid("the token was not issued by this gateway, or is malformed") from error
    typ = header.get("typ")
    if typ == rfc9068.TYP:
        issuer, audience = rfc9068.issuer_of(address), rfc9068.resource_of(address)
    elif typ == personal.TYP:
        issuer = audience = view.gateway
    else:
        raise _invalid("this kind of token does not open the resource")
    if claims.get("iss") != issuer or claims.get("aud") != audience:
        raise _invalid("the token was issued for another address")
    try:
        return _judged(header, claims)
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid("the token lacks a claim that this release needs") from error


def _judged(header: dict[str, Any], claims: dict[str, Any]) -> _Judged:
    own = claims["gk"]
    subject, tenant = str(claims["sub"]), str(own["tenant"])
    return _Judged(
        kid=str(header["kid"]),
        token_id=str(claims["jti"]),
        subject=subject,
        client=client_key(str(claims["client_id"])),
        tenant=tenant,
        member_key=member_key(subject, tenant),
        role=Role(own["role"]),
        operator=own["operator"] is True,
        grant=rfc9068.read_grant(claims),
        expires=float(claims["exp"]),
        issued=int(own["at"]),
    )


def _check_life(judged: _Judged, view: View, now: float) -> None:
    if now >= judged.expires:
        raise _invalid("the token has expired")
    revoked = view.revoked
    if (
        revoked.names(RevocationKind.TOKEN, judged.token_id)
        or revoked.names(RevocationKind.GRANT, judged.grant.id)
        or revoked.names(RevocationKind.CLIENT, judged.client)
        or revoked.ends(RevocationKind.CHANGE, judged.grant.id, judged.issued)
        or revoked.ends(RevocationKind.MEMBER, judged.member_key, judged.issued)
        or revoked.ends(RevocationKind.USER, judged.subject, judged.issued)
    ):
        raise _invalid("the token was revoked")


def _principal(judged: _Judged, tenant: Tenant) -> Principal:
    operator = judged.operator and tenant.admin
    return Principal(
        subject=judged.subject,
        client=judged.client,
        tenant=tenant.id,
        tenant_name=tenant.name,
        data=tenant.data,
        role=judged.role,
        operator=operator,
        grant=_within(judged.grant, judged.role, operator=operator),
        tenant_layers=tenant.all_layers(),
        rules=tenant.rules,
    )


def _within(grant: Grant, role: Role, *, operator: bool) -> Grant:
    """The grant cut down to what the role can hold, whatever the token says."""
    kept = replace(grant, scopes=grant.scopes & allowed_scopes(role, operator=operator))
    if role is not Role.OWNER:
        kept = replace(
            kept,
            read_layers=kept.read_layers - {EVERY_LAYER},
            write_layers=kept.write_layers - {EVERY_LAYER},
        )
    if role is Role.READER:
        kept = replace(kept, write_layers=frozenset(), write_layer=None)
    return kept


def _invalid(description: str) -> OAuthError:
    return OAuthError("invalid_token", description, status=UNAUTHORIZED)

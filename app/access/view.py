"""What a replica must know to judge a token: keys, tenants, revocations. One immutable picture, exchanged whole."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from app.oauth.jwks import KeyRing, SigningKey
from app.store.control.revocations import Revocation, RevocationKind
from app.store.control.rules import write_rules
from app.store.control.tenants import Tenant

__all__ = ["Revoked", "View"]

FORMAT: Final = 1


class Revoked:
    """Revocations, arranged for a few look-ups on each call."""

    def __init__(self, revocations: Iterable[Revocation]) -> None:
        self.all: Final = tuple(sorted(revocations, key=lambda each: (each.kind, each.key)))
        self._named = frozenset((each.kind, each.key) for each in self.all)
        self._before = {(each.kind, each.key): each.before for each in self.all}

    def names(self, kind: RevocationKind, key: str) -> bool:
        """Whether this token, grant or client was revoked for good."""
        return (kind, key) in self._named

    def ends(self, kind: RevocationKind, key: str, issued: int) -> bool:
        """Whether a token of this user or member, issued at ``issued`` (Unix milliseconds), was revoked."""
        before = self._before.get((kind, key))
        return before is not None and issued <= before


@dataclass(frozen=True)
class View:
    """The picture. ``gateway`` is the gateway's stable URN, ``tenants`` goes by control id."""

    ring: KeyRing
    gateway: str
    tenants: Mapping[str, Tenant]
    revoked: Revoked = field(default_factory=lambda: Revoked(()))

    def same_as(self, other: View) -> bool:
        """Whether both show the same, found without writing either down."""
        return (
            self.gateway == other.gateway
            and self.tenants == other.tenants
            and self.revoked.all == other.revoked.all
            and self.ring.states == other.ring.states
        )

    def dump(self) -> bytes:
        """The picture as bytes, equal for equal pictures. Of the keys only the public halves."""
        body = {
            "format": FORMAT,
            "gateway": self.gateway,
            "keys": [
                {
                    "jwk": key.public(),
                    "created": key.created,
                    "active_from": key.active_from,
                    "retired": key.retired,
                }
                for key in self.ring.keys
            ],
            "tenants": [
                {**asdict(tenant), "layers": sorted(tenant.layers), "rules": write_rules(tenant.rules)}
                for tenant in sorted(self.tenants.values(), key=lambda each: each.id)
            ],
            "revoked": [asdict(revocation) for revocation in self.revoked.all],
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def load(cls, raw: bytes) -> View:
        """Read a picture back.

        Raises:
            ValueError: another format.
        """
        body: dict[str, Any] = json.loads(raw)
        if body.get("format") != FORMAT:
            raise ValueError("a snapshot of another format")
        tenants = [Tenant.of(row) for row in body["tenants"]]
        return cls(
            ring=KeyRing(
                SigningKey.load(
                    key["jwk"], created=key["created"], active_from=key["active_from"], retired=key["retired"]
                )
                for key in body["keys"]
            ),
            gateway=body["gateway"],
            tenants={tenant.id: tenant for tenant in tenants},
            revoked=Revoked(Revocation.of(row) for row in body["revoked"]),
        )

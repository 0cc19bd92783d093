"""Signing keys: RS256, 2048 bits (RFC 7517, RFC 7518 §3.3), and the set of them that is published.

RS256 because it verifies in 60 µs where ES256 takes 180, and because every client library knows it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import RSAKey

from app.errors import DatabaseUnavailable

__all__ = ["ALGORITHM", "LONGEST_TOKEN_SECONDS", "BadSignature", "KeyRing", "SigningKey", "new_signing_key"]

ALGORITHM: Final = "RS256"
KEY_BITS: Final = 2048
LONGEST_TOKEN_SECONDS: Final = 366 * 24 * 3600
"""No token lives longer (personal ones: 365 days); a retired key is kept this long."""


class BadSignature(Exception):
    """The text is not a JWT that one of these keys signed."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key pair; without its private half it only verifies. Times are Unix seconds."""

    kid: str
    key: RSAKey
    created: float
    active_from: float
    """It signs from here on: every replica has seen it by then."""
    retired: float | None = None
    """It signs no longer from here on: the moment in which its successor begins."""

    def public(self) -> dict[str, Any]:
        """The key as the published set shows it."""
        return {**self.key.as_dict(private=False), "kid": self.kid, "use": "sig", "alg": ALGORITHM}

    def private(self) -> bytes:
        """The whole pair as JSON, to be sealed."""
        return json.dumps({**self.key.as_dict(private=True), "kid": self.kid}).encode()

    @classmethod
    def load(
        cls, jwk: Mapping[str, Any], *, created: float, active_from: float, retired: float | None = None
    ) -> SigningKey:
        """Read a key, private or public, back from its JWK."""
        members = {name: value for name, value in jwk.items() if name not in {"use", "alg"}}
        return cls(str(jwk["kid"]), RSAKey.import_key(members), created, active_from, retired)


def new_signing_key(*, active_from: float | None = None) -> SigningKey:
    """Make a key pair (up to 0.3 s of computing: run it off the event loop)."""
    now = time.time()
    kid = secrets.token_urlsafe(12)
    key = RSAKey.generate_key(KEY_BITS, parameters={"kid": kid}, private=True)
    return SigningKey(kid, key, now, now if active_from is None else active_from)


class KeyRing:
    """All keys that a living token may have been signed with, and the one that signs now. Immutable."""

    def __init__(self, keys: Iterable[SigningKey]) -> None:
        self.keys: Final = tuple(sorted(keys, key=lambda key: (key.active_from, key.kid)))
        self._by_kid = {key.kid: key for key in self.keys}

    def __contains__(self, kid: object) -> bool:
        return kid in self._by_kid

    @property
    def kids(self) -> frozenset[str]:
        """Ids of all keys."""
        return frozenset(self._by_kid)

    @property
    def states(self) -> tuple[tuple[str, float, float | None], ...]:
        """Which keys there are, and from when to when each signs: all that changes in a ring."""
        return tuple((key.kid, key.active_from, key.retired) for key in self.keys)

    def current(self, now: float | None = None) -> SigningKey:
        """The key that signs at ``now``: the newest that is active.

        Raises:
            DatabaseUnavailable: the ring came from a snapshot and can only verify.
        """
        moment = time.time() if now is None else now
        able = [key for key in self.keys if key.key.is_private and (key.retired is None or key.retired > moment)]
        if not able:
            raise DatabaseUnavailable(
                "no token can be issued while the database is away; try again shortly.", retry_after_ms=2000
            )
        active = [key for key in able if key.active_from <= moment]
        return active[-1] if active else able[0]

    def sign(self, typ: str, claims: Mapping[str, Any], *, now: float | None = None) -> str:
        """A compact JWT with header ``typ`` (RFC 8725 §3.11: each kind of token has its own)."""
        key = self.current(now)
        header = {"alg": ALGORITHM, "typ": typ, "kid": key.kid}
        payload = json.dumps(dict(claims), separators=(",", ":"), ensure_ascii=False).encode()
        return jws.serialize_compact(header, payload, key.key, algorithms=[ALGORITHM])

    def verify(self, token: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and claims of a token that one of these keys signed. Neither ``typ`` nor a claim is judged.

        Raises:
            BadSignature: malformed, another algorithm, an unknown key or a wrong signature.
        """
        try:
            parts = jws.extract_compact(token.encode("ascii"))
            header = parts.headers()
            key = self._by_kid.get(str(header.get("kid")))
            # The algorithm is ours to choose, never the token's (RFC 8725 §3.1): `none` and HS256 end here.
            if key is None or header.get("alg") != ALGORITHM:
                raise BadSignature("signed with a key or algorithm that is not ours")
            if not jws.validate_compact(parts, key.key, algorithms=[ALGORITHM]):
                raise BadSignature("the signature does not fit")
            claims = json.loads(parts.payload)
        except (JoseError, ValueError, RecursionError) as error:
            raise BadSignature("not a signed token") from error
        if not isinstance(claims, dict):
            raise BadSignature("the claims are not an object")
        return header, claims

    def document(self) -> dict[str, Any]:
        """The published JWK Set (RFC 7517 §5)."""
        return {"keys": [key.public() for key in self.keys]}

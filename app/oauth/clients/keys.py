"""The public keys of a client, as its metadata holds them (RFC 7517), bounded in number and size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

__all__ = ["ALGORITHMS", "key_of", "read_keys"]

ALGORITHMS: Final = ("RS256", "PS256", "ES256")
"""How a client may sign."""

MAX_KEYS: Final = 10
MAX_MEMBER: Final = 700
"""Characters of one member of a key: RSA keys of up to 4,096 bits. A larger one would cost its verifier seconds."""

MAX_EXPONENT: Final = 8
MIN_MODULUS: Final = 342
"""Characters of the modulus of an RSA key of 2,048 bits."""

CURVE: Final = "P-256"
"""Of ES256 (RFC 7518 §3.4)."""

PUBLIC_MEMBERS: Final = {"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}}
_DESCRIBING: Final = {"kty", "kid", "alg", "use"}


def read_keys(value: object) -> tuple[Mapping[str, Any], ...]:
    """The public keys of a JWK Set, each cut down to what describes it.

    Raises:
        ValueError: no set of 1 to 10 public RSA or P-256 keys; the message says why.
    """
    keys = value.get("keys") if isinstance(value, dict) else None
    if not isinstance(keys, list) or not 1 <= len(keys) <= MAX_KEYS:
        raise ValueError(f"jwks must be a JWK Set of 1 to {MAX_KEYS} keys")
    return tuple(_public_key(key) for key in keys)


def _public_key(key: object) -> dict[str, Any]:
    kind = key.get("kty") if isinstance(key, dict) else None
    if not isinstance(key, dict) or not isinstance(kind, str) or kind not in PUBLIC_MEMBERS:
        raise ValueError("each key of jwks must be an RSA or EC key")
    wanted = PUBLIC_MEMBERS[kind]
    kept = {name: key[name] for name in wanted | _DESCRIBING if name in key}
    if "d" in key or any(not isinstance(each, str) or len(each) > MAX_MEMBER for each in kept.values()):
        raise ValueError("a key of jwks holds a private part, or is larger than 4,096 bits")
    if not wanted <= set(kept) or len(kept.get("e", "")) > MAX_EXPONENT:
        raise ValueError("a key of jwks is incomplete")
    if kept.get("crv", CURVE) != CURVE or len(kept.get("n", " " * MIN_MODULUS)) < MIN_MODULUS:
        raise ValueError(f"a key of jwks must have the curve {CURVE}, or at least 2,048 bits")
    try:
        key_of(kept)
    except (JoseError, ValueError, TypeError) as error:
        raise ValueError("a key of jwks cannot be read") from error
    return kept


def key_of(key: Mapping[str, Any]) -> RSAKey | ECKey:
    """A key to verify with, from its JWK."""
    members = {name: value for name, value in key.items() if name not in {"alg", "use"}}
    return RSAKey.import_key(members) if key["kty"] == "RSA" else ECKey.import_key(members)

"""Personal access tokens: signed like access tokens, with a ``typ`` of their own, for agents without a browser.

Only their id is stored. They are valid at each public address of the gateway that made them: their issuer and
audience is the gateway's stable URN, so another gateway's are refused.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

from app.context import Grant, Role
from app.errors import InvalidInput
from app.oauth.jwks import KeyRing
from app.oauth.rfc9068 import IssuedToken, grant_claims

__all__ = ["DEFAULT_DAYS", "LONGEST_DAYS", "TYP", "client_of", "mint_personal_token"]

TYP: Final = "gk-pat+jwt"
"""Header ``typ``: neither kind of token passes for the other (RFC 8725 §3.11)."""

DEFAULT_DAYS: Final = 90
LONGEST_DAYS: Final = 365
DAY_SECONDS: Final = 24 * 3600


def client_of(token_id: str) -> str:
    """What stands for the client of a personal token: the token itself, so that each has limits of its own."""
    return f"token:{token_id}"


def mint_personal_token(
    ring: KeyRing,
    *,
    gateway: str,
    subject: str,
    tenant: str,
    role: Role,
    operator: bool,
    grant: Grant,
    days: int = DEFAULT_DAYS,
    now: float | None = None,
) -> IssuedToken:
    """Sign a personal token that lives ``days``. The grant's id is replaced by the token's own.

    Raises:
        InvalidInput: days outside 1 to 365. DatabaseUnavailable: the ring can only verify.
    """
    if not 1 <= days <= LONGEST_DAYS:
        raise InvalidInput(f"a personal token lives 1 to {LONGEST_DAYS} days; {days} was asked for.", field="days")
    moment = time.time() if now is None else now
    token_id = f"pt-{secrets.token_hex(12)}"
    expires = int(moment) + days * DAY_SECONDS
    own = Grant(token_id, grant.scopes, grant.read_layers, grant.write_layers, grant.write_layer)
    claims = {
        "iss": gateway,
        "aud": gateway,
        "sub": subject,
        "client_id": client_of(token_id),
        "scope": " ".join(sorted(grant.scopes)),
        "jti": token_id,
        "iat": int(moment),
        "exp": expires,
        "gk": grant_claims(tenant=tenant, role=role, operator=operator, grant=own, now=moment),
    }
    return IssuedToken(ring.sign(TYP, claims, now=moment), token_id, expires)

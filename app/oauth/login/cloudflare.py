"""Cloudflare Access before the gateway: it signs who the person is, and adds that to each request.

https://developers.cloudflare.com/cloudflare-one/identity/authorization-cookie/validating-json/: RS256, keys at
``/cdn-cgi/access/certs`` of the team, ``iss`` the team, ``aud`` the application's tag. The edge removes the header
unless a trusted proxy sent it.
"""

from __future__ import annotations

from typing import Final

from app.oauth.login.vouching import KeyServer, NotVouched, Vouched, checked_claims

__all__ = ["ASSERTION", "CloudflareAccess"]

ASSERTION: Final = "cf-access-jwt-assertion"
"""The header."""
LONGEST: Final = 16 * 1024


class CloudflareAccess:
    """One application of one team. ``team`` is the address of the team, which is the issuer too."""

    def __init__(self, team: str, audience: str) -> None:
        self._team = team
        self._audience = audience
        self._keys = KeyServer()

    async def vouched(self, assertion: str) -> Vouched:
        """Who the person is. Their address counts as verified: Access let them in by it.

        Raises:
            NotVouched: the assertion is not for us, of another team, old, or a service token's (it names no person).
            Unreachable: the team's keys cannot be had.
        """
        if len(assertion) > LONGEST:
            raise NotVouched("too long")
        claims = await self._keys.claims(assertion, f"{self._team}/cdn-cgi/access/certs")
        claims = checked_claims(claims, issuer=self._team, audience=self._audience)
        email = claims.get("email")
        if not isinstance(email, str) or not email:
            raise NotVouched("email")
        return Vouched(issuer=self._team, subject=claims["sub"], email=email, verified=True)

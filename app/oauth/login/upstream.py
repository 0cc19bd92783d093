"""An OpenID Connect provider that people may sign in with (OpenID Connect Core 1.0 §3.1, Discovery 1.0, RFC 9207).

Authlib asks and redeems; PKCE and a nonce bind the answer to the question. The id token is checked against the
provider's keys whichever way it came.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from typing import Any, Final

import httpx2
from authlib.integrations.base_client import OAuthError as ClientError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from app.oauth.login.vouching import (
    FETCH_SECONDS,
    KeyServer,
    NotVouched,
    Unreachable,
    Vouched,
    checked_claims,
    fetch_json,
    is_private_way,
)

__all__ = ["CALLBACK_PATH", "Upstream"]

CALLBACK_PATH: Final = "/sign-in/provider/callback"
METADATA_SECONDS: Final = 3600.0
ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Upstream:
    """One provider, by its issuer."""

    def __init__(self, issuer: str, client_id: str, secret: str | None, *, label: str, scopes: str) -> None:
        self.issuer = issuer
        self.label = label
        self._client_id = client_id
        self._secret = secret
        self._scopes = " ".join(dict.fromkeys(["openid", *scopes.split()]))
        self._keys = KeyServer()
        self._metadata: dict[str, Any] = {}
        self._fetched = 0.0
        self._fetching = asyncio.Lock()

    async def question(self, redirect_uri: str, *, state: str, nonce: str, verifier: str) -> str:
        """Where to send the browser.

        Raises:
            Unreachable: the provider does not say where.
        """
        metadata = await self._described()
        async with self._client(metadata, redirect_uri) as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        return str(url)

    async def check_sender(self, issuer: str | None) -> None:
        """Refuse an answer that another server sent (RFC 9207 §2.4).

        Raises:
            NotVouched: ``iss`` is another's, or missing although this provider always sends it.
        """
        always = bool((await self._described()).get("authorization_response_iss_parameter_supported"))
        if issuer != self.issuer and (issuer is not None or always):
            raise NotVouched("iss of the answer")

    async def redeem(self, code: str, redirect_uri: str, *, nonce: str, verifier: str) -> Vouched:
        """Who signed in, from the code that the browser brought.

        Raises:
            NotVouched: the provider refuses the code, or what it says does not fit. Unreachable: no proper answer.
        """
        metadata = await self._described()
        try:
            async with asyncio.timeout(FETCH_SECONDS), self._client(metadata, redirect_uri) as client:
                token = await client.fetch_token(
                    metadata["token_endpoint"], grant_type="authorization_code", code=code, code_verifier=verifier
                )
        except ClientError as error:
            raise NotVouched("the code was refused") from error
        except (httpx2.HTTPError, TimeoutError, ValueError) as error:
            raise Unreachable(type(error).__name__) from error
        text = token.get("id_token")
        if not isinstance(text, str):
            raise NotVouched("no id token")
        claims = await self._keys.claims(text, metadata["jwks_uri"])
        claims = checked_claims(claims, issuer=self.issuer, audience=self._client_id)
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise NotVouched("nonce")
        return await self._vouched(claims, token, metadata)

    async def _vouched(self, claims: dict[str, Any], token: dict[str, Any], metadata: dict[str, Any]) -> Vouched:
        where = metadata.get("userinfo_endpoint")
        if "email" not in claims and isinstance(where, str) and is_private_way(where):
            more = await fetch_json(where, token=str(token.get("access_token", "")))
            if more.get("sub") != claims["sub"]:  # OpenID Connect Core §5.3.2: else it may be about someone else
                raise NotVouched("sub of the user info")
            claims = {**claims, **{name: more.get(name) for name in ("email", "email_verified")}}
        email = claims.get("email")
        return Vouched(
            issuer=self.issuer,
            subject=claims["sub"],
            email=email if isinstance(email, str) else "",
            verified=claims.get("email_verified") is True,
        )

    async def _described(self) -> dict[str, Any]:
        async with self._fetching:
            if not self._metadata or time.monotonic() - self._fetched > METADATA_SECONDS:
                try:
                    self._metadata = await self._fetch_metadata()
                except Unreachable:
                    if not self._metadata:
                        raise
                self._fetched = time.monotonic()
            return self._metadata

    async def _fetch_metadata(self) -> dict[str, Any]:
        found = await fetch_json(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self.issuer:  # Discovery §4.3
            raise Unreachable("the provider calls itself by another issuer than GRAPHKEEP_OIDC_ISSUER")
        if not all(isinstance(found.get(name), str) and is_private_way(found[name]) for name in ENDPOINTS):
            raise Unreachable("the provider's endpoints are missing or not HTTPS")
        return found

    def _client(self, metadata: dict[str, Any], redirect_uri: str) -> Any:
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        method = "none"
        if self._secret is not None:
            method = "client_secret_basic" if "client_secret_basic" in methods else "client_secret_post"
        return AsyncOAuth2Client(
            self._client_id,
            self._secret,
            scope=self._scopes,
            redirect_uri=redirect_uri,
            token_endpoint_auth_method=method,
            code_challenge_method="S256",
            timeout=FETCH_SECONDS,
        )

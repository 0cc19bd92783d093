"""What somebody elsewhere says about a person, in a JWT: fetched keys, checked signature and claims."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

__all__ = [
    "ALGORITHMS",
    "KeyServer",
    "NotVouched",
    "Unreachable",
    "Vouched",
    "checked_claims",
    "fetch_json",
    "is_private_way",
]

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Asymmetric ones alone: never `none`, never a secret as key (RFC 8725 §3.1)."""
FETCH_SECONDS: Final = 10.0
LARGEST: Final = 512 * 1024
FRESH_SECONDS: Final = 3600.0
ASK_AGAIN_SECONDS: Final = 30.0
"""A token of an unknown key makes the keys be fetched anew, but not oftener than this."""
LEEWAY_SECONDS: Final = 60
LONGEST_SUBJECT: Final = 255


class NotVouched(Exception):
    """What came is not what the other side would say. The text is for the log: it quotes nothing."""


class Unreachable(Exception):
    """The other side does not answer, or not as it should."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """A person as another party knows them. ``verified`` is whether that party checked the e-mail address."""

    issuer: str
    subject: str
    email: str
    verified: bool


def is_private_way(url: str) -> bool:
    """Whether nobody on the way can change what ``url`` answers: HTTPS, or this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"})
    )


async def fetch_json(url: str, *, token: str | None = None) -> dict[str, Any]:
    """A JSON object of at most 512 KiB; redirects are not followed.

    Raises:
        Unreachable: no answer in time, or another one than that.
    """
    headers = {"Accept": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    try:
        async with (
            asyncio.timeout(FETCH_SECONDS),
            httpx2.AsyncClient(timeout=FETCH_SECONDS, trust_env=not _here(url)) as client,
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                raise Unreachable(f"status {answer.status_code}")
            raw = b""
            async for part in answer.aiter_bytes():
                raw += part
                if len(raw) > LARGEST:
                    raise Unreachable("too large")
        found = json.loads(raw)
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, ValueError, RecursionError) as error:
        raise Unreachable(type(error).__name__) from error
    if not isinstance(found, dict):
        raise Unreachable("no JSON object")
    return found


class KeyServer:
    """The public keys at an address: fetched when first needed, kept for an hour, and longer while it is away."""

    def __init__(self, *, ask_again_seconds: float = ASK_AGAIN_SECONDS) -> None:
        self._ask_again_seconds = ask_again_seconds
        self._keys: KeySet | None = None
        self._fetched = 0.0
        self._fetching = asyncio.Lock()

    async def claims(self, text: str, url: str) -> dict[str, Any]:
        """The claims of a JWT that one of the keys at ``url`` signed; nothing else of it is checked.

        Raises:
            NotVouched: none of them did. Unreachable: there are no keys to check with.
        """
        keys = await self._current(url, FRESH_SECONDS)
        try:
            return _decoded(text, keys)
        except JoseError:
            again = await self._current(url, self._ask_again_seconds)
            if again is keys:
                raise NotVouched("bad signature") from None
        try:
            return _decoded(text, again)
        except JoseError as error:
            raise NotVouched("bad signature") from error

    async def _current(self, url: str, fresh: float) -> KeySet:
        async with self._fetching:
            if self._keys is None or time.monotonic() - self._fetched > fresh:
                try:
                    self._keys = await _fetch_keys(url)
                except Unreachable:
                    if self._keys is None:
                        raise
                self._fetched = time.monotonic()
            return self._keys


async def _fetch_keys(url: str) -> KeySet:
    keys = []
    for jwk in (await fetch_json(url)).get("keys") or []:
        with suppress(JoseError, ValueError, TypeError, KeyError, AttributeError):  # one odd key spoils no other
            if jwk.get("use", "sig") == "sig" and jwk.get("kty") in {"RSA", "EC"}:
                keys += KeySet.import_key_set({"keys": [{n: v for n, v in jwk.items() if n != "use"}]}).keys
    if not keys:
        raise Unreachable("no usable key")
    return KeySet(keys)


def _decoded(text: str, keys: KeySet) -> dict[str, Any]:
    try:
        return dict(jwt.decode(text, keys, algorithms=list(ALGORITHMS)).claims)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotVouched("no JWT") from error


def checked_claims(claims: Mapping[str, Any], *, issuer: str, audience: str) -> dict[str, Any]:
    """The claims, if they are meant for ``audience`` now (OpenID Connect Core §3.1.3.7, 2 to 5 and 9 to 10).

    Raises:
        NotVouched: they are not; the text names the claim.
    """
    now = time.time()
    meant = claims.get("aud")
    audiences = [meant] if isinstance(meant, str) else meant
    if claims.get("iss") != issuer:
        raise NotVouched("iss")
    if not isinstance(audiences, list) or audience not in audiences:
        raise NotVouched("aud")
    if claims.get("azp", audience) != audience or (len(audiences) > 1 and "azp" not in claims):
        raise NotVouched("azp")
    if _moment(claims, "exp") <= now - LEEWAY_SECONDS:
        raise NotVouched("exp")
    if max(_moment(claims, "iat"), _moment({"nbf": 0, **claims}, "nbf")) > now + LEEWAY_SECONDS:
        raise NotVouched("iat")
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= LONGEST_SUBJECT:
        raise NotVouched("sub")
    return dict(claims)


def _moment(claims: Mapping[str, Any], name: str) -> float:
    value = claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotVouched(name)
    return float(value)


def _here(url: str) -> bool:
    return urlsplit(url).hostname in {"localhost", "127.0.0.1", "::1"}

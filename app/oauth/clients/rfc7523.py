"""Clients that prove themselves with a key (``private_key_jwt``: RFC 7523 §2.2 and §3, OpenID Connect Core §9).

Their public keys stand in their metadata document. A proof is for this issuer, lives minutes and counts once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError

from app.errors import OAuthError
from app.oauth.clients.client import Client
from app.oauth.clients.keys import ALGORITHMS, key_of
from app.oauth.forms import Parameters
from app.oauth.secrets import digest
from app.oauth.service import AuthorizationServer

__all__ = ["assertion_of", "proven", "subject_of"]

KIND: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LONGEST_PROOF_SECONDS: Final = 600
LENIENCE_SECONDS: Final = 60
MAX_PROOF: Final = 8 * 1024


def assertion_of(form: Parameters) -> str | None:
    """The proof that a request carries, None without one.

    Raises:
        OAuthError: invalid_client, it is of another kind than this gateway reads, or too long.
    """
    assertion = form.one("client_assertion")
    if assertion is None:
        return None
    if form.one("client_assertion_type") != KIND:
        raise _refused(f"client_assertion_type must be {KIND}")
    if len(assertion) > MAX_PROOF or not assertion.isascii():
        raise _refused("client_assertion is too long, or no JWT")
    return assertion


def subject_of(assertion: str) -> str | None:
    """Whom an unverified proof speaks of."""
    try:
        subject = json.loads(jws.extract_compact(assertion.encode("ascii")).payload)["sub"]
    except (JoseError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return subject if isinstance(subject, str) else None


async def proven(services: AuthorizationServer, client: Client, assertion: str | None, address: str) -> Client:
    """The client, if the proof is its own.

    Raises:
        OAuthError: invalid_client, the proof is missing, of another hand, for another issuer, expired or used before.
    """
    if assertion is None:
        raise _refused("this client signs: send client_assertion and client_assertion_type")
    claims = _verified(client, assertion)
    if claims is None:
        # Its keys may have been exchanged since its document was read.
        client = await services.documents.again(client)
        claims = _verified(client, assertion)
    if claims is None:
        raise _refused("client_assertion is signed by none of the keys in the client's document")
    expires = _check(claims, client, address, time.time())
    if not await services.once.first(digest(f"assertion\n{client.id}\n{claims['jti']}"), until=expires):
        raise _refused("this client_assertion was used before; sign a new one with a jti of its own")
    return client


def _verified(client: Client, assertion: str) -> dict[str, Any] | None:
    try:
        parts = jws.extract_compact(assertion.encode("ascii"))
        header = parts.headers()
        if header.get("alg") not in ALGORITHMS:
            raise _refused(f"client_assertion must be signed with one of {', '.join(ALGORITHMS)}")
        kid = header.get("kid")
        for key in client.keys:
            if kid in (None, key.get("kid")) and _signed(parts, key, header["alg"]):
                claims = json.loads(parts.payload)
                return claims if isinstance(claims, dict) else None
    except (JoseError, ValueError, RecursionError) as error:
        raise _refused("client_assertion is no signed JWT") from error
    return None


def _signed(parts: Any, key: Mapping[str, Any], algorithm: str) -> bool:
    if (key["kty"] == "EC") != algorithm.startswith("ES") or key.get("alg", algorithm) != algorithm:
        return False
    return bool(jws.validate_compact(parts, key_of(key), algorithms=[algorithm]))


def _check(claims: Mapping[str, Any], client: Client, address: str, now: float) -> float:
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    expires, identity = claims.get("exp"), claims.get("jti")
    if claims.get("iss") != client.id or claims.get("sub") != client.id:
        raise _refused("iss and sub of client_assertion must both be the client_id")
    # The issuer, or the endpoint as RFC 7523 §3 has it; one gateway's proof is worth nothing at another.
    if not {address, f"{address}/", f"{address}/token"}.intersection(each for each in named if isinstance(each, str)):
        raise _refused(f"aud of client_assertion must be {address}")
    if not isinstance(expires, int | float) or not now < expires <= now + LONGEST_PROOF_SECONDS + LENIENCE_SECONDS:
        raise _refused(f"client_assertion has expired, or lives longer than {LONGEST_PROOF_SECONDS} s")
    if not all(_begun(claims.get(name), now) for name in ("iat", "nbf")):
        raise _refused("client_assertion is not valid yet; check the client's clock")
    if not isinstance(identity, str) or not 1 <= len(identity) <= 256:
        raise _refused("client_assertion needs a jti of 1 to 256 characters")
    return float(expires)


def _begun(moment: object, now: float) -> bool:
    return moment is None or (isinstance(moment, int | float) and moment <= now + LENIENCE_SECONDS)


def _refused(reason: str) -> OAuthError:
    return OAuthError("invalid_client", reason, status=401)

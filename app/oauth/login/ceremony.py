"""What passes through a browser, or through a provider elsewhere, and comes back: sealed, bound and used once.

WebAuthn challenges and the ``state`` of a sign-in elsewhere are sealed texts: any replica opens them, only the browser
that they were made for can bring them back, and a flood of visitors stores nothing. That one was used is stored, as
soon as it led to something.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import time
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from app.oauth.login.sessions import Visit
from app.oauth.secrets import digest, encode

__all__ = ["begin", "finish", "resume"]

NONCE_BYTES: Final = 12
LONGEST: Final = 4096
EXPIRES: Final = "exp"


async def begin(seen: Visit, purpose: str, data: Mapping[str, str], *, seconds: float) -> str:
    """A sealed text for this browser at this address, valid for ``seconds``; base64url without padding."""
    content = json.dumps({**data, EXPIRES: time.time() + seconds}, separators=(",", ":")).encode()
    nonce = os.urandom(NONCE_BYTES)
    cipher, bound = await _cipher(seen, purpose)
    return encode(nonce + cipher.encrypt(nonce, content, bound))


async def resume(seen: Visit, purpose: str, text: str) -> dict[str, Any] | None:
    """What :func:`begin` sealed, None if it was made for another browser, address or purpose, or is too old."""
    if seen.fresh or len(text) > LONGEST:
        return None
    cipher, bound = await _cipher(seen, purpose)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        content: dict[str, Any] = json.loads(cipher.decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], bound))
    except (binascii.Error, ValueError, InvalidTag):
        return None
    return content if content[EXPIRES] > time.time() else None


async def finish(seen: Visit, text: str, content: Mapping[str, Any]) -> bool:
    """Use a text up that :func:`resume` opened; False if it was used before, on whichever replica."""
    return await seen.services.once.first(digest(text), until=float(content[EXPIRES]))


async def _cipher(seen: Visit, purpose: str) -> tuple[AESGCM, bytes]:
    secrets = await seen.services.secrets()
    return AESGCM(secrets.mac("ceremony key", purpose)), secrets.mac("ceremony", seen.address, seen.token)

"""Where sealed key material becomes usable: the key ring and the secrets that all replicas share."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from typing import Final

from app.errors import StartError
from app.oauth.jwks import LONGEST_TOKEN_SECONDS, KeyRing, SigningKey, new_signing_key
from app.oauth.sealing import KEY_FILE, Sealer, UnreadableSeal
from app.store.control.keys import Keys, StoredKey

__all__ = ["Vault"]

ACTIVATION_SECONDS: Final = 10.0
"""A rotated key signs this long after it was stored: by then each replica has read it (every 2 s) and can verify."""

KEY_PURPOSE: Final = "signing key"
SECRET_PURPOSE: Final = "secret "  # noqa: S105 (a label of the encryption, not a secret)
SECRET_BYTES: Final = 32
BAD_CONFIGURATION: Final = 78  # EX_CONFIG


class Vault:
    """Opens what :class:`Keys` holds. Read often: a key is imported once and then reused."""

    def __init__(self, keys: Keys, sealer: Sealer) -> None:
        self._keys = keys
        self._sealer = sealer
        self._opened: dict[str, SigningKey] = {}
        self._ring = KeyRing(())

    async def ring(self, keys: Keys | None = None) -> KeyRing:
        """All signing keys; the first is made if there is none. The same object until something changes.

        ``keys`` is the store to read through, when the caller has one with a deadline of its own.

        Raises:
            StartError: the stored keys were sealed with another secret key than this replica's.
            CallError: the database failed.
        """
        store = keys or self._keys
        stored = await store.all() or [await self._add(store, slot=1, active_from=time.time())]
        opened = [await self._open(key) for key in stored if not _forgotten(key)]
        self._opened = {key.kid: key for key in opened}
        if opened != list(self._ring.keys):
            self._ring = KeyRing(opened)
        return self._ring

    async def rotate(self) -> KeyRing:
        """Make the next signing key, for all replicas; the old one verifies while its tokens live.

        Raises:
            StartError: the stored keys were sealed with another secret key than ours; nothing was changed.
            CallError: the database failed.
        """
        await self.ring()  # a key that only we could open would stop every replica
        stored = await self._keys.all()
        slot = max(key.slot for key in stored) + 1
        await self._add(self._keys, slot=slot, active_from=time.time() + ACTIVATION_SECONDS)
        await self._keys.drop_retired(int((time.time() - LONGEST_TOKEN_SECONDS) * 1000))
        return await self.ring()

    async def secret(self, name: str) -> bytes:
        """32 random bytes under this name, made once for all replicas and never rotated.

        Raises:
            StartError: it was sealed with another secret key. CallError: the database failed.
        """
        sealed = await self._keys.secret(name)
        if sealed is None:
            fresh = self._sealer.seal(secrets.token_bytes(SECRET_BYTES), SECRET_PURPOSE + name)
            sealed = await self._keys.put_secret(name, fresh)
        return self._unseal(sealed, SECRET_PURPOSE + name)

    async def _add(self, store: Keys, *, slot: int, active_from: float) -> StoredKey:
        made = await asyncio.to_thread(new_signing_key, active_from=active_from)
        return await store.put(
            StoredKey(
                slot=slot,
                kid=made.kid,
                public=made.public(),
                sealed=self._sealer.seal(made.private(), KEY_PURPOSE),
                created=int(made.created * 1000),
                active_from=int(made.active_from * 1000),
            )
        )

    async def _open(self, stored: StoredKey) -> SigningKey:
        known = self._opened.get(stored.kid)
        retired = None if stored.retired is None else stored.retired / 1000
        if known is not None and known.retired == retired:
            return known
        signs = retired is None or retired > time.time()
        jwk = json.loads(self._unseal(stored.sealed, KEY_PURPOSE)) if signs else stored.public
        # Reading a private half checks its primes, 30 ms and more of computing; a key that only verifies needs none.
        return await asyncio.to_thread(
            SigningKey.load,
            jwk,
            created=stored.created / 1000,
            active_from=stored.active_from / 1000,
            retired=retired,
        )

    def _unseal(self, sealed: str, purpose: str) -> bytes:
        try:
            return self._sealer.open(sealed, purpose)
        except UnreadableSeal as error:
            raise StartError(
                "the keys in this database were encrypted with another secret key. Every replica needs the same one: "
                f"set GRAPHKEEP_SECRET_KEY, or copy the file {KEY_FILE} from the home folder of the first one.",
                exit_code=BAD_CONFIGURATION,
            ) from error


def _forgotten(key: StoredKey) -> bool:
    return key.retired is not None and key.retired / 1000 + LONGEST_TOKEN_SECONDS < time.time()

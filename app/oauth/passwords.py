"""Passwords of local accounts: argon2id off the event loop, few at once, and a limit on how often one may try."""

from __future__ import annotations

import hashlib
import time
from functools import cached_property
from typing import Final

import anyio
import anyio.to_thread
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.errors import InvalidInput, Overloaded
from app.store.control.browser import BrowserStore
from app.store.control.passwords import PasswordStore

__all__ = ["MIN_PASSWORD", "Passwords", "TooManyAttempts", "check_password"]

MIN_PASSWORD: Final = 12
MAX_PASSWORD: Final = 256
AT_ONCE: Final = 2
"""Each hash takes 64 MiB and about 100 ms."""
WAITING: Final = 32
WINDOW_SECONDS: Final = 15 * 60
PER_ACCOUNT: Final = 10
FOR_ALL: Final = 1000
"""Attempts within the window. Never per address: users of a hosted client share a few of those."""

_EVERYONE: Final = "everyone"


class TooManyAttempts(Exception):
    """The account, or all accounts together, were tried too often within the window."""


def check_password(password: str, email: str) -> str:
    """The password, if it is good enough (NIST SP 800-63B §3.1.1: length, no composition rules).

    Raises:
        InvalidInput: too short, too long, or the e-mail address.
    """
    if len(password) < MIN_PASSWORD:
        raise InvalidInput(f"Choose a password of at least {MIN_PASSWORD} characters; several words are fine.")
    if len(password) > MAX_PASSWORD:
        raise InvalidInput(f"Choose a password of at most {MAX_PASSWORD} characters.")
    if password.casefold() == email.casefold() or len(set(password)) < 4:
        raise InvalidInput("This password is too easy to guess; choose another.")
    return password


class Passwords:
    """Sets and verifies passwords."""

    def __init__(self, store: PasswordStore, attempts: BrowserStore) -> None:
        self._store = store
        self._attempts = attempts
        self._hasher = PasswordHasher()
        self._waiting = 0

    async def known(self, user: str) -> bool:
        """Whether the user has a password."""
        return await self._store.find(user) is not None

    async def set(self, user: str, password: str) -> None:
        """Keep a new password (already checked)."""
        hashed = await self._threaded(password, None)
        await self._store.set(user, str(hashed), time.time())

    async def verify(self, account: str, user: str | None, password: str) -> bool:
        """Whether ``password`` is that of ``user``; ``account`` is what was typed as the account's name.

        An unknown user costs as much time as a known one.

        Raises:
            TooManyAttempts: nothing was verified. Overloaded: too many are being verified now.
        """
        key = hashlib.sha256(account.strip().casefold().encode("utf-8", "surrogatepass")).hexdigest()
        now = time.time()
        tried = await self._attempts.count_attempt(key, now=now, window=WINDOW_SECONDS)
        tried_by_all = await self._attempts.count_attempt(_EVERYONE, now=now, window=WINDOW_SECONDS)
        if tried > PER_ACCOUNT or tried_by_all > FOR_ALL:
            raise TooManyAttempts
        hashed = await self._store.find(user) if user is not None else None
        right = bool(await self._threaded(password[: MAX_PASSWORD + 1], hashed or self._nobody))
        if right and hashed is not None:
            await self._attempts.forget_attempts(key)
            return True
        return False

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(AT_ONCE)

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash("of nobody")

    async def _threaded(self, password: str, hashed: str | None) -> str | bool:
        if self._waiting >= WAITING:
            raise Overloaded("too many sign-ins at once; try again in a moment.", retry_after_ms=2000)
        self._waiting += 1
        try:
            return await anyio.to_thread.run_sync(self._work, password, hashed, limiter=self._limiter)
        finally:
            self._waiting -= 1

    def _work(self, password: str, hashed: str | None) -> str | bool:
        raw = password.encode("utf-8", "surrogatepass")
        if hashed is None:
            return self._hasher.hash(raw)
        try:
            return self._hasher.verify(hashed, raw)
        except (VerificationError, InvalidHashError):
            return False

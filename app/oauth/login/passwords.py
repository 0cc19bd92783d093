"""Passwords of local accounts: argon2id off the event loop, few at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import Final

import anyio
import anyio.to_thread
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from app.errors import InvalidInput, Overloaded
from app.oauth.login.attempts import Attempts, Trial
from app.store.control.passwords import PasswordStore

__all__ = ["MIN_PASSWORD", "Passwords", "check_password"]

MIN_PASSWORD: Final = 12
MAX_PASSWORD: Final = 256
AT_ONCE: Final = 2
"""Each hash takes 64 MiB and about 100 ms."""
WAITING: Final = 32


class _Lane:
    """A few hashes at once, and a short queue."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._waiting = 0

    @cached_property
    def _limiter(self) -> anyio.CapacityLimiter:
        return anyio.CapacityLimiter(self._at_once)

    async def run(self, work: Callable[[], bool | str]) -> bool | str:
        if self._waiting >= WAITING:
            raise Overloaded("too many sign-ins at once; try again in a moment.", retry_after_ms=2000)
        self._waiting += 1
        try:
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._waiting -= 1


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

    def __init__(self, store: PasswordStore, attempts: Attempts) -> None:
        self._store = store
        self._attempts = attempts
        self._hasher = PasswordHasher()
        self._strangers = _Lane(AT_ONCE)
        self._known = _Lane(1)
        """Strangers never stand in the way of people whose browser is known."""

    async def known(self, user: str) -> bool:
        """Whether the user has a password."""
        return await self._store.find(user) is not None

    async def hashed(self, password: str) -> str:
        """What is kept of a new password (already checked): made before a link is used up for it.

        Raises:
            Overloaded: too many are being hashed now.
        """
        return str(await self._known.run(partial(self._hasher.hash, _raw(password))))

    async def keep(self, user: str, hashed: str) -> None:
        """Keep a new password by its hash."""
        await self._store.set(user, hashed, time.time())

    async def set(self, user: str, password: str) -> None:
        """Hash and keep a new password (already checked)."""
        await self.keep(user, await self.hashed(password))

    async def verify(self, trial: Trial, user: str | None, password: str) -> bool:
        """Whether ``password`` is that of ``user``, who is None if there is no account of the tried name.

        An unknown user costs as much time as a known one.

        Raises:
            TooManyAttempts: nothing was verified. Overloaded: too many are being verified now.
        """
        await self._attempts.count(trial)
        hashed = await self._store.find(user) if user is not None else None
        lane = self._known if trial.browser else self._strangers
        right = await lane.run(partial(self._fits, hashed or self._nobody, _raw(password[: MAX_PASSWORD + 1])))
        if right and hashed is not None:
            await self._attempts.passed(trial)
            return True
        return False

    @cached_property
    def _nobody(self) -> str:
        return self._hasher.hash("of nobody")

    def _fits(self, hashed: str, raw: bytes) -> bool:
        try:
            return self._hasher.verify(hashed, raw)
        except (VerificationError, InvalidHashError):
            return False


def _raw(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")

"""How often one may try to sign in: per account, within a budget for all, and apart for browsers that are known.

Never by network address: all users of a hosted client share a few of those. A browser in which the account signed in
before has a count of its own, so a stranger who types wrong passwords for somebody's address cannot keep that person
out where they usually are (OWASP, "Slow Down Online Guessing Attacks with Device Cookies").
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Final

from app.store.control.attempts import AttemptStore

__all__ = ["PER_ACCOUNT", "PER_BROWSER", "WINDOW_SECONDS", "Attempts", "TooManyAttempts", "Trial"]

WINDOW_SECONDS: Final = 15 * 60
PER_ACCOUNT: Final = 10
PER_BROWSER: Final = 10
FOR_STRANGERS: Final = 1000
"""Attempts within the window: by strangers at one account, by one known browser, by strangers at all accounts."""

_STRANGERS: Final = "strangers"


class TooManyAttempts(Exception):
    """The account, the browser, or all accounts together were tried too often within the window."""


@dataclass(frozen=True, slots=True)
class Trial:
    """An attempt at an account. ``kind`` is the way, ``account`` what was typed as its name, ``browser`` what tells a
    browser that this account knows from all others, empty for a stranger's."""

    kind: str
    account: str
    browser: str = ""

    @property
    def key(self) -> str:
        """What is counted, as a hash."""
        what = f"browser\0{self.browser}" if self.browser else f"account\0{self.account.strip().casefold()}"
        return hashlib.sha256(f"{self.kind}\0{what}".encode("utf-8", "surrogatepass")).hexdigest()


class Attempts:
    """Counts attempts before anything is verified."""

    def __init__(self, store: AttemptStore) -> None:
        self._store = store

    async def count(self, trial: Trial) -> None:
        """Count an attempt. The budget of all strangers is asked first, by reading: once it is spent, invented
        addresses write nothing, so that at most as many counts are stored as it has attempts.

        Raises:
            TooManyAttempts: nothing may be verified now.
        """
        now = time.time()
        if trial.browser:
            if not await self._counted(trial.key, PER_BROWSER, now):
                raise TooManyAttempts
            return
        if await self._store.spent({_STRANGERS: FOR_STRANGERS, trial.key: PER_ACCOUNT}, now):
            raise TooManyAttempts
        if not await self._counted(_STRANGERS, FOR_STRANGERS, now):
            raise TooManyAttempts
        if not await self._counted(trial.key, PER_ACCOUNT, now):
            raise TooManyAttempts

    async def passed(self, trial: Trial) -> None:
        """The attempt succeeded: its count begins anew."""
        await self._store.forget(trial.key)

    async def _counted(self, key: str, most: int, now: float) -> bool:
        return await self._store.count(key, most=most, now=now, window=WINDOW_SECONDS)

"""Recovery codes: a way in for a person whose password and passkeys are out of reach, without a mail server."""

from __future__ import annotations

import re
import secrets
import time
from typing import Final

from app.oauth.service import AuthorizationServer
from app.store.control.recovery import RecoveryCodeStore

__all__ = ["NUMBER", "RecoveryCodes"]

NUMBER: Final = 10
GROUPS: Final = 4
GROUP_LETTERS: Final = 5
ALPHABET: Final = "23456789abcdefghjkmnpqrstuvwxyz"
"""Without characters that are mistaken for one another; 20 of them are 99 bits."""

_SEPARATORS: Final = re.compile(r"[\s\-_.]+")


class RecoveryCodes:
    """Ten codes, each good for one sign-in. What is stored is a MAC: the database alone does not let anyone guess."""

    def __init__(self, services: AuthorizationServer) -> None:
        self._services = services
        self._store = RecoveryCodeStore(services.control)

    async def make(self, user: str) -> list[str]:
        """Ten new codes, to be shown once; all that the user (a subject) had before are worthless.

        Raises:
            LookupError: there is no such user.
        """
        codes = [_new_code() for _ in range(NUMBER)]
        hashes = [await self._hashed(user, code) for code in codes]
        if not await self._store.replace(user, hashes, time.time()):
            raise LookupError("there is no such user")
        await self._services.note("recovery_codes.make", actor=user)
        return codes

    async def left(self, user: str) -> int:
        """How many codes the user has left."""
        return await self._store.left(user)

    async def use(self, user: str, code: str) -> bool:
        """Use a code up, however its letters are grouped and cased; False if it is none of the user's."""
        return await self._store.use(user, await self._hashed(user, code), time.time())

    async def _hashed(self, user: str, code: str) -> str:
        plain = _SEPARATORS.sub("", code).casefold()
        return (await self._services.secrets()).mac("recovery code", user, plain).hex()


def _new_code() -> str:
    letters = [secrets.choice(ALPHABET) for _ in range(GROUPS * GROUP_LETTERS)]
    return "-".join("".join(letters[at : at + GROUP_LETTERS]) for at in range(0, len(letters), GROUP_LETTERS))

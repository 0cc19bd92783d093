"""Who may sign in through a provider elsewhere, by e-mail address. A list that cannot be read admits nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from app.errors import InvalidInput, StartError
from app.store.control.users import check_email

__all__ = ["AllowList"]

EVERYONE: Final = "*"
BAD_CONFIGURATION: Final = 78  # EX_CONFIG


@dataclass(frozen=True, slots=True)
class AllowList:
    """Addresses and domains, in normal form and any case; ``everyone`` is whoever the provider vouches for."""

    addresses: frozenset[str]
    domains: frozenset[str]
    everyone: bool

    @classmethod
    def of(cls, entries: Iterable[str]) -> AllowList:
        """The list that a setting spells: `me@example.com`, `*@example.com` (no sub-domains), `*`.

        Raises:
            StartError: an entry is none of these. Going on without it could shut out the wrong people, or let them in.
        """
        addresses, domains, everyone = set(), set(), False
        for number, entry in enumerate(entries, 1):
            local, _, domain = entry.rpartition("@")
            try:
                if entry == EVERYONE:
                    everyone = True
                elif local == EVERYONE:
                    domains.add(_key(f"someone@{domain}").rpartition("@")[2])
                elif EVERYONE in entry:  # an address may hold it, but here it was meant to stand for others
                    raise InvalidInput("a star stands alone, or for the whole part before the @")
                else:
                    addresses.add(_key(entry))
            except InvalidInput as error:
                raise StartError(
                    f"GRAPHKEEP_ALLOWED_EMAILS: entry {number} is no address, no `*@domain` and not `*`. Nobody is "
                    "admitted by a list that cannot be read, so nothing was started.",
                    exit_code=BAD_CONFIGURATION,
                ) from error
        return cls(frozenset(addresses), frozenset(domains), everyone)

    def __bool__(self) -> bool:
        return self.everyone or bool(self.addresses or self.domains)

    def admits(self, email: str) -> bool:
        """Whether this (verified) address is on the list."""
        try:
            key = _key(email)
        except InvalidInput:
            return False
        return self.everyone or key in self.addresses or key.rpartition("@")[2] in self.domains


def _key(email: str) -> str:
    return check_email(email).casefold()

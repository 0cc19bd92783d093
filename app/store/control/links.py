"""One-time sign-in links: only their hashes."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["LinkRecord", "LinkStore"]

ADD = statement(
    "links.add",
    "CREATE (l:_SignInLink) SET l = $record RETURN l.id AS id",
    writes=True,
    control=True,
)
FIND = statement(
    "links.find",
    """
    MATCH (l:_SignInLink {id: $id, issuer: $issuer}) WHERE l.expires_at > $now AND l.taken IS NULL
    RETURN l {.id, .user, .issuer, .created_at, .expires_at} AS link
    """,
    control=True,
)
# The write lock is taken before `taken` is read: of two uses of one link exactly one counts.
TAKE = statement(
    "links.take",
    """
    MATCH (l:_SignInLink {id: $id, issuer: $issuer}) WHERE l.expires_at > $now
    SET l.locked = true
    WITH l WHERE l.locked AND l.taken IS NULL
    SET l.taken = true
    RETURN l.user AS user
    """,
    writes=True,
    control=True,
)
END_OF_USER = statement("links.end_of_user", "MATCH (l:_SignInLink {user: $user}) DELETE l", writes=True, control=True)
SWEEP = statement(
    "links.sweep",
    "MATCH (l:_SignInLink) WHERE l.expires_at < $now WITH l LIMIT 1000 DELETE l",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """A link that signs ``user`` in at ``issuer`` once. ``id`` is the hash of its token; times are Unix seconds."""

    id: str
    user: str
    issuer: str
    created_at: float
    expires_at: float


class LinkStore:
    """Links by the hash of their token."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add(self, link: LinkRecord) -> None:
        """Keep a link."""
        await self._control.write(lambda writing: writing.run(ADD, record=asdict(link)))

    async def find(self, key: str, *, issuer: str, now: float) -> LinkRecord | None:
        """The link, which stays usable: a preview of a message must not use it up."""
        rows = await self._control.read(FIND, id=key, issuer=issuer, now=now)
        return LinkRecord(**rows[0]["link"]) if rows else None

    async def take(self, key: str, *, issuer: str, now: float) -> str | None:
        """Use the link up; the user, None when it was used, has expired or never was."""
        rows = await self._control.write(lambda writing: writing.run(TAKE, id=key, issuer=issuer, now=now))
        return str(rows[0]["user"]) if rows else None

    async def end_of(self, user: str) -> None:
        """Make every open link of the user worthless."""
        await self._control.write(lambda writing: writing.run(END_OF_USER, user=user))

    async def sweep(self, now: float) -> None:
        """Remove expired links, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

"""Who a user is at a provider elsewhere: (issuer, subject), whatever e-mail address the provider names today."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["Identities", "Identity"]

# Of two first sign-ins at once one makes the tie; the other finds it.
TIE = statement(
    "identities.tie",
    """
    MERGE (i:_Identity {id: $id})
    ON CREATE SET i.user = $user, i.issuer = $issuer, i.subject = $subject, i.created_at = $now
    RETURN i.user AS user
    """,
    writes=True,
    control=True,
)
FIND = statement("identities.find", "MATCH (i:_Identity {id: $id}) RETURN i.user AS user", control=True)
OF_USER = statement(
    "identities.of_user",
    """
    MATCH (i:_Identity {user: $user})
    RETURN i.issuer AS issuer, i.subject AS subject, i.created_at AS created_at ORDER BY i.created_at, i.id
    """,
    control=True,
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user's subject at an issuer, since ``created_at`` (Unix seconds)."""

    issuer: str
    subject: str
    created_at: float


class Identities:
    """The store of ties between users and providers."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def tie(self, user: str, issuer: str, subject: str, now: float) -> str:
        """Tie a subject to a user; the user it is tied to, which is another one if it was tied before."""
        rows = await self._control.write(
            lambda writing: writing.run(
                TIE, id=_id(issuer, subject), user=user, issuer=issuer, subject=subject, now=now
            )
        )
        return str(rows[0]["user"])

    async def find(self, issuer: str, subject: str) -> str | None:
        """The user that the subject is tied to."""
        rows = await self._control.read(FIND, id=_id(issuer, subject))
        return str(rows[0]["user"]) if rows else None

    async def of_user(self, user: str) -> list[Identity]:
        """The user's identities elsewhere, oldest first."""
        return [Identity(**row) for row in await self._control.read(OF_USER, user=user)]


def _id(issuer: str, subject: str) -> str:
    return hashlib.sha256(f"{len(issuer)} {issuer} {subject}".encode("utf-8", "surrogatepass")).hexdigest()

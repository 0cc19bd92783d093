"""Invitations into a tenant: only the hashes of their links."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from app.context import Role
from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["LARGEST_NUMBER", "Invitation", "InvitationStore"]

LARGEST_NUMBER = 200
"""Open invitations of one tenant."""

_INTERNAL = frozenset({"digest", "locked", "taken"})

# The tenant's node is locked first: two invitations at once cannot both be the last one that is allowed.
ADD = statement(
    "invitations.add",
    """
    MATCH (t:_Tenant {id: $of}) SET t.locked = true
    WITH t WHERE t.locked
    REMOVE t.locked
    WITH t WHERE COUNT { MATCH (i:_Invitation {tenant: $of}) WHERE i.expires_at > $now AND i.taken IS NULL } < $most
    CREATE (i:_Invitation) SET i = $record
    RETURN i.id AS id
    """,
    writes=True,
    control=True,
)
FIND = statement(
    "invitations.find",
    """
    MATCH (i:_Invitation {digest: $digest, issuer: $issuer}) WHERE i.expires_at > $now AND i.taken IS NULL
    RETURN properties(i) AS invitation
    """,
    control=True,
)
# The write lock is taken before `taken` is read: of two people with one link exactly one gets in.
TAKE = statement(
    "invitations.take",
    """
    MATCH (i:_Invitation {digest: $digest, issuer: $issuer}) WHERE i.expires_at > $now
    SET i.locked = true
    WITH i WHERE i.locked AND i.taken IS NULL
    SET i.taken = true
    RETURN i.id AS id
    """,
    writes=True,
    control=True,
)
OF_TENANT = statement(
    "invitations.of_tenant",
    """
    MATCH (i:_Invitation {tenant: $of}) WHERE i.expires_at > $now AND i.taken IS NULL
    RETURN properties(i) AS invitation ORDER BY i.created_at, i.id
    """,
    control=True,
)
WITHDRAW = statement(
    "invitations.withdraw",
    """
    MATCH (i:_Invitation {id: $id, tenant: $of})
    SET i.locked = true
    WITH i WHERE i.locked AND i.taken IS NULL
    SET i.taken = true
    RETURN i.id AS id
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "invitations.sweep",
    "MATCH (i:_Invitation) WHERE i.expires_at < $now WITH i LIMIT 1000 DELETE i",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class Invitation:
    """An invitation that nobody has accepted yet. Layers as the data spells them; times are Unix seconds.

    ``inviter`` is the subject of who made it, or ``command``; ``email`` None: whoever has the link may accept.
    """

    id: str
    tenant: str
    issuer: str
    role: Role
    read_layers: list[str]
    write_layers: list[str]
    email: str | None
    inviter: str
    created_at: float
    expires_at: float

    @classmethod
    def of(cls, record: dict[str, Any]) -> Invitation:
        """An invitation from its record."""
        fields = {name: value for name, value in record.items() if name not in _INTERNAL}
        return cls(**{"email": None, **fields, "role": Role(fields["role"])})


class InvitationStore:
    """The store of open invitations."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add(self, invitation: Invitation, digest: str) -> bool:
        """Keep an invitation with the hash of its link; False if the tenant has as many open ones as it may."""
        record = {name: value for name, value in asdict(invitation).items() if value is not None}
        record |= {"role": invitation.role.value, "digest": digest}
        rows = await self._control.write(
            lambda writing: writing.run(
                ADD, of=invitation.tenant, record=record, now=invitation.created_at, most=LARGEST_NUMBER
            )
        )
        return bool(rows)

    async def find(self, digest: str, *, issuer: str, now: float) -> Invitation | None:
        """The open invitation, which stays usable: a preview of a message must not use it up."""
        rows = await self._control.read(FIND, digest=digest, issuer=issuer, now=now)
        return Invitation.of(rows[0]["invitation"]) if rows else None

    async def take(self, digest: str, *, issuer: str, now: float) -> bool:
        """Use the invitation up; False if it was used, withdrawn, has expired or never was."""
        return bool(await self._control.write(lambda writing: writing.run(TAKE, digest=digest, issuer=issuer, now=now)))

    async def of_tenant(self, tenant: str, now: float) -> list[Invitation]:
        """The open invitations into a tenant, oldest first."""
        rows = await self._control.read(OF_TENANT, of=tenant, now=now)
        return [Invitation.of(row["invitation"]) for row in rows]

    async def withdraw(self, tenant: str, invitation: str) -> bool:
        """Make a link worthless; False if the tenant has no such open invitation."""
        return bool(await self._control.write(lambda writing: writing.run(WITHDRAW, id=invitation, of=tenant)))

    async def sweep(self, now: float) -> None:
        """Remove expired invitations, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

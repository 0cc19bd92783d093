"""What people granted to clients: scopes and layers, per consent."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from app.store.control.revocations import Revocation, RevocationKind, member_key, revoke_in
from app.store.database import ControlSession, Writing
from app.store.statement import statement

__all__ = ["GrantRecord", "GrantStore"]

ADD = statement(
    "grants.add",
    "CREATE (g:_Grant) SET g = $record RETURN g.id AS id",
    writes=True,
    control=True,
)
FIND = statement(
    "grants.find",
    "MATCH (g:_Grant {id: $id}) RETURN properties(g) AS grant",
    control=True,
)
LATEST = statement(
    "grants.latest_of_client",
    """
    MATCH (g:_Grant {user: $user, client: $client, issuer: $issuer})
    RETURN properties(g) AS grant ORDER BY g.created_at DESC, g.id LIMIT 1
    """,
    control=True,
)
TOUCH = statement(
    "grants.touch",
    "MATCH (g:_Grant {id: $id}) SET g.last_used = $now, g.expires_at = $expires_at RETURN g.id AS id",
    writes=True,
    control=True,
)
REVOKE = statement(
    "grants.revoke",
    """
    MATCH (g:_Grant {id: $id})
    SET g.revoked_at = coalesce(g.revoked_at, $now), g.revoked_for = coalesce(g.revoked_for, $reason)
    RETURN g.id AS id
    """,
    writes=True,
    control=True,
)
ENDED = statement(
    "grants.revocations_that_touch",
    "MATCH (r:_Revocation) WHERE r.id IN $ids RETURN r.kind AS kind, r.before AS before",
    control=True,
)
SWEEP = statement(
    "grants.sweep",
    "MATCH (g:_Grant) WHERE g.expires_at < $now WITH g LIMIT 1000 DELETE g",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class GrantRecord:
    """One consent. ``user``, ``tenant`` are control ids, ``client`` the hash of the client's id, ``asked`` what the
    client wanted and ``scopes`` what it got, layers as the data spells them. Times are Unix seconds; ``expires_at``
    moves on with each refresh."""

    id: str
    user: str
    tenant: str
    client: str
    client_id: str
    client_name: str
    host: str
    issuer: str
    asked: list[str]
    scopes: list[str]
    read_layers: list[str]
    write_layers: list[str]
    created_at: float
    last_used: float
    expires_at: float
    write_layer: str | None = None
    revoked_at: float | None = None
    revoked_for: str | None = None


class GrantStore:
    """Grants by id, and the latest of a person for a client."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add(self, grant: GrantRecord) -> None:
        """Keep a grant."""
        await self._control.write(
            lambda writing: writing.run(ADD, record={k: v for k, v in asdict(grant).items() if v is not None})
        )

    async def find(self, key: str) -> GrantRecord | None:
        """The grant, revoked or not; None when there is none."""
        rows = await self._control.read(FIND, id=key)
        return GrantRecord(**rows[0]["grant"]) if rows else None

    async def latest(self, *, user: str, client: str, issuer: str) -> GrantRecord | None:
        """What the person chose for this client the last time."""
        rows = await self._control.read(LATEST, user=user, client=client, issuer=issuer)
        return GrantRecord(**rows[0]["grant"]) if rows else None

    async def touch(self, key: str, *, now: float, expires_at: float) -> None:
        """Note that the grant is in use, and until when it stays so at most."""
        await self._control.write(lambda writing: writing.run(TOUCH, id=key, now=now, expires_at=expires_at))

    async def revoke(self, key: str, *, reason: str, now: float) -> None:
        """End a grant: its refresh tokens at once, its access tokens as the revocation reaches each replica."""

        async def work(writing: Writing) -> None:
            await writing.run(REVOKE, id=key, reason=reason, now=now)
            await revoke_in(writing, Revocation.of_grant(key))

        await self._control.write(work)

    async def ended(self, grant: GrantRecord) -> bool:
        """Whether the grant, its client, its user or the user's membership was revoked since it was given."""
        keys = {
            RevocationKind.GRANT: grant.id,
            RevocationKind.CLIENT: grant.client,
            RevocationKind.MEMBER: member_key(grant.user, grant.tenant),
            RevocationKind.USER: grant.user,
        }
        rows = await self._control.read(ENDED, ids=[f"{kind.value}:{key}" for kind, key in keys.items()])
        whole = {RevocationKind.GRANT, RevocationKind.CLIENT}
        return grant.revoked_at is not None or any(
            RevocationKind(row["kind"]) in whole or row["before"] >= grant.created_at * 1000 for row in rows
        )

    async def sweep(self, now: float) -> None:
        """Remove grants that no token can use any more, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

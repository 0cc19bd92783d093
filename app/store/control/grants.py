"""What people granted to clients: scopes and layers, per consent."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from app.store.control.revocations import Revocation, RevocationKind, member_key, revoke_in
from app.store.database import ControlSession, Writing
from app.store.statement import statement

__all__ = ["TOUCH", "GrantRecord", "GrantStore"]

LONGEST_LIST: Final = 500

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
# Of what is listed none has ended: by itself, by its own revocation, or by that of its client, user or membership.
_LIVING: Final = """
    WHERE g.revoked_at IS NULL AND g.expires_at > $now
      AND NOT EXISTS { MATCH (r:_Revocation {id: 'client:' + g.client}) }
      AND NOT EXISTS {
        MATCH (r:_Revocation)
        WHERE r.id IN ['member:' + g.user + '|' + g.tenant, 'user:' + g.user] AND r.before >= g.created_at * 1000
      }
    RETURN properties(g) AS grant ORDER BY g.last_used DESC, g.id LIMIT $limit
    """
OF_USER = statement("grants.of_user", f"MATCH (g:_Grant {{user: $user}}) {_LIVING}", control=True)
OF_TENANT = statement("grants.of_tenant", f"MATCH (g:_Grant {{tenant: $of}}) {_LIVING}", control=True)
ALL = statement("grants.all", f"MATCH (g:_Grant) {_LIVING}", control=True)
TOUCH = statement(
    "grants.touch",
    "MATCH (g:_Grant {id: $id}) SET g.last_used = $now, g.expires_at = $expires_at RETURN g.id AS id",
    writes=True,
    control=True,
)
CHANGE = statement(
    "grants.change",
    """
    MATCH (g:_Grant {id: $id}) WHERE g.revoked_at IS NULL
    SET g.scopes = $scopes, g.read_layers = $read, g.write_layers = $write, g.write_layer = $into
    RETURN g.id AS id
    """,
    writes=True,
    control=True,
)
USED = statement(
    "grants.note_use",
    """
    UNWIND keys($uses) AS id
    MATCH (g:_Grant {id: id})
    SET g.last_used = CASE WHEN g.last_used * 1000 > $uses[id] THEN g.last_used ELSE $uses[id] / 1000.0 END
    RETURN count(g) AS noted
    """,
    writes=True,
    control=True,
)
REPLACED = statement(
    "grants.replace_older",
    """
    MATCH (new:_Grant {id: $id})
    MATCH (g:_Grant {user: new.user, client: new.client, issuer: new.issuer})
    WHERE g.id <> new.id AND g.created_at <= new.created_at AND g.revoked_at IS NULL
    SET g.revoked_at = $now, g.revoked_for = 'the person answered this client anew'
    RETURN g.id AS id
    """,
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

    async def of_user(self, user: str) -> list[GrantRecord]:
        """What a person's clients may do at present, the last used first: at most 500, none that has ended by itself
        or was revoked. ``client_name``, ``host`` and ``last_used`` say which is which."""
        return self._living(await self._control.read(OF_USER, user=user, now=time.time(), limit=LONGEST_LIST))

    async def of_tenant(self, tenant: str) -> list[GrantRecord]:
        """The same of everyone in a tenant, ``user`` saying whose each is."""
        return self._living(await self._control.read(OF_TENANT, of=tenant, now=time.time(), limit=LONGEST_LIST))

    async def all(self) -> list[GrantRecord]:
        """The same of everyone everywhere, for operators."""
        return self._living(await self._control.read(ALL, now=time.time(), limit=LONGEST_LIST))

    def _living(self, rows: list[dict[str, Any]]) -> list[GrantRecord]:
        return [GrantRecord(**row["grant"]) for row in rows]

    async def touch(self, key: str, *, now: float, expires_at: float) -> None:
        """Note that the grant is in use, and until when it stays so at most."""
        await self._control.write(lambda writing: writing.run(TOUCH, id=key, now=now, expires_at=expires_at))

    async def change(
        self,
        key: str,
        *,
        scopes: Collection[str],
        read_layers: Collection[str],
        write_layers: Collection[str],
        write_layer: str | None,
    ) -> bool:
        """Give more or less under the same grant: access tokens that it gave end as the change reaches each replica,
        and the next refresh gives what holds now. False: it was revoked meanwhile."""

        async def work(writing: Writing) -> bool:
            found = await writing.run(
                CHANGE,
                id=key,
                scopes=sorted(scopes),
                read=sorted(read_layers),
                write=sorted(write_layers),
                into=write_layer,
            )
            if found:
                await revoke_in(writing, Revocation.of_change(key))
            return bool(found)

        return await self._control.write(work)

    async def note_use(self, uses: Mapping[str, int]) -> None:
        """Record last uses, grant id to Unix milliseconds; ids of other things are passed over."""
        if uses:
            await self._control.write(lambda writing: writing.run(USED, uses=dict(uses)))

    async def replace_older(self, key: str, *, now: float) -> list[str]:
        """End what the same person gave the same client before this grant; the ids of what ended."""

        async def work(writing: Writing) -> list[str]:
            ended = [str(row["id"]) for row in await writing.run(REPLACED, id=key, now=now)]
            for each in ended:
                await revoke_in(writing, Revocation.of_grant(each))
            return ended

        return await self._control.write(work)

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

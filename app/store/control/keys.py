"""Signing keys, named secrets and the gateway's own id: made once, shared by all replicas, sealed at rest.

Each is created by MERGE on a unique key, so that of two replicas that start at once one wins and both use its value.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["Keys", "StoredKey"]

_KEY: Final = """k.slot AS slot, k.id AS kid, k.public AS public, k.sealed AS sealed, k.created AS created,
           k.active_from AS active_from, k.retired AS retired"""

PUT_KEY = statement(
    "keys.put_signing_key",
    f"""
    MERGE (k:_SigningKey {{slot: $slot}})
    ON CREATE SET k.id = $kid, k.public = $public, k.sealed = $sealed, k.created = $created,
                  k.active_from = $active_from
    RETURN {_KEY}
    """,
    writes=True,
    control=True,
)
RETIRE_OLDER = statement(
    "keys.retire_older",
    "MATCH (k:_SigningKey) WHERE k.slot < $slot AND k.retired IS NULL SET k.retired = $at RETURN k.id AS kid",
    writes=True,
    control=True,
)
DROP_RETIRED = statement(
    "keys.drop_retired",
    "MATCH (k:_SigningKey) WHERE k.retired < $before DELETE k RETURN count(*) AS dropped",
    writes=True,
    control=True,
)
KEYS = statement("keys.signing_keys", f"MATCH (k:_SigningKey) RETURN {_KEY} ORDER BY slot", control=True)
PUT_SECRET = statement(
    "keys.put_secret",
    "MERGE (s:_Secret {id: $name}) ON CREATE SET s.sealed = $sealed, s.created = $now RETURN s.sealed AS sealed",
    writes=True,
    control=True,
)
SECRET = statement("keys.secret", "MATCH (s:_Secret {id: $name}) RETURN s.sealed AS sealed", control=True)
PUT_GATEWAY = statement(
    "keys.put_gateway",
    "MERGE (g:_Gateway {id: 'this'}) ON CREATE SET g.urn = $urn, g.created = $now RETURN g.urn AS urn",
    writes=True,
    control=True,
)
GATEWAY = statement("keys.gateway", "MATCH (g:_Gateway {id: 'this'}) RETURN g.urn AS urn", control=True)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A signing key as the store holds it; times are Unix milliseconds."""

    slot: int
    """1 for the first key, one more at each rotation. Unique, so rotating twice at once rotates once."""
    kid: str
    public: Mapping[str, Any]
    """The public JWK."""
    sealed: str
    """The private JWK, encrypted."""
    created: int
    active_from: int
    retired: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> StoredKey:
        """A key from a row of the statements above."""
        return cls(
            slot=row["slot"],
            kid=row["kid"],
            public=json.loads(row["public"]),
            sealed=row["sealed"],
            created=row["created"],
            active_from=row["active_from"],
            retired=row["retired"],
        )


class Keys:
    """The store of key material."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def all(self) -> list[StoredKey]:
        """Every signing key, oldest first."""
        return [StoredKey.of(row) for row in await self._control.read(KEYS)]

    async def put(self, key: StoredKey) -> StoredKey:
        """Store ``key`` in its slot, unless another replica was there first; the answer is what the slot holds.

        Keys of lower slots retire when this one becomes active.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            rows = await writing.run(
                PUT_KEY,
                slot=key.slot,
                kid=key.kid,
                public=json.dumps(dict(key.public)),
                sealed=key.sealed,
                created=key.created,
                active_from=key.active_from,
            )
            await writing.run(RETIRE_OLDER, slot=key.slot, at=rows[0]["active_from"])
            return rows

        return StoredKey.of((await self._control.write(work))[0])

    async def drop_retired(self, before: int) -> int:
        """Delete keys that retired before this moment (Unix milliseconds); how many went."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(DROP_RETIRED, before=before)

        return int((await self._control.write(work))[0]["dropped"])

    async def secret(self, name: str) -> str | None:
        """The sealed secret ``name``, if it was made."""
        rows = await self._control.read(SECRET, name=name)
        return rows[0]["sealed"] if rows else None

    async def put_secret(self, name: str, sealed: str) -> str:
        """Store a sealed secret, unless it exists; the answer is the one that counts."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(PUT_SECRET, name=name, sealed=sealed, now=_now())

        return str((await self._control.write(work))[0]["sealed"])

    async def gateway(self) -> str | None:
        """The stable URN of this gateway (all replicas, all public addresses), if it was made."""
        rows = await self._control.read(GATEWAY)
        return rows[0]["urn"] if rows else None

    async def ensure_gateway(self) -> str:
        """The same, made on first use."""
        urn = f"urn:graphkeep:gateway:{secrets.token_hex(16)}"

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(PUT_GATEWAY, urn=urn, now=_now())

        return await self.gateway() or str((await self._control.write(work))[0]["urn"])


def _now() -> int:
    return int(time.time() * 1000)

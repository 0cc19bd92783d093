"""Refresh tokens: only hashes, each with at most one successor."""

from __future__ import annotations

from dataclasses import dataclass

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["ADD_REFRESH", "RefreshRecord", "RefreshStore"]

ADD_REFRESH = statement(
    "refresh.add",
    "CREATE (t:_RefreshToken) SET t = $record RETURN t.id AS id",
    writes=True,
    control=True,
)
FIND = statement(
    "refresh.find",
    "MATCH (t:_RefreshToken {id: $id}) RETURN properties(t) AS token",
    control=True,
)
# The write lock is taken before `used_at` is read; the successor is derived, so that parallel uses agree on it.
ROTATE = statement(
    "refresh.rotate",
    """
    MATCH (t:_RefreshToken {id: $id})
    SET t.locked = true
    WITH t, t.used_at AS used_before WHERE t.locked
    SET t.used_at = coalesce(used_before, $now)
    REMOVE t.locked
    WITH t, used_before
    CALL (t, used_before) {
      WITH t, used_before WHERE used_before IS NULL
      MERGE (s:_RefreshToken {id: $successor})
        ON CREATE SET s.grant = t.grant, s.client = t.client, s.issuer = t.issuer, s.created_at = $now,
                      s.expires_at = $expires_at
      RETURN count(s) AS made
    }
    RETURN used_before
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "refresh.sweep",
    "MATCH (t:_RefreshToken) WHERE t.expires_at < $now WITH t LIMIT 1000 DELETE t",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class RefreshRecord:
    """A refresh token. ``id`` is its hash, ``client`` the hash of the client's id; times are Unix seconds."""

    id: str
    grant: str
    client: str
    issuer: str
    created_at: float
    expires_at: float
    used_at: float | None = None


class RefreshStore:
    """Refresh tokens by hash."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def find(self, key: str) -> RefreshRecord | None:
        """The token, used or not; None when there is none."""
        rows = await self._control.read(FIND, id=key)
        return RefreshRecord(**rows[0]["token"]) if rows else None

    async def rotate(self, key: str, *, successor: str, now: float, expires_at: float) -> float | None:
        """Use a token and keep its successor, in one step; when it had been used before (None: this was the first)."""
        rows = await self._control.write(
            lambda writing: writing.run(ROTATE, id=key, successor=successor, now=now, expires_at=expires_at)
        )
        used: float | None = rows[0]["used_before"] if rows else 0.0
        return used

    async def sweep(self, now: float) -> None:
        """Remove expired tokens, a thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

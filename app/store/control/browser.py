"""People's browser sessions."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from app.store.database import ControlSession
from app.store.statement import statement

__all__ = ["BrowserStore", "SessionRecord"]

ADD = statement(
    "browser.add_session",
    "CREATE (s:_Session) SET s = $record RETURN s.id AS id",
    writes=True,
    control=True,
)
FIND = statement(
    "browser.find_session",
    "MATCH (s:_Session {id: $id, issuer: $issuer}) WHERE s.expires_at > $now RETURN properties(s) AS session",
    control=True,
)
END = statement(
    "browser.end_session",
    "MATCH (s:_Session {id: $id}) DELETE s",
    writes=True,
    control=True,
)
OF_USER = statement(
    "browser.sessions_of_user",
    """
    MATCH (s:_Session {user: $user}) WHERE s.expires_at > $now
    RETURN properties(s) AS session ORDER BY s.created_at DESC
    """,
    control=True,
)
END_OWN = statement(
    "browser.end_session_of_user",
    "MATCH (s:_Session {id: $id, user: $user}) DELETE s RETURN true AS ended",
    writes=True,
    control=True,
)
END_OTHERS = statement(
    "browser.end_sessions_of_user",
    "MATCH (s:_Session {user: $user}) WHERE s.id <> $keep DELETE s",
    writes=True,
    control=True,
)
SWEEP = statement(
    "browser.sweep",
    "MATCH (s:_Session) WHERE s.expires_at < $now WITH s LIMIT 10000 DELETE s",
    writes=True,
    control=True,
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A signed-in browser. ``id`` is the hash of the cookie; times are Unix seconds."""

    id: str
    user: str
    issuer: str
    created_at: float
    expires_at: float
    way: str = ""
    """How the person signed in: password, passkey, link, recovery, …"""
    agent: str = ""
    """What the browser called itself."""


class BrowserStore:
    """Sessions by the hash of their cookie."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add_session(self, session: SessionRecord) -> None:
        """Keep a session."""
        await self._control.write(lambda writing: writing.run(ADD, record=asdict(session)))

    async def find_session(self, key: str, *, issuer: str, now: float) -> SessionRecord | None:
        """The living session that began at this address, None when there is none."""
        rows = await self._control.read(FIND, id=key, issuer=issuer, now=now)
        return SessionRecord(**rows[0]["session"]) if rows else None

    async def end_session(self, key: str) -> None:
        """Sign a browser out."""
        await self._control.write(lambda writing: writing.run(END, id=key))

    async def sessions_of(self, user: str, now: float) -> list[SessionRecord]:
        """Every browser in which the user is signed in, the latest sign-in first."""
        return [SessionRecord(**row["session"]) for row in await self._control.read(OF_USER, user=user, now=now)]

    async def end_session_of(self, user: str, key: str) -> bool:
        """Sign one browser of this very user out; whether there was such a session."""
        return bool(await self._control.write(lambda writing: writing.run(END_OWN, id=key, user=user)))

    async def end_sessions_of(self, user: str, *, keep: str = "") -> None:
        """Sign all browsers of a user out, but for one: what a changed password demands."""
        await self._control.write(lambda writing: writing.run(END_OTHERS, user=user, keep=keep))

    async def sweep(self, now: float) -> None:
        """Remove what has expired, ten thousand at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

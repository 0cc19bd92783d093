"""People's browser sessions, and how often a sign-in was tried."""

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
COUNT_ATTEMPT = statement(
    "browser.count_attempt",
    """
    MERGE (a:_SignInAttempts {id: $id}) ON CREATE SET a.count = 0, a.until = $until
    SET a.locked = true
    WITH a, CASE WHEN a.until <= $now THEN 0 ELSE a.count END AS before,
         CASE WHEN a.until <= $now THEN $until ELSE a.until END AS until
    SET a.count = before + 1, a.until = until
    REMOVE a.locked
    RETURN a.count AS count, a.until AS until
    """,
    writes=True,
    control=True,
)
FORGET_ATTEMPTS = statement(
    "browser.forget_attempts",
    "MATCH (a:_SignInAttempts {id: $id}) DELETE a",
    writes=True,
    control=True,
)
SWEEP = statement(
    "browser.sweep",
    """
    CALL () {
      MATCH (s:_Session) WHERE s.expires_at < $now RETURN s AS gone LIMIT 1000
      UNION ALL
      MATCH (a:_SignInAttempts) WHERE a.until < $now RETURN a AS gone LIMIT 1000
    }
    DELETE gone
    """,
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


class BrowserStore:
    """Sessions by the hash of their cookie; attempts by account."""

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

    async def count_attempt(self, key: str, *, now: float, window: float) -> int:
        """Count one attempt; how many there were in the present window of ``window`` seconds, this one included."""
        rows = await self._control.write(
            lambda writing: writing.run(COUNT_ATTEMPT, id=key, now=now, until=now + window)
        )
        return int(rows[0]["count"])

    async def forget_attempts(self, key: str) -> None:
        """Begin to count anew: the person proved to be the one."""
        await self._control.write(lambda writing: writing.run(FORGET_ATTEMPTS, id=key))

    async def sweep(self, now: float) -> None:
        """Remove what has expired, a thousand of each at a time."""
        await self._control.write(lambda writing: writing.run(SWEEP, now=now))

"""Authorizations under way: what a client asked for until the person decides, and the codes that come of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from app.store.control.grants import TOUCH
from app.store.control.refresh import ADD_REFRESH, RefreshRecord
from app.store.database import ControlSession, Writing
from app.store.statement import Statement, statement

__all__ = ["AuthorizationStore", "CodeRecord", "PendingAuthorization"]

ADD_PENDING = statement(
    "authorizations.add_pending",
    "CREATE (p:_PendingAuthorization) SET p = $record RETURN p.id AS id",
    writes=True,
    control=True,
)
FIND_PENDING = statement(
    "authorizations.find_pending",
    """
    MATCH (p:_PendingAuthorization {id: $id}) WHERE p.expires_at > $now AND p.taken IS NULL
    RETURN properties(p) AS record
    """,
    control=True,
)
# The write lock is taken before `taken` is read: of two decisions exactly one counts.
TAKE_PENDING = statement(
    "authorizations.take_pending",
    """
    MATCH (p:_PendingAuthorization {id: $id}) WHERE p.expires_at > $now
    SET p.locked = true
    WITH p WHERE p.locked AND p.taken IS NULL
    SET p.taken = true
    RETURN properties(p) AS record
    """,
    writes=True,
    control=True,
)
ADD_CODE = statement(
    "authorizations.add_code",
    "CREATE (c:_Code) SET c = $record RETURN c.id AS id",
    writes=True,
    control=True,
)
FIND_CODE = statement(
    "authorizations.find_code",
    "MATCH (c:_Code {id: $id, client: $client, issuer: $issuer}) RETURN properties(c) AS record",
    control=True,
)
# The write lock is taken before `used_at` is read: of two exchanges of one code exactly one sees it unused.
USE_CODE = statement(
    "authorizations.use_code",
    """
    MATCH (c:_Code {id: $id, client: $client, issuer: $issuer})
    SET c.locked = true
    WITH c, c.used_at AS used_before WHERE c.locked
    SET c.used_at = coalesce(used_before, $now)
    REMOVE c.locked
    RETURN properties(c) AS record, used_before
    """,
    writes=True,
    control=True,
)
SWEEP = statement(
    "authorizations.sweep",
    """
    CALL () {
      MATCH (p:_PendingAuthorization) WHERE p.expires_at < $now RETURN p AS gone LIMIT 10000
      UNION ALL
      MATCH (c:_Code) WHERE c.kept_until < $now RETURN c AS gone LIMIT 10000
    }
    DELETE gone
    RETURN count(*) AS gone
    """,
    writes=True,
    control=True,
)
TRIM = statement(
    "authorizations.trim",
    """
    MATCH (p:_PendingAuthorization) WHERE p.expires_at > 0
    WITH p ORDER BY p.expires_at DESC SKIP $most LIMIT 10000
    DELETE p
    RETURN count(*) AS gone
    """,
    writes=True,
    control=True,
)

PART: Final = 10_000
MOST_PENDING: Final = 20_000
"""Anyone can ask, so of questions that nobody has answered yet the newest are kept: at some KB each, a bounded lot."""


@dataclass(frozen=True, slots=True)
class PendingAuthorization:
    """A checked authorization request that waits for a person. Times are Unix seconds; ``id`` is a hash."""

    id: str
    issuer: str
    client_id: str
    redirect_uri: str
    redirect_given: bool
    state: str
    scopes: list[str]
    challenge: str
    sign_in_again: bool
    created_at: float
    expires_at: float


@dataclass(frozen=True, slots=True)
class CodeRecord:
    """An authorization code. ``id`` is its hash, ``client`` the hash of the client's id."""

    id: str
    grant: str
    client: str
    issuer: str
    redirect_uri: str
    redirect_given: bool
    challenge: str
    expires_at: float
    kept_until: float
    """So long after its end a second use is still recognised as one."""
    used_at: float | None = None


class AuthorizationStore:
    """Pending authorizations and codes."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def add_pending(self, pending: PendingAuthorization) -> None:
        """Keep a request until the person decides."""
        await self._control.write(lambda writing: writing.run(ADD_PENDING, record=asdict(pending)))

    async def find_pending(self, key: str, now: float) -> PendingAuthorization | None:
        """The request, None when it was decided, has expired or never was."""
        rows = await self._control.read(FIND_PENDING, id=key, now=now)
        return _pending(rows[0]["record"]) if rows else None

    async def take_pending(self, key: str, now: float) -> PendingAuthorization | None:
        """The request, decided from now on: of two decisions only the first finds it."""
        rows = await self._control.write(lambda writing: writing.run(TAKE_PENDING, id=key, now=now))
        return _pending(rows[0]["record"]) if rows else None

    async def add_code(self, code: CodeRecord) -> None:
        """Keep a code that is about to be sent to a client."""
        await self._control.write(
            lambda writing: writing.run(ADD_CODE, record={k: v for k, v in asdict(code).items() if v is not None})
        )

    async def find_code(self, key: str, *, client: str, issuer: str) -> CodeRecord | None:
        """The code, used or not; None when this client has no such code."""
        rows = await self._control.read(FIND_CODE, id=key, client=client, issuer=issuer)
        return _code(rows[0]["record"]) if rows else None

    async def redeem_code(self, code: CodeRecord, first: RefreshRecord, *, now: float) -> bool:
        """Use up a code and keep the refresh token that it gives, both or neither: an exchange that fails on the way
        can be tried again. False when the code was used before."""

        async def work(writing: Writing) -> bool:
            (row,) = await writing.run(USE_CODE, id=code.id, client=code.client, issuer=code.issuer, now=now)
            if row["used_before"] is not None:
                return False
            await writing.run(ADD_REFRESH, record={k: v for k, v in asdict(first).items() if v is not None})
            await writing.run(TOUCH, id=first.grant, now=now, expires_at=first.expires_at)
            return True

        return await self._control.write(work)

    async def use_code(self, key: str, *, client: str, issuer: str, now: float) -> tuple[CodeRecord, bool] | None:
        """Use up a code: the code and whether this was its first use; None when this client has no such code."""
        rows = await self._control.write(
            lambda writing: writing.run(USE_CODE, id=key, client=client, issuer=issuer, now=now)
        )
        return (_code(rows[0]["record"]), rows[0]["used_before"] is None) if rows else None

    async def sweep(self, now: float) -> None:
        """Remove what has expired, and the oldest open questions beyond :data:`MOST_PENDING`, in parts."""
        while await self._removed(SWEEP, now=now) >= PART:
            pass
        while await self._removed(TRIM, most=MOST_PENDING) >= PART:
            pass

    async def _removed(self, which: Statement, **parameters: Any) -> int:
        rows = await self._control.write(lambda writing: writing.run(which, **parameters))
        return int(rows[0]["gone"])


def _code(record: dict[str, Any]) -> CodeRecord:
    return CodeRecord(**{name: value for name, value in record.items() if name != "locked"})


def _pending(record: dict[str, Any]) -> PendingAuthorization:
    return PendingAuthorization(**{name: value for name, value in record.items() if name not in ("taken", "locked")})

"""What a failure of the database means to a caller: which to try again, and what to say about the rest.

Codes: Neo4j status codes, https://neo4j.com/docs/status-codes/current/errors/all-errors/.
"""

from __future__ import annotations

import random
from enum import StrEnum
from typing import Final

import structlog
from neo4j.exceptions import (
    AuthError,
    ConnectionAcquisitionTimeoutError,
    ConstraintError,
    DatabaseError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from app.errors import CallError, Conflict, DatabaseUnavailable, DeadlineExceeded, InternalError, Outcome, Overloaded

__all__ = [
    "DATABASE_FAILURES",
    "Again",
    "again",
    "backoff",
    "called_off",
    "commit_outcome",
    "is_shut_out",
    "translate",
    "unavailable",
]

DATABASE_FAILURES: Final = (Neo4jError, DriverError, OSError)
"""Everything that the driver raises for what happens outside this process."""

_TIMED_OUT: Final = "Neo.ClientError.Transaction.TransactionTimedOut"
_TOO_MUCH_MEMORY: Final = ("MemoryPoolOutOfMemoryError", "TransactionOutOfMemoryError", "OutOfMemoryError")
_TOO_MANY: Final = "Neo.TransientError.Transaction.MaximumTransactionLimitReached"
_SHUT_OUT: Final = "Neo.ClientError.Security.AuthenticationRateLimit"
"""Three wrong passwords, anybody's: for five seconds the server lets no new connection of that user in, right or wrong
(``dbms.security.auth_lock_time``)."""
_FIRST_DELAY: Final = 0.01
_LONGEST_DELAY: Final = 0.5

_log = structlog.get_logger(__name__)


class Again(StrEnum):
    """Whether a failed attempt may be repeated."""

    NEVER = "never"
    CONNECTION = "connection"
    """The connection was lost or refused: worth a short time, since a restart takes longer than a call may."""
    TRANSIENT = "transient"
    """The database asks for it (deadlock, lost race): worth the whole deadline."""


def again(error: Exception) -> Again:
    """Whether an attempt that failed with ``error`` before its commit may be repeated."""
    if isinstance(error, TransientError):
        return Again.NEVER if _is_memory(error) else Again.TRANSIENT
    if isinstance(error, ConnectionAcquisitionTimeoutError):
        return Again.NEVER
    if isinstance(error, (ServiceUnavailable, SessionExpired, OSError)) or is_shut_out(error):
        return Again.CONNECTION
    return Again.NEVER


def is_shut_out(error: Exception) -> bool:
    """Whether the server lets nobody in for some seconds, because of others' wrong passwords: waiting mends it."""
    return getattr(error, "code", None) == _SHUT_OUT


def backoff(attempt: int) -> float:
    """Seconds to wait before attempt ``attempt`` (the first repetition is 1), jittered so that rivals part."""
    longest = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def commit_outcome(error: BaseException) -> Outcome:
    """What is known of a transaction whose COMMIT failed with ``error``.

    A refusal by the server (constraint, deadlock) rolled it back; a lost connection leaves the answer open.
    """
    if isinstance(error, Neo4jError) and not isinstance(error, DatabaseError):
        return "not_applied"
    return "unknown"


def called_off(outcome: Outcome, *, writes: bool = False) -> DeadlineExceeded:
    """The error for a call whose time is over; ``writes``: it would have changed something."""
    if outcome == "unknown":
        return DeadlineExceeded(
            "the time for this call ended while the change was being committed; it may have been applied. "
            "Call again with the same idempotency_key to learn which",
            outcome=outcome,
        )
    if writes:
        return DeadlineExceeded(
            "the time for this call ended before its change was committed; nothing was applied. Try again with the "
            "same idempotency_key, a large batch in parts"
        )
    return DeadlineExceeded("the time for this call ended; nothing was applied. Narrow it or try again later")


def translate(
    error: Exception, *, outcome: Outcome, statement: str, request_id: str, writes: bool = False
) -> CallError:
    """The error that a caller gets for ``error``; the log gets the code, never parameters or the server's message."""
    code = str(getattr(error, "code", None) or type(error).__name__)
    failure = _translated(error, code, outcome, writes=writes)
    level = _log.error if isinstance(failure, InternalError) else _log.warning
    level("database_failure", code=code, statement=statement, request_id=request_id, outcome=outcome)
    return failure


def _translated(error: Exception, code: str, outcome: Outcome, *, writes: bool) -> CallError:
    if code.startswith(_TIMED_OUT):
        return called_off(outcome, writes=writes)
    if isinstance(error, ConstraintError):
        return Conflict("a record with this key exists already; nothing was applied", outcome=outcome)
    if isinstance(error, ConnectionAcquisitionTimeoutError) or code == _TOO_MANY:
        return Overloaded("the database is busy; try again shortly", outcome=outcome, retry_after_ms=1000)
    if isinstance(error, TransientError) and _is_memory(error):
        advice = "send it in parts" if writes else "narrow it"
        return Overloaded(f"the call needs more memory than one call may use; {advice}", outcome=outcome)
    if isinstance(error, TransientError):
        return Overloaded("other changes kept this one from finishing; try again", outcome=outcome, retry_after_ms=500)
    if isinstance(error, (ServiceUnavailable, SessionExpired, OSError, AuthError)) or is_shut_out(error):
        return unavailable(outcome)
    return InternalError("the database refused the call; the log has the cause", outcome=outcome)


def unavailable(outcome: Outcome) -> DatabaseUnavailable:
    """The error for a database that does not answer."""
    if outcome == "unknown":
        return DatabaseUnavailable(
            "the connection to the database was lost while the change was being committed; it may have been applied. "
            "Call again with the same idempotency_key to learn which",
            outcome=outcome,
            retry_after_ms=2000,
        )
    return DatabaseUnavailable(
        "the database cannot be reached; nothing was applied. Try again shortly", retry_after_ms=2000
    )


def _is_memory(error: Neo4jError) -> bool:
    return (error.code or "").endswith(_TOO_MUCH_MEMORY)

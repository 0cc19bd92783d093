"""What can go wrong, as one tree.

::

    GraphkeepError
    ├── CallError                 a call failed in a way its caller can act on (tool error, HTTP status beside it)
    │   ├── InvalidInput          the arguments break a rule that the message names
    │   ├── NotFound              no such record in what the caller may see
    │   ├── Forbidden             the role or the grant does not reach this far
    │   │   └── InsufficientScope the token lacks a scope that the person may grant (step-up)
    │   ├── Conflict              the same idempotency key with other arguments, or a state that rules the call out
    │   ├── QuotaExceeded         the tenant's quota is used up
    │   ├── RateLimited           the client's bucket is empty
    │   ├── Overloaded            no slot became free in time
    │   ├── DeadlineExceeded      the call's time is over
    │   ├── DatabaseUnavailable   the database cannot be reached
    │   ├── EmbeddingUnavailable  there is no model, or it does not answer
    │   └── InternalError         our fault; the log has the request id
    ├── ProtocolError             a malformed call: a JSON-RPC error, never a tool error
    ├── OAuthError                an OAuth error response (RFC 6749 §5.2), never a tool error
    └── StartError                the process must not start; carries the exit code

Messages never hold a tenant id, a path, a query or memory text.
"""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = [
    "CallError",
    "Conflict",
    "DatabaseUnavailable",
    "DeadlineExceeded",
    "EmbeddingUnavailable",
    "Forbidden",
    "GraphkeepError",
    "InsufficientScope",
    "InternalError",
    "InvalidInput",
    "NotFound",
    "OAuthError",
    "Outcome",
    "Overloaded",
    "ProtocolError",
    "QuotaExceeded",
    "RateLimited",
    "StartError",
]

Outcome = Literal["not_applied", "applied", "unknown"]


class GraphkeepError(Exception):
    """Root of every error that graphkeep raises on purpose."""


class CallError(GraphkeepError):
    """A failed call.

    ``reason`` is a stable word for programs, ``message`` a sentence for people and models that says what was wrong
    and what to do. ``outcome`` says whether anything was applied; ``retry_after_ms`` is a hint in milliseconds.
    """

    reason: ClassVar[str] = "failed"
    retryable: ClassVar[bool] = False
    status: ClassVar[int] = 400

    def __init__(self, message: str, *, outcome: Outcome = "not_applied", retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.outcome: Outcome = outcome
        self.retry_after_ms = retry_after_ms


class InvalidInput(CallError):
    """The arguments break a rule; ``field`` names the argument where there is one."""

    reason = "invalid_input"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NotFound(CallError):
    """No such record among those the caller may see. Says the same whether it never existed or is hidden."""

    reason = "not_found"
    status = 404


class Forbidden(CallError):
    """The role or the grant does not reach this far; the message names the remedy."""

    reason = "forbidden"
    status = 403


class InsufficientScope(Forbidden):
    """The token lacks ``scopes``, which the person could still grant (RFC 6750 §3.1, step-up)."""

    reason = "insufficient_scope"

    def __init__(self, message: str, *, scopes: frozenset[str]) -> None:
        super().__init__(message)
        self.scopes = scopes


class Conflict(CallError):
    """The request contradicts an earlier one or the present state."""

    reason = "conflict"
    status = 409


class QuotaExceeded(CallError):
    """The tenant's quota is used up; the message says which and how to raise it."""

    reason = "quota_exceeded"
    status = 429


class RateLimited(CallError):
    """The bucket of this (tenant, client) is empty; ``retry_after_ms`` says when it will not be."""

    reason = "rate_limited"
    retryable = True
    status = 429


class Overloaded(CallError):
    """Too much is under way; nothing of this call was begun."""

    reason = "overloaded"
    retryable = True
    status = 503


class DeadlineExceeded(CallError):
    """The call's time is over. For a write past its commit point ``outcome`` is ``unknown``."""

    reason = "deadline_exceeded"
    retryable = True
    status = 504


class DatabaseUnavailable(CallError):
    """The database cannot be reached, or lost the connection while it worked."""

    reason = "database_unavailable"
    retryable = True
    status = 503


class EmbeddingUnavailable(CallError):
    """No embedding model answers; everything but vectors goes on working."""

    reason = "embedding_unavailable"
    retryable = True
    status = 503


class InternalError(CallError):
    """Our own fault. The message never carries the cause; the log does, under the request id."""

    reason = "internal_error"
    status = 500


class ProtocolError(GraphkeepError):
    """A malformed call. ``code`` is the JSON-RPC error code; ``id`` the request's, where one could be read."""

    def __init__(self, code: int, message: str, *, id: int | str | None = None, status: int = 400) -> None:  # noqa: A002
        super().__init__(message)
        self.code = code
        self.message = message
        self.id = id
        self.status = status


class OAuthError(GraphkeepError):
    """An OAuth error response: ``error`` is the registered code, ``description`` the sentence beside it."""

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        super().__init__(description)
        self.error = error
        self.description = description
        self.status = status


class StartError(GraphkeepError):
    """The process must not start. ``message`` says why and what to do; ``exit_code`` goes to the shell (sysexits.h)."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code

"""The last resort: an error that nobody answered becomes a 500 with the request id, and one line in the log."""

from __future__ import annotations

import traceback

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import problem
from app.edge.context import LATEST
from app.errors import CallError

__all__ = ["Errors", "frames"]

log = structlog.get_logger("graphkeep.edge")


def frames(error: BaseException) -> list[str]:
    """Where an error came from, innermost last, without its message: that may quote what a user stored."""
    return [f"{frame.filename}:{frame.lineno}:{frame.name}" for frame in traceback.extract_tb(error.__traceback__)][
        -12:
    ]


class Errors:
    """Answers what escaped. A :class:`CallError` keeps its status and sentence; anything else is our own fault."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, and answer for what went wrong."""
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched)
        except CallError as error:
            if started:
                raise
            headers = {} if error.retry_after_ms is None else {"retry-after": str(-(-error.retry_after_ms // 1000))}
            answer = problem(
                scope, error.status, error.reason, error.message, retryable=error.retryable, headers=headers
            )
            await answer(scope, receive, send)
        except Exception as error:
            caller = scope[LATEST].context.principal
            tenant = caller.tenant if caller else None
            log.error("unhandled error", tenant=tenant, error=type(error).__qualname__, frames=frames(error))
            if started:  # the stream is cut where it broke, so that nobody takes half an answer for a whole one
                raise
            message = "Something went wrong on our side; the log has this request id."
            await problem(scope, 500, "internal_error", message)(scope, receive, send)

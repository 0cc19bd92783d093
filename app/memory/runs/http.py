"""``GET /pending``: what waits for a run, for the hook that a device asks with when a session begins."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.layers import scope_for
from app.contract import Json
from app.edge.answers import json_answer, problem
from app.edge.context import context_of, with_context
from app.errors import InternalError
from app.memory.pending import pending
from app.memory.service import MemoryService

__all__ = ["PENDING", "PendingRoute", "Under"]

PENDING: Final = "/pending"


class Under:
    """Tells the stages behind which rules a plain request is under: those that they know by ``name``."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on."""
        await self.app(with_context(scope, context_of(scope).calling(self._name)), receive, send)


class PendingRoute:
    """Answers with counts of what the caller's layers show, and the last run and the present one."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one GET."""
        if scope["method"] not in {"GET", "HEAD"}:
            message = "This address takes GET only."
            answer = problem(scope, 405, "method_not_allowed", message, headers={"allow": "GET, HEAD"})
        else:
            answer = json_answer(200, await self._found(Request(scope)))
        await answer(scope, receive, send)

    async def _found(self, request: Request) -> Json:
        context = context_of(request.scope)
        if context.principal is None or context.deadline is None:
            raise InternalError("a request came past the stages that let it in")
        partition = scope_for(context.principal, None, writes=False)
        control = self._service.database.control.until(context.deadline, context.request_id)
        waiting = await pending(control, partition)
        cooldown = self._service.behaviour(context.principal).dream_cooldown_hours
        return {
            "ok": True,
            **waiting.work(),
            "strange_transcripts": waiting.queue.strange_transcripts,
            "cooldown_hours": cooldown,
        }

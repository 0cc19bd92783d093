"""``GET /pending``: what waits for a run, for the hook that a device asks with when a session begins."""

from __future__ import annotations

import time
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
from app.store.control.runs import RunStore

__all__ = ["PENDING", "PendingRoute", "Under"]

PENDING: Final = "/pending"
_MINUTE: Final = 60_000


class Under:
    """Tells the stages behind which rules a plain request is under: those that they know by ``name``."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on."""
        await self.app(with_context(scope, context_of(scope).calling(self._name)), receive, send)


class PendingRoute:
    """Answers with counts of what the caller's layers show, and the last and present run."""

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
        waiting, now = await pending(control, partition), int(time.time() * 1000)
        under_way = await RunStore(control).running(partition.tenant, partition.layers, now)
        running = None
        if under_way is not None and under_way.kind != "capture":
            minutes = max(0, now - under_way.begun_at) // _MINUTE
            # Every member's session begins with this line: nothing that another member worded stands in it.
            running = {"source": under_way.kind, "minutes": minutes}
        cooldown = self._service.behaviour(context.principal).dream_cooldown_hours
        return {
            "ok": True,
            **waiting.work(),
            "strange_transcripts": waiting.queue.strange_transcripts,
            "cooldown_hours": cooldown,
            "running": running,
        }

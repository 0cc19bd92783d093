"""``/healthz``: the process is alive. ``/readyz``: it can serve, or what is missing, in words without secrets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.edge.answers import json_answer, problem

__all__ = ["Check", "Finding", "Health"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. ``required``: without it the process is not ready; otherwise it is only said."""

    ok: bool
    reason: str
    required: bool = True


Check = Callable[[], Awaitable[Finding]]


class Health:
    """ASGI app of the two probes."""

    def __init__(self, checks: Mapping[str, Check], *, stopping: Callable[[], bool]) -> None:
        self._checks = dict(checks)
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a probe."""
        if scope["method"] not in {"GET", "HEAD"}:
            answer = problem(
                scope, 405, "method_not_allowed", "Probes are read by GET.", headers={"allow": "GET, HEAD"}
            )
        elif scope["path"] == "/healthz":
            answer = json_answer(200, {"status": "alive"})
        else:
            answer = await self._readiness()
        await answer(scope, receive, send)

    async def _readiness(self) -> Response:
        findings = {name: await check() for name, check in self._checks.items()}
        ready = not self._stopping() and all(found.ok or not found.required for found in findings.values())
        body = {
            "ready": ready,
            "stopping": self._stopping(),
            "checks": {name: {"ok": found.ok, "reason": found.reason} for name, found in findings.items()},
        }
        return json_answer(200 if ready else 503, body, {} if ready else {"retry-after": "2"})

"""From a verified envelope to the handler of a tool, and back to a result envelope."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from mcp_types import INVALID_PARAMS
from pydantic import ValidationError

from app.access.layers import refuse_unreachable, require_scope, scope_for
from app.context import Deadline, Principal, RequestContext
from app.contract import Arguments, Call, Progress, Tool, ToolsetName
from app.errors import CallError, DeadlineExceeded, InternalError, ProtocolError
from app.protocol.arguments import arguments_digest, validated
from app.protocol.envelope import Envelope
from app.protocol.registry import Registry
from app.protocol.result import RESULT_CHARACTERS, Answer, TooLarge, failure, success, unexpected

__all__ = ["Dispatcher"]

GRACE: Final = 0.5
"""Seconds after the deadline in which a handler may still give its own, better informed, answer."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Work:
    """One call with all that its handler needs."""

    tool: Tool
    call: Call
    arguments: Arguments


class Dispatcher:
    """Runs tools. ``services`` holds the service object of each toolset.

    ``check_results`` holds every result against the tool's output model: for tests, since a result that breaks its
    own schema is refused by clients.
    """

    def __init__(
        self,
        registry: Registry,
        services: Mapping[ToolsetName, Any],
        *,
        result_characters: int = RESULT_CHARACTERS,
        check_results: bool = False,
    ) -> None:
        self._registry = registry
        self._services = services
        self._characters = result_characters
        self._check = check_results

    async def call(self, envelope: Envelope, context: RequestContext, progress: Progress) -> Answer:
        """Run the tool that the envelope names; a failed call is a result too.

        Raises:
            ProtocolError: there is no such tool (-32602, as the specification has it).
        """
        tool = self._registry.get(envelope.tool or "")
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, "unknown tool; tools/list names those that exist", id=envelope.id)
        try:
            return await self._answered(tool, envelope.arguments, context, progress)
        except CallError as error:
            return failure(error, toolset=tool.toolset)
        except Exception as error:  # noqa: BLE001 - the last line before the wire: nothing of it may reach the caller
            _log_fault(tool, context, error)
            return failure(unexpected(context.request_id, writes=not tool.read_only), toolset=tool.toolset)

    async def _answered(
        self, tool: Tool, arguments: Mapping[str, Any], context: RequestContext, progress: Progress
    ) -> Answer:
        principal, deadline = _admitted(context)
        refuse_unreachable(tool, principal)
        require_scope(tool, principal)
        given = validated(tool, arguments, self._registry.input_schema(tool.name) or {})
        writes = not tool.read_only
        call = Call(
            tool=tool.name,
            request_id=context.request_id,
            principal=principal,
            scope=scope_for(principal, getattr(given, "layers", None), writes=writes),
            deadline=deadline,
            progress=progress,
            arguments_digest=arguments_digest(arguments) if writes else "",
        )
        return await self._wrapped(_Work(tool, call, given))

    async def _wrapped(self, work: _Work) -> Answer:
        result = await self._run(work)
        if not work.tool.read_only:
            return _written(result, self._characters)
        pages = {"cursor", "limit"} <= work.tool.input.model_fields.keys()
        while pages:
            try:
                return success(result, limit=self._characters, cut=False)
            except TooLarge:
                smaller = _half(work.arguments)
                if smaller is None:
                    raise
            # Asked again with half the limit, so that the cursor goes on exactly where the shorter list ends.
            work = _Work(work.tool, work.call, smaller)
            result = {**await self._run(work), "truncated": True}
        return success(result, limit=self._characters)

    async def _run(self, work: _Work) -> Mapping[str, Any]:
        tool, call = work.tool, work.call
        if call.deadline.passed:
            raise DeadlineExceeded(f"no time was left to begin {tool.name}. Nothing was applied; try again.")
        with anyio.move_on_after(call.deadline.remaining() + GRACE) as net:
            result = await tool.run(self._services.get(tool.toolset), call, work.arguments)
        if net.cancelled_caught:
            raise _late(tool)
        if self._check:
            _hold_to_schema(tool, result)
        return result


def _admitted(context: RequestContext) -> tuple[Principal, Deadline]:
    if context.principal is None or context.deadline is None:
        raise LookupError("the call did not pass authentication and limits: the order of the pipeline is wrong")
    return context.principal, context.deadline


def _written(result: Mapping[str, Any], characters: int) -> Answer:
    """The result of a write, which was applied however long its report is."""
    try:
        return success(result, limit=characters)
    except TooLarge:
        return success({"truncated": True, "message": "applied; the report is too long to send"}, limit=characters)


def _half(arguments: Arguments) -> Arguments | None:
    limit = getattr(arguments, "limit", None)
    if not isinstance(limit, int) or limit <= 1:
        return None
    return arguments.model_copy(update={"limit": limit // 2})


def _late(tool: Tool) -> DeadlineExceeded:
    if tool.read_only:
        return DeadlineExceeded(f"{tool.name} took too long; ask for less, or try again. Nothing was changed.")
    return DeadlineExceeded(
        f"{tool.name} took too long, and whether it was applied is unknown; the same call with the same "
        "idempotency_key is safe to repeat, else read before you write again.",
        outcome="unknown",
    )


def _hold_to_schema(tool: Tool, result: Mapping[str, Any]) -> None:
    try:
        tool.output.model_validate(dict(result))
    except ValidationError as error:
        broken = [(".".join(map(str, found["loc"])), found["type"]) for found in error.errors()]
        raise InternalError(f"{tool.name} answered what its output schema does not allow: {broken}") from None


def _log_fault(tool: Tool, context: RequestContext, error: Exception) -> None:
    # The frames, never the text: an exception's message may quote arguments or memory.
    frames = traceback.extract_tb(error.__traceback__)
    log.error(
        "tool_failed",
        tenant=context.principal.tenant if context.principal else None,
        request_id=context.request_id,
        tool=tool.name,
        error=type(error).__qualname__,
        at=[f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
    )

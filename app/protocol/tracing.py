"""Spans around protocol messages, free of what callers and tenants say.

Takes the place of the SDK's own middleware, which records the text of exceptions and lets callers choose span names.
Attribute names follow OpenTelemetry's conventions for MCP and generative AI.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanKind, StatusCode

__all__ = ["Tracing"]


class Tracing:
    """One span a message; without an OpenTelemetry SDK it costs next to nothing."""

    def __init__(self, *, methods: Container[str], tools: Container[str]) -> None:
        self._methods = methods
        self._tools = tools
        self._tracer = trace.get_tracer("graphkeep.protocol")

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Run the rest inside a span."""
        # Names that are not ours are left out: a caller must not choose how many series there are.
        method = ctx.method if ctx.method in self._methods else "other"
        name = (ctx.params or {}).get("name") if method == "tools/call" else None
        tool = name if isinstance(name, str) and name in self._tools else None
        attributes = {"mcp.method.name": method, "mcp.protocol.version": ctx.protocol_version}
        if tool is not None:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        with self._tracer.start_as_current_span(
            f"{method} {tool}" if tool else method,
            context=_parent(ctx),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                result = await call_next(ctx)
            except Exception as error:
                kind = str(error.error.code) if isinstance(error, MCPError) else type(error).__qualname__
                span.set_attribute("error.type", kind)
                span.set_status(StatusCode.ERROR)
                raise
            if isinstance(result, dict) and result.get("isError") is True:
                span.set_attribute("error.type", "tool_error")
                span.set_status(StatusCode.ERROR)
            return result


def _parent(ctx: ServerRequestContext[Any, Any]) -> Any:
    """The caller's trace, where it gave one in ``_meta`` (SEP-414); else that of the HTTP request."""
    carrier = {key: value for key, value in (ctx.meta or {}).items() if isinstance(value, str)}
    return extract(carrier) if "traceparent" in carrier else None

"""Spans around protocol messages, free of what callers and tenants say.

Takes the place of the SDK's own middleware, which records the text of exceptions and lets callers choose span names.
Attribute names follow OpenTelemetry's conventions for MCP and generative AI.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from opentelemetry import trace
from opentelemetry.propagate import extract
from opentelemetry.trace import Span, SpanKind, StatusCode

__all__ = ["Tracing"]

METHODS: Final = frozenset({"initialize", "server/discover", "tools/list", "tools/call", "ping"})


class Tracing:
    """One span a message; without an OpenTelemetry SDK it costs next to nothing. ``tools`` are the names we know."""

    def __init__(self, tools: Mapping[str, Any]) -> None:
        self._tools = tools
        self._tracer = trace.get_tracer("graphkeep.protocol")

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Run the rest of the SDK's chain inside a span."""
        name = (ctx.params or {}).get("name") if ctx.method == "tools/call" else None
        with self.span(ctx.method, name, version=ctx.protocol_version, meta=ctx.meta or {}) as span:
            result = await call_next(ctx)
            if isinstance(result, dict) and result.get("isError") is True:
                self.failed(span)
            return result

    @contextmanager
    def span(self, method: str, tool: object, *, version: str | None, meta: Mapping[str, Any]) -> Iterator[Span]:
        """A span around one message. Names that are not ours are left out: no caller chooses how many series exist."""
        method = method if method in METHODS else "other"
        attributes = {"mcp.method.name": method, "mcp.protocol.version": version or ""}
        known = tool if isinstance(tool, str) and tool in self._tools else None
        if known is not None:
            attributes |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": known}
        with self._tracer.start_as_current_span(
            f"{method} {known}" if known else method,
            context=_parent(meta),
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                kind = str(error.error.code) if isinstance(error, MCPError) else type(error).__qualname__
                self.failed(span, kind)
                raise

    @staticmethod
    def failed(span: Span, kind: str = "tool_error") -> None:
        """Mark a span as failed, without words."""
        span.set_attribute("error.type", kind)
        span.set_status(StatusCode.ERROR)


def _parent(meta: Mapping[str, Any]) -> Any:
    """The caller's trace, where it gave one in ``_meta`` (SEP-414); else that of the HTTP request."""
    if not isinstance(meta.get("traceparent"), str):
        return None
    return extract({key: value for key, value in meta.items() if isinstance(value, str)})

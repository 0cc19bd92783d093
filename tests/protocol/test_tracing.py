from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from app.protocol import tracing
from tests.protocol.conftest import LEGACY, MODERN, Gateway, open_gateway


class Recorded(NonRecordingSpan):
    """A span that keeps what it is told."""

    def __init__(self, name: str, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(1)))
        self.name = name
        self.attributes = dict(attributes)
        self.said: list[Any] = []
        self.status: StatusCode | None = None

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self.status = status if isinstance(status, StatusCode) else status.status_code
        if description:
            self.said.append(description)

    def record_exception(self, exception: BaseException, *_: Any, **__: Any) -> None:
        self.said.append(exception)


class Tracer:
    def __init__(self) -> None:
        self.spans: list[Recorded] = []
        self.parents: list[Any] = []

    @contextmanager
    def start_as_current_span(self, name: str, *, context: Any, attributes: dict[str, Any], **_: Any) -> Iterator[Span]:
        self.spans.append(Recorded(name, attributes))
        self.parents.append(context)
        yield self.spans[-1]


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    found = Tracer()
    monkeypatch.setattr(tracing.trace, "get_tracer", lambda _: found)
    return found


async def each_way(gateway: Gateway, name: str, arguments: dict[str, Any]) -> None:
    """The straight way and the SDK's, in both eras."""
    for era in (MODERN, LEGACY):
        await gateway.call(name, arguments, era=era)
        body = gateway.request("tools/call", era=MODERN, name=name, arguments=arguments, meta={"progressToken": 1})
        await gateway.post(body, era=era)


async def test_a_span_names_the_tool_and_keeps_no_word_of_a_fault(tracer: Tracer) -> None:
    async with open_gateway() as gateway:
        await each_way(gateway, "fail", {"text": "tenant words"})
    assert [span.name for span in tracer.spans] == ["tools/call fail"] * 4
    assert all(span.attributes["error.type"] == "tool_error" for span in tracer.spans)
    assert all(span.status is StatusCode.ERROR for span in tracer.spans)
    assert "tenant words" not in repr([(span.said, span.attributes) for span in tracer.spans])


async def test_a_caller_cannot_choose_the_name_of_a_span(tracer: Tracer) -> None:
    async with open_gateway() as gateway:
        await each_way(gateway, "made-up-tool", {})
        await gateway.post(gateway.request("made/up"))
    assert {span.name for span in tracer.spans} == {"tools/call", "other"}
    assert "made" not in repr([(span.said, span.attributes) for span in tracer.spans])


async def test_a_call_joins_the_trace_of_its_caller(tracer: Tracer) -> None:
    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    async with open_gateway() as gateway:
        for meta in (parent, {**parent, "progressToken": 1}, {}, {"traceparent": 5}):
            await gateway.post(gateway.request("tools/call", name="echo", arguments={"text": "x"}, meta=meta))
    assert [context is not None for context in tracer.parents] == [True, True, False, False]
    assert [span.status for span in tracer.spans] == [None] * 4

"""What ``graphkeep stdio`` is made of, over the fixture tools; started by the tests as a program of its own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from app.context import Deadline, RequestContext
from app.contract import Call, Fill, Resource
from app.errors import RateLimited
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import Envelope
from app.protocol.offering import Offering
from app.protocol.registry import Registry
from app.protocol.stdio import LocalProtocol, standard_streams
from tests.protocol.fixture_tools import TOOLS, Service, principal


def identify() -> RequestContext:
    return RequestContext(request_id=uuid4().hex, address="stdio", principal=principal("ada"))


admitted: Counter[str | None] = Counter()


@asynccontextmanager
async def admit(envelope: Envelope, context: RequestContext) -> AsyncIterator[RequestContext]:
    admitted[context.tool] += 1
    once_more = envelope.tool is None and admitted[context.tool] > 1
    if once_more or envelope.arguments.get("text") == "too many":
        raise RateLimited("too many calls; wait a second", retry_after_ms=1000)
    yield context.due(Deadline.after(10))


async def seconds(_: Any, call: Call, __: str) -> str:
    return f"{call.deadline.remaining():.0f} seconds"


async def nobody(*_: Any) -> list[str]:
    return []


OFFERING = Offering(
    [],
    [
        Resource("time", "Time", "t", "graphkeep://time", "text/plain", "memory", "memory:read", seconds),
        Resource(
            "who", "Who", "w", "graphkeep://who/{id}", "text/plain", "memory", "memory:read", seconds, Fill.ENTITY
        ),
    ],
    {"memory": None},
    nobody,
)


async def main() -> None:
    registry, service = Registry(TOOLS), Service()
    service.release.set()
    dispatcher = Dispatcher(registry, {"memory": service, "ledger": service}, check_results=True)
    local = LocalProtocol(registry, dispatcher, OFFERING, identify=identify, admit=admit)
    async with standard_streams() as (reader, writer):
        print("a stray print")
        await local.serve(reader, writer)


if __name__ == "__main__":
    asyncio.run(main())

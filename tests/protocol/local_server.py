"""What ``graphkeep stdio`` is made of, over the fixture tools; started by the tests as a program of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

from app.context import Deadline, RequestContext
from app.errors import RateLimited
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import Envelope
from app.protocol.registry import Registry
from app.protocol.stdio import LocalProtocol, standard_streams
from tests.protocol.fixture_tools import TOOLS, Service, principal


def identify() -> RequestContext:
    return RequestContext(request_id=uuid4().hex, address="stdio", principal=principal("ada"))


@asynccontextmanager
async def admit(envelope: Envelope, context: RequestContext) -> AsyncIterator[RequestContext]:
    if envelope.arguments.get("text") == "too many":
        raise RateLimited("too many calls; wait a second", retry_after_ms=1000)
    yield context.due(Deadline.after(10))


async def main() -> None:
    registry, service = Registry(TOOLS), Service()
    service.release.set()
    dispatcher = Dispatcher(registry, {"memory": service, "ledger": service}, check_results=True)
    local = LocalProtocol(registry, dispatcher, identify=identify, admit=admit)
    async with standard_streams() as (reader, writer):
        print("a stray print")
        await local.serve(reader, writer)


if __name__ == "__main__":
    asyncio.run(main())

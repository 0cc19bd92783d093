"""Uploads before a real server: one person's take up half of what their tenant may have at most."""

from __future__ import annotations

import asyncio

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.metrics import Metrics
from app.errors import CallError
from app.limits.limits import Limits
from app.limits.uploads import LimitUploads
from app.settings import LimitSettings
from tests.edge.conftest import Serve, until
from tests.limits.test_limit import TOOLS, signed_in


def upload(app: ASGIApp, limits: Limits) -> ASGIApp:
    limited = LimitUploads(app, limits=limits, tool=TOOLS["change"], metrics=Metrics())

    async def refused(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await limited(scope, receive, send)
        except CallError as error:
            await JSONResponse({"reason": error.reason}, status_code=error.status)(scope, receive, send)

    return signed_in(refused)


async def test_one_person_leaves_the_others_of_a_tenant_room_for_uploads(serve: Serve) -> None:
    limits, leave, inside = Limits(LimitSettings(queue_seconds=0.1), pool_size=50, uploads=4), asyncio.Event(), []

    async def held(scope: Scope, receive: Receive, send: Send) -> None:
        inside.append(scope["path"])
        await leave.wait()
        await JSONResponse({})(scope, receive, send)

    async with serve(upload(held, limits)) as server, server.client() as client:

        def put(subject: str, tenant: str = "t") -> asyncio.Task[int]:
            async def status() -> int:
                said = {"X-Subject": subject, "X-Tenant": tenant}
                return (await client.put("/ingest/x.md", content=b"x", headers=said)).status_code

            return asyncio.create_task(status())

        mallory = [put("mallory") for _ in range(4)]
        await until(lambda: sum(one.done() for one in mallory) == 2)
        assert [one.result() for one in mallory if one.done()] == [503, 503]
        others = [put("alice"), put("bob")]
        await until(lambda: len(inside) == 4)
        assert await put("carol") == 503  # four are the tenant's
        elsewhere = put("mallory", tenant="u")
        await until(lambda: len(inside) == 5)
        leave.set()
        assert [await one for one in (*others, elsewhere)] == [200, 200, 200]
        assert sorted([await one for one in mallory]) == [200, 200, 503, 503]
    assert (len(limits.senders), len(limits.uploads)) == (0, 0)

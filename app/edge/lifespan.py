"""The application as a server sees it: parts are opened, the pipeline is built on them, and all is closed in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Generic, TypeVar

from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import StartError

__all__ = ["Application", "beside"]

Parts = TypeVar("Parts")


@asynccontextmanager
async def beside(work: Coroutine[object, object, None], name: str) -> AsyncIterator[None]:
    """Run ``work`` beside the block, and cancel what is left of it at the end."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Application(Generic[Parts]):
    """An ASGI app whose pipeline exists while its parts are open.

    Opened either by the server's lifespan messages or by ``async with``; the latter lets a :class:`StartError` reach
    the caller with its exit code.
    """

    def __init__(
        self, opened: Callable[[], AbstractAsyncContextManager[Parts]], pipeline: Callable[[Parts], ASGIApp]
    ) -> None:
        self._opened = opened
        self._pipeline = pipeline
        self._open: AbstractAsyncContextManager[Parts] | None = None
        self._app: ASGIApp | None = None
        self.parts: Parts | None = None

    async def __aenter__(self) -> Parts:
        opened = self._opened()
        self.parts = await opened.__aenter__()
        self._open = opened
        self._app = self._pipeline(self.parts)
        return self.parts

    async def __aexit__(self, *error: object) -> None:
        opened, self._open, self._app = self._open, None, None
        if opened is not None:
            await opened.__aexit__(None, None, None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or live through the server's start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self._app is None:
            raise RuntimeError("the application is not open: run it with a lifespan, or inside `async with`")
        else:
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.__aenter__()
        except StartError as error:
            await send({"type": "lifespan.startup.failed", "message": error.message})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__()
        await send({"type": "lifespan.shutdown.complete"})

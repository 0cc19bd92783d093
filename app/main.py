"""The pipeline of a request, and the life of the process that serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp

from app.edge.context import through
from app.edge.lifespan import Application
from app.settings import Settings

__all__ = ["Services", "create_app"]


@dataclass(frozen=True)
class Services:
    """The opened parts that the stages stand on."""

    protocol: ASGIApp


def create_app(settings: Settings | None = None) -> Application[Services]:
    """The whole gateway: edge, authenticate, envelope, authorize, limits, protocol."""
    chosen = settings or Settings()

    def pipeline(services: Services) -> ASGIApp:
        # edge -> authenticate -> envelope -> authorize -> limits -> protocol: each stage is added as its room appears
        return through(to=services.protocol)

    return Application(lambda: opened(chosen), pipeline)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    """Open the parts in order, and close them in the opposite one."""
    raise NotImplementedError
    yield

"""Which app answers which path. No redirects between ``/x`` and ``/x/``: a redirected POST loses its authorization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from app.edge.answers import not_found
from app.edge.context import note_route

__all__ = ["Routes", "pages"]


class Routes:
    """``apps`` by exact path (a trailing slash is the same path), ``below`` by the first part of it, ``otherwise``."""

    def __init__(
        self,
        apps: Mapping[str, ASGIApp],
        *,
        below: Mapping[str, ASGIApp] | None = None,
        otherwise: ASGIApp = not_found,
    ) -> None:
        self._apps = dict(apps)
        self._below = dict(below or {})
        self._otherwise = otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request to its app."""
        path = scope["path"].rstrip("/")
        if path in self._apps:
            note_route(scope, path)
        app = self._apps.get(path) or self._below.get("/".join(path.split("/", 2)[:2]))
        if app is not None:  # the stages behind compare paths: they see one spelling only
            await app({**scope, "path": path}, receive, send)
        else:
            await self._otherwise(scope, receive, send)


def pages(routes: Sequence[Route]) -> ASGIApp:
    """The routes of a room, then 404."""
    router = Router(routes=routes, redirect_slashes=False, default=not_found)

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        found = next((route.path for route in routes if route.matches(scope)[0] is not Match.NONE), "")
        note_route(scope, found)
        await router(scope, receive, send)

    return noted

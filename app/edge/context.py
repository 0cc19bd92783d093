"""How the :class:`RequestContext` travels through the ASGI stages.

A stage passes on what it learnt in a copied ASGI scope; the caller's own scope never changes. The one exception is
:class:`Latest`, made per request by the outermost stage, so that the access log can name the tenant and client that a
stage further down found out, and the route that was taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Scope

from app.context import RequestContext

__all__ = ["CONTEXT", "LATEST", "Latest", "Stage", "context_of", "note_route", "through", "with_context"]

CONTEXT: Final = "graphkeep.context"
LATEST: Final = "graphkeep.latest"

Stage = Callable[[ASGIApp], ASGIApp]
"""What wraps the rest of the pipeline."""


class Latest:
    """The newest context and route of one request, for the stage that made it.

    ``route`` is a path as it was declared (``/ingest/{name}``), empty until one was found.
    """

    __slots__ = ("context", "route")

    def __init__(self, context: RequestContext) -> None:
        self.context = context
        self.route = ""


def context_of(scope: Scope) -> RequestContext:
    """The context of this request.

    Raises:
        LookupError: the stage that makes it has not run, which is an error of the pipeline's order.
    """
    context = scope.get(CONTEXT)
    if not isinstance(context, RequestContext):
        raise LookupError("no request context: the request id stage must come first")
    return context


def with_context(scope: Scope, context: RequestContext) -> Scope:
    """A copy of the ASGI scope that carries ``context``."""
    latest = scope.get(LATEST)
    if isinstance(latest, Latest):
        latest.context = context
    return {**scope, CONTEXT: context}


def note_route(scope: Scope, route: str) -> None:
    """Say which declared path the request has taken."""
    latest = scope.get(LATEST)
    if isinstance(latest, Latest):
        latest.route = route


def through(*stages: Stage, to: ASGIApp) -> ASGIApp:
    """The app ``to`` behind ``stages``, the first one outermost."""
    app = to
    for stage in reversed(stages):
        app = stage(app)
    return app

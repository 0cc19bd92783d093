"""The edge in its order, the outermost stage first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from app.edge.access_log import AccessLog
from app.edge.admission import Admission, LoopLag
from app.edge.answers import overloaded
from app.edge.body_limit import SECONDS, BodyLimit
from app.edge.context import Stage
from app.edge.drain import Drain, InFlight
from app.edge.errors import Errors
from app.edge.host import PROBES, Host
from app.edge.metrics import Measured, Metrics
from app.edge.origin import Origin
from app.edge.proxies import Proxies
from app.edge.request_id import RequestId
from app.edge.security_headers import SecurityHeaders
from app.settings import Settings

__all__ = ["Instruments", "edge"]

INGEST_BODY: Final = 6 * 1024 * 1024
"""Largest body of ``graph_ingest``: a document of 2 MB in base64, and JSON's escapes (design §8)."""


FORM_BYTES: Final = 1024 * 1024
"""What a form may have around its files."""

PAGE_SECONDS: Final = 5.0
"""For the body of a form or a request to the authorization server: small, and from whoever comes."""


@dataclass(frozen=True)
class Instruments:
    """What the edge measures and keeps of the requests under way."""

    metrics: Metrics = field(default_factory=Metrics)
    drain: Drain = field(default_factory=Drain)
    lag: LoopLag = field(default_factory=LoopLag)

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[Instruments]:
        """Measure the event loop for as long as the block lasts."""
        async with self.lag.measured():
            self.metrics.lag.set_function(lambda: self.lag.seconds)
            yield self


PATIENT: Final = frozenset({"/token"})
"""Clients ask for tokens once: one whose refresh is turned away sends its person to sign in again."""


def edge(settings: Settings, instruments: Instruments) -> tuple[Stage, ...]:
    """The stages that each request passes first, whoever sent it."""
    origins = (*settings.addresses, *settings.edge.allowed_origins)
    limits = settings.limits
    return (
        RequestId,
        partial(Measured, metrics=instruments.metrics),
        AccessLog,
        SecurityHeaders,
        Errors,
        partial(Proxies, trusted=settings.edge.trusted_proxies),
        partial(
            Admission,
            open_requests=limits.open_requests,
            lag=instruments.lag,
            refuse=overloaded,
            exempt=PROBES,
            patient=PATIENT,
        ),
        partial(InFlight, drain=instruments.drain),
        partial(Host, addresses=settings.addresses),
        partial(Origin, allowed=origins),
        partial(BodyLimit, limit_of=partial(_largest_body, settings), seconds_of=partial(_body_seconds, settings)),
    )


def _body_seconds(settings: Settings, scope: Scope) -> float:
    if _is_upload(scope):
        return settings.ingest.upload_seconds
    return SECONDS if _is_mcp(scope) else PAGE_SECONDS


def _is_upload(scope: Scope) -> bool:
    return f"{scope['path']}/".startswith("/ingest/")


def _is_mcp(scope: Scope) -> bool:
    path: str = scope["path"]
    return path.rstrip("/") == "/mcp"


def _largest_body(settings: Settings, scope: Scope) -> int:
    if _is_upload(scope):
        return settings.ingest.ingest_file_bytes + FORM_BYTES
    if not _is_mcp(scope):
        return settings.edge.oauth_body_limit
    if Headers(scope=scope).get("mcp-name") == "graph_ingest":
        return max(settings.edge.body_limit, INGEST_BODY)
    return settings.edge.body_limit

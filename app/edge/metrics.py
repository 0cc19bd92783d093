"""Prometheus metrics: counted per application, served on a loopback port of their own, never on a public listener."""

from __future__ import annotations

import time
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.edge.answers import not_found, problem

__all__ = ["Measured", "Metrics"]

BUCKETS: Final = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30, 120)
ROUTES: Final = (
    *("mcp", ".well-known", "authorize", "token", "register", "revoke", "introspect"),
    *("consent", "sign-in", "console", "healthz", "readyz", "ingest", "exports", "pending"),
)
LOOPBACK: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})
"""Names under which the metrics are asked for; any other is a page that had its own name lead here (DNS rebinding)."""
METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class Metrics:
    """The numbers of one application, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "graphkeep_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "graphkeep_request_seconds", "Time of a request.", ("route",), buckets=BUCKETS, registry=self.registry
        )
        self.open = Gauge("graphkeep_open_requests", "Requests under way.", registry=self.registry)
        self.calls = Counter(
            "graphkeep_tool_calls", "Tool calls let through, by tool.", ("tool",), registry=self.registry
        )
        self.refused = Counter(
            "graphkeep_refused", "Calls refused by limits, by reason.", ("reason",), registry=self.registry
        )
        self.lag = Gauge("graphkeep_loop_lag_seconds", "How late the event loop runs.", registry=self.registry)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI app of the metrics listener: ``GET /metrics``."""
        if scope["type"] != "http":
            return
        if dict(scope["headers"]).get(b"host", b"").lower().removesuffix(_port(scope)) not in LOOPBACK:
            await problem(scope, 421, "misdirected", "Metrics are at localhost alone.")(scope, receive, send)
        elif scope["path"] == "/metrics" and scope["method"] in {"GET", "HEAD"}:
            text = generate_latest(self.registry)
            await Response(text, headers={"content-type": CONTENT_TYPE_LATEST})(scope, receive, send)
        else:
            await not_found(scope, receive, send)


def _port(scope: Scope) -> bytes:
    server = scope.get("server")
    return b":%d" % server[1] if server else b""


class Measured:
    """Counts and times requests under labels that are bounded whatever clients send."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Go on, then count."""
        began = time.perf_counter()
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        self._metrics.open.inc()
        try:
            await self.app(scope, receive, watched)
        finally:
            self._metrics.open.dec()
            route = route_of(scope["path"])
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.requests.labels(route, method, str(status)).inc()
            self._metrics.seconds.labels(route).observe(time.perf_counter() - began)


def route_of(path: str) -> str:
    """The first part of a known path, ``other`` for all else."""
    first = path.lstrip("/").partition("/")[0]
    return first if first in ROUTES else "other"

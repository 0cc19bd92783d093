"""The log: one JSON object a line on standard error, other libraries' lines included."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

from app.edge.errors import frames

__all__ = ["configure"]

QUIET: Final = {
    "neo4j": logging.ERROR,  # its debug lines and notifications quote statements
    "uvicorn.access": logging.CRITICAL,  # ours has the request id and no query
    "httpx2": logging.WARNING,
    "httpx": logging.WARNING,
    "mcp": logging.WARNING,
}


def configure(level: str) -> None:
    """Send everything to standard error as JSON, from ``level`` on."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _without_messages(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Put the kind and place of an exception where its text would be: that may quote what a user stored."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["error"] = type(error).__qualname__
        event["frames"] = frames(error)
    return event

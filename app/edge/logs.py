"""The log: one JSON object a line on standard error, other libraries' lines included."""

from __future__ import annotations

import logging
import sys
from typing import Any, BinaryIO, Final, TextIO, cast

import orjson
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


class _StandardError:
    """Bytes to whatever standard error is now."""

    def write(self, line: bytes) -> None:
        """Write a line."""
        sys.stderr.buffer.write(line)

    def flush(self) -> None:
        """Send it off."""
        sys.stderr.buffer.flush()


def configure(level: str) -> None:
    """Send everything to standard error as JSON, from ``level`` on.

    Our own lines go there directly: through ``logging`` the one line of each request would cost a third of the edge.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _without_messages,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(serializer=_line)],
        logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _StandardError())),
        wrapper_class=structlog.make_filtering_bound_logger(number),
        cache_logger_on_first_use=False,  # a cached logger would not see a later configuration, as tests make them
    )
    handler = _Foreign()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(number)
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(least)


class _Foreign(logging.StreamHandler[TextIO]):
    """Lines of other libraries, to whatever standard error is now."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self.stream = sys.stderr
        super().emit(record)


def _line(event: dict[str, Any], **_options: Any) -> bytes:
    return orjson.dumps(event, default=str)


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

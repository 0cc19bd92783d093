"""A Neo4j server as a managed child process (placeholder signature until the process part lands)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from app.errors import StartError

__all__ = ["EmbeddedServer", "ServerAddress"]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens and how to get in."""

    uri: str
    user: str
    password: str = field(repr=False)


class EmbeddedServer:
    """The server of one home folder."""

    def __init__(
        self,
        home: Path,
        *,
        port: int | None = None,
        heap: str = "1g",
        page_cache: str = "256m",
        engine_cache: Path | None = None,
    ) -> None:
        self._home = home

    async def start(self, progress: Callable[[str], None]) -> ServerAddress:
        """Start it."""
        raise StartError("the managed database is not built yet")

    async def stop(self) -> None:
        """Stop it."""

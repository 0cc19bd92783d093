"""Where graphkeep runs, what its edge accepts, and its database."""

from __future__ import annotations

import hashlib
import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr

from app.settings.room import CommaList, Room, either

__all__ = ["EdgeSettings", "RunSettings", "StoreSettings"]


class RunSettings(Room):
    """Where graphkeep lives and listens on this machine."""

    home: Path = Field(
        default=Path("~/.graphkeep"),
        validation_alias=either("GRAPHKEEP_HOME", "GRAPH_MEMORY_HOME"),
        description="Folder for the database, keys, caches and certificates.",
    )
    http_port: int = Field(
        default=8080,
        ge=1,
        le=65535,
        validation_alias=either("GRAPHKEEP_HTTP_PORT", "MCP_PORT", "GRAPH_MCP_HTTP_PORT"),
        description="Plain port on the loopback interface.",
    )
    https_port: int = Field(default=8443, ge=1, le=65535, description="Port at which Caddy serves HTTPS.")
    socket: Path | None = Field(
        default=None,
        description="Unix socket at which Caddy reaches the gateway; unset: `run/gateway.sock` in the home folder.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line logged."
    )
    stop_seconds: float = Field(default=10.0, gt=0, le=120, description="Longest time that stopping may take, seconds.")

    @cached_property
    def folder(self) -> Path:
        """The home folder, absolute."""
        return self.home.expanduser().absolute()

    def tenant_folder(self, data: str) -> Path:
        """Where the files of the tenant with this data id lie: exports and what it was sent."""
        return self.folder / "tenants" / data

    @cached_property
    def socket_path(self) -> Path:
        """The Unix socket, absolute; a name that the system would refuse (108 bytes) moves to the temporary folder."""
        path = (self.socket or self.folder / "run" / "gateway.sock").expanduser().absolute()
        if len(os.fsencode(path)) < 100:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"graphkeep-{os.getuid()}-{digest}" / "gateway.sock"


class EdgeSettings(Room):
    """What the edge accepts."""

    public_urls: CommaList = Field(
        default=(),
        validation_alias=either("GRAPHKEEP_PUBLIC_URLS", "OAUTH_ISSUER"),
        description="Public base addresses, comma-separated, each its own issuer. Default: the two local ones.",
    )
    allowed_origins: CommaList = Field(
        default=("https://claude.ai", "https://claude.com", "https://chatgpt.com", "https://vscode.dev"),
        description="Web origins, besides the public addresses, whose pages may call the gateway.",
    )
    trusted_proxies: CommaList = Field(
        default=(),
        description="Addresses or networks whose forwarded headers are believed (the Unix socket always is).",
    )
    body_limit: int = Field(default=4 * 1024 * 1024, ge=1024, description="Largest request body, bytes.")
    oauth_body_limit: int = Field(
        default=64 * 1024, ge=1024, description="Largest body at OAuth endpoints and pages, bytes."
    )
    metrics_port: int | None = Field(default=None, description="Loopback port for /metrics; unset: not served.")


class StoreSettings(Room):
    """The database."""

    neo4j_uri: str | None = Field(
        default=None,
        validation_alias=either("NEO4J_URI", "GRAPHKEEP_NEO4J_URI"),
        description="Bolt address of an external Neo4j 2026.02 or newer; unset: a managed child process.",
    )
    neo4j_user: str = Field(
        default="neo4j",
        validation_alias=either("NEO4J_USER", "NEO4J_USERNAME", "GRAPHKEEP_NEO4J_USER"),
        description="Database user.",
    )
    neo4j_password: SecretStr | None = Field(
        default=None,
        validation_alias=either("NEO4J_PASSWORD", "GRAPHKEEP_NEO4J_PASSWORD"),
        description="Password; required for an external database.",
    )
    neo4j_database: str = Field(
        default="neo4j",
        validation_alias=either("NEO4J_DATABASE", "GRAPHKEEP_NEO4J_DATABASE"),
        description="Database name.",
    )
    pool_size: int = Field(default=50, ge=2, le=400, description="Largest number of database connections.")
    heap: str = Field(default="1g", pattern=r"^\d+[mg]$", description="Heap of the managed database.")
    page_cache: str = Field(default="256m", pattern=r"^\d+[mg]$", description="Page cache of the managed database.")
    engine_cache: Path | None = Field(
        default=None,
        description="Folder of the managed database's program, shareable between homes; unset: `engine` in the home.",
    )
    plan_ahead: bool = Field(default=True, description="Plan the tools' statements at start, before the first call.")
    undo_days: int = Field(
        default=30, ge=1, le=3650, description="Time in which a merge, a deletion or the like can be undone, days."
    )
    undo_bytes: int = Field(
        default=2**28, ge=2**24, description="Bytes of a tenant's undo records; the oldest go first."
    )

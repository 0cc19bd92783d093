"""How much may be done, and how long it may take."""

from __future__ import annotations

from pydantic import Field, SecretStr

from app.config_file import Configured
from app.settings.room import Room

__all__ = ["LimitSettings"]


class LimitSettings(Configured, Room):
    """How much a tenant or client may do, and how long a call may take."""

    redis_url: SecretStr | None = Field(
        default=None, description="Redis for limits shared by several processes; unset: in process."
    )
    calls_per_minute: float = Field(
        default=120, gt=0, description="Tokens that a (tenant, client) bucket gains a minute."
    )
    burst: int = Field(
        default=20,
        ge=1,
        description="Tokens that a bucket holds at most. A call begins with 5; what it costs beyond is owed.",
    )
    concurrent_reads: int = Field(default=8, ge=1, description="Reads of one tenant under way at once.")
    concurrent_writes: int = Field(default=4, ge=1, description="Writes of one tenant under way at once.")
    concurrent_whole_graph: int = Field(
        default=1, ge=1, description="Whole-graph calls of one tenant under way at once."
    )
    queue_seconds: float = Field(default=1.0, ge=0, description="Longest wait for a free slot, seconds.")
    open_requests: int = Field(
        default=1000,
        ge=1,
        description="Requests under way in one process before new ones are refused; a quarter of them may be for "
        "pages, sign-in and tokens.",
    )
    read_seconds: float = Field(default=15, gt=0, description="Deadline of a read, seconds.")
    semantic_seconds: float = Field(default=30, gt=0, description="Deadline of a semantic search, seconds.")
    write_seconds: float = Field(default=15, gt=0, description="Deadline of a write, seconds: 10 + 3 + 1 + 1.")
    cypher_seconds: float = Field(default=5, gt=0, description="Deadline of a raw Cypher read, seconds.")
    whole_graph_seconds: float = Field(default=120, gt=0, description="Deadline of a whole-graph call, seconds.")
    result_characters: int = Field(default=60_000, ge=1000, description="Largest result of a tool, characters.")
    quota_entities: int = Field(default=200_000, ge=1, description="Entities of one tenant.")
    quota_relations: int = Field(default=2_000_000, ge=1, description="Relations of one tenant.")
    exports_kept: int = Field(
        default=14, ge=1, le=30, description="Newest graph_export files of one person that stay, unless a call says."
    )
    export_days: int = Field(
        default=0, ge=0, le=36_500, description="Days after which an export goes, however few there are; 0: never."
    )

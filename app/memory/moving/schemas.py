"""What the tools that move memory out take and answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from app.contract import WriteArguments

__all__ = ["ExportAnswer", "ExportInput"]


class ExportInput(WriteArguments):
    """Input of ``graph_export``."""

    layers: list[str] | None = Field(
        default=None, max_length=1, description="Export this one layer and the tenant-wide one. Default: all readable."
    )
    keep: int | None = Field(
        default=None,
        ge=1,
        le=30,
        description="Newest exports of your own to keep; older ones go. Default: 14, or the tenant's rule (its most).",
    )
    label: str | None = Field(default=None, max_length=64, description="Part of the file's name, e.g. before-merge.")
    vectors: bool = Field(default=False, description="Vectors too: a restore needs not embed again.")
    export_id: str | None = Field(
        default=None, min_length=1, max_length=64, description="Wait for this export, which is `running`; begins none."
    )


class ExportAnswer(BaseModel):
    """Output of ``graph_export``."""

    status: Literal["done", "running"] = Field(description="running: it goes on; ask again with `export_id`.")
    export_id: str | None
    backup_file: str | None = Field(description="Name of the file: GET /exports/{name}, or `graphkeep restore`.")
    node_count: int
    edge_count: int
    size_bytes: int
    records: int = Field(description="Lines of nodes, aliases and edges so far.")
    pruned: int = Field(description="Older exports that were removed.")
    retained: int = Field(description="Exports there are now.")
    sha256: str | None = Field(description="Of the whole file.")
    layers: list[str]
    vectors: bool
    types: dict[str, int] = Field(description="Stored entities by type; one in two layers counts twice.")

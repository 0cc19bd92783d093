"""What the tools that move memory out take and answer."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.contract import WriteArguments

__all__ = ["ExportAnswer", "ExportInput"]


class ExportInput(WriteArguments):
    """Input of ``graph_export``."""

    layers: list[str] | None = Field(
        default=None, max_length=1, description="Export this one layer and the tenant-wide one. Default: all readable."
    )
    keep: int = Field(default=14, ge=1, le=30, description="Newest exports of your own to keep; older ones go.")
    label: str | None = Field(default=None, max_length=64, description="Part of the file's name, e.g. before-merge.")


class ExportAnswer(BaseModel):
    """Output of ``graph_export``."""

    backup_file: str = Field(description="Name of the file: GET /exports/{name}, or `graphkeep restore`.")
    node_count: int
    edge_count: int
    size_bytes: int
    pruned: int = Field(description="Older exports that were removed.")
    retained: int = Field(description="Exports there are now.")
    sha256: str = Field(description="Of the whole file.")
    layers: list[str]
    types: dict[str, int] = Field(description="Stored entities by type; one in two layers counts twice.")

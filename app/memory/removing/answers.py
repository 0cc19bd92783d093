"""What the tools that forget answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["DeleteAnswer", "PruneAnswer"]


class Named(BaseModel):
    """An entity."""

    id: str
    name: str
    type: str


class Kept(Named):
    """A copy of an entity that stayed."""

    layer: str
    why: Literal["not writable here", "in use elsewhere"]


class DeleteAnswer(BaseModel):
    """Output of ``graph_delete``."""

    deleted: bool
    action: Literal["deleted", "kept"]
    id: str
    entity: Named
    edges_removed: int
    aliases_removed: int
    layers: list[str] = Field(description="Layers that it was deleted from.")
    kept: list[Kept]
    undo_id: str | None


class PrunedNode(BaseModel):
    """An entity that would go."""

    id: str
    type: str
    name: str
    confidence: float
    last_seen: str | None
    edge_count: int


class PrunedEdge(BaseModel):
    """A relation that would go."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    type: str
    weight: float


class Deleted(BaseModel):
    """What went."""

    action: Literal["deleted_node", "deleted_edge"]
    id: str | None = None
    source: str | None = Field(default=None, alias="from")
    target: str | None = Field(default=None, alias="to")
    type: str


class PruneAnswer(BaseModel):
    """Output of ``graph_prune``."""

    mode: Literal["preview", "executed"]
    nodes_to_prune: list[PrunedNode] | None = None
    edges_to_prune: list[PrunedEdge] | None = None
    node_count: int | None = Field(default=None, description="All entities that fit, all pages together.")
    edge_count: int | None = None
    nodes_pruned: int
    edges_pruned: int
    aliases_pruned: int | None = None
    details: list[Deleted] | None = None
    kept: list[Kept]
    remaining: int = Field(description="What fits and is not in this answer.")
    undo_id: str | None = None
    next_cursor: str | None = None

"""What the tools that change the memory answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = [
    "AdjustAnswer",
    "ContradictionsAnswer",
    "DecayAnswer",
    "DeleteAnswer",
    "PruneAnswer",
    "ResolveAnswer",
    "WeakenAnswer",
]


class EdgeName(BaseModel):
    """A relation by its ends."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    type: str


class AdjustAnswer(BaseModel):
    """Output of ``graph_boost``."""

    previous_weight: float
    new_weight: float
    edge: EdgeName
    layers: list[str] = Field(description="Layers whose copy was changed.")
    kept_layers: list[str] = Field(description="Layers whose copy this connection may not change.")
    warnings: list[str]


class WeakenAnswer(AdjustAnswer):
    """Output of ``graph_weaken``."""

    pruned: bool = Field(description="Weak enough for graph_prune to take it; nothing was deleted.")


class Side(BaseModel):
    """One side of a contradiction."""

    id: str
    type: str
    name: str
    content: str | None = None


class Contradiction(BaseModel):
    """Two things that contradict each other."""

    node_a: Side
    node_b: Side
    description: str | None = None
    detected_date: str | None = None
    resolved: bool
    resolution: str | None = None
    weight: float
    layers: list[str]


class Value(BaseModel):
    """A current value of a relation that has one at a time."""

    id: str
    name: str
    type: str
    weight: float
    valid_at: str | None = None
    layers: list[str]


class Candidate(BaseModel):
    """Several current values where one is expected."""

    entity: Side
    relation: str
    values: list[Value] = Field(description="The first 20 of them.")
    since: str | None = Field(description="Since when they overlap, where it is known.")


class ContradictionsAnswer(BaseModel):
    """Output of ``graph_contradictions``."""

    contradictions: list[Contradiction]
    count: int = Field(description="All that fit, all pages together.")
    candidates: list[Candidate] = Field(description="Not yet recorded ones, on the first page.")
    next_cursor: str | None = None


class ResolveAnswer(BaseModel):
    """Output of ``graph_resolve``."""

    action: Literal["resolved"]
    contradiction: Contradiction
    kept_layers: list[str]


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


class Faded(BaseModel):
    """An entity whose confidence falls."""

    id: str
    type: str
    name: str
    old_confidence: float
    new_confidence: float


class DecayAnswer(BaseModel):
    """Output of ``graph_decay``."""

    dry_run: bool
    nodes_decayed: int
    edges_decayed: int
    nodes_flagged_for_pruning: int
    edges_below_threshold: int
    details: list[Faded] = Field(description="Those that fall furthest.")
    complete: bool
    next_cursor: str | None = Field(default=None, description="Time ran out: go on with it, figures are of this part.")


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

"""What the tools that change what is remembered answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["AdjustAnswer", "ContradictionsAnswer", "ResolveAnswer", "WeakenAnswer"]


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
    value_count: int = Field(description="All of them.")
    since: str | None = Field(description="Since when they overlap, where it is known.")


class ContradictionsAnswer(BaseModel):
    """Output of ``graph_contradictions``."""

    contradictions: list[Contradiction]
    count: int = Field(description="All that fit, all pages together.")
    candidates: list[Candidate] = Field(description="Not yet recorded ones, on the first page; at most 50.")
    candidate_count: int | None = Field(default=None, description="All of them, also those not listed.")
    next_cursor: str | None = None


class ResolveAnswer(BaseModel):
    """Output of ``graph_resolve``."""

    action: Literal["resolved"]
    contradiction: Contradiction
    kept_layers: list[str]

"""What the tools that change the memory take."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from app.contract import ReadArguments, WriteArguments
from app.memory.schemas import MAX_CURSOR, Name, Short, Text

__all__ = [
    "BoostInput",
    "ContradictionsInput",
    "DecayInput",
    "DeleteInput",
    "PruneInput",
    "ResolveInput",
    "WeakenInput",
]

MOST_PRUNED: Final = 500

Amount = Annotated[float | None, Field(description="How much, 0..1; clamped. Default: the gateway's setting.")]
Reason = Annotated[Short | None, Field(description="Why; it goes to the tenant's audit trail.")]
Page = Annotated[str | None, Field(max_length=MAX_CURSOR, description="`next_cursor` of the call before.")]
Threshold = Annotated[float | None, Field(ge=0, le=1)]


class _RelationInput(WriteArguments):
    from_name: Name = Field(description="Where the relation starts: name, alias or id.")
    to_name: Name = Field(description="Where it ends.")
    relation: Name = Field(description="Its verb, e.g. WORKS_ON.")
    amount: Amount = None
    reason: Reason = None


class BoostInput(_RelationInput):
    """Input of ``graph_boost``."""


class WeakenInput(_RelationInput):
    """Input of ``graph_weaken``."""


class ContradictionsInput(ReadArguments):
    """Input of ``graph_contradictions``."""

    include_resolved: bool = Field(default=False, description="Also those that were resolved.")
    limit: int = Field(default=50, ge=1, le=200)
    cursor: Page = None


class ResolveInput(WriteArguments):
    """Input of ``graph_resolve``."""

    from_name: Name = Field(description="One of the two that contradict each other: name, alias or id.")
    to_name: Name = Field(description="The other one; the order does not matter.")
    resolution: Text = Field(min_length=1, description="How it was decided, in a sentence; it is kept and shown.")


class DeleteInput(WriteArguments):
    """Input of ``graph_delete``."""

    entity_id: Name | None = Field(default=None, description="Id or exact name of the entity.")
    id: Name | None = Field(default=None, description="The same under its other name; give one of the two.")
    reason: Reason = None


class DecayInput(WriteArguments):
    """Input of ``graph_decay``."""

    dry_run: bool = Field(default=False, description="Only report what a run would do now.")
    limit: int = Field(default=50, ge=0, le=200, description="Most `details`.")
    cursor: Page = None


class PruneInput(WriteArguments):
    """Input of ``graph_prune``."""

    mode: Literal["preview", "execute"] = Field(default="preview", description="preview changes nothing.")
    node_threshold: Threshold = Field(default=None, description="Confidence below which entities go.")
    edge_threshold: Threshold = Field(default=None, description="Weight below which relations go.")
    include_orphans: bool = Field(default=True, description="Also entities without relations, unseen for long.")
    max_age_days: int | None = Field(default=None, ge=0, le=36500, description="How long, in days.")
    limit: int = Field(
        default=MOST_PRUNED,
        ge=1,
        le=MOST_PRUNED,
        description="Most entities, and as many relations, of one call; call again while `remaining` is not 0.",
    )
    reason: Reason = None
    cursor: Page = None

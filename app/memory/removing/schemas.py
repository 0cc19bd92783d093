"""What the tools that forget take."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from app.contract import WriteArguments
from app.memory.schemas import Name, Page, Reason

__all__ = ["DeleteInput", "PruneInput"]

MOST_PRUNED: Final = 500

Threshold = Annotated[float | None, Field(ge=0, le=1)]


class DeleteInput(WriteArguments):
    """Input of ``graph_delete``."""

    entity_id: Name | None = Field(default=None, description="Id or exact name of the entity.")
    id: Name | None = Field(default=None, description="The same under its other name; give one of the two.")
    reason: Reason = None


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

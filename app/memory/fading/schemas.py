"""What ``graph_decay`` takes and answers."""

from __future__ import annotations

from pydantic import BaseModel, Field

from app.contract import WriteArguments
from app.memory.schemas import Page

__all__ = ["DecayAnswer", "DecayInput"]


class DecayInput(WriteArguments):
    """Input of ``graph_decay``."""

    dry_run: bool = Field(default=False, description="Only report what a run would do now.")
    limit: int = Field(default=50, ge=0, le=200, description="Most `details`.")
    cursor: Page = None


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

"""What the tools that change what is remembered take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.contract import ReadArguments, WriteArguments
from app.memory.schemas import Name, Page, Reason, Text

__all__ = ["BoostInput", "ContradictionsInput", "ResolveInput", "WeakenInput"]

Amount = Annotated[float | None, Field(description="How much, 0..1; clamped. Default: the gateway's setting.")]


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

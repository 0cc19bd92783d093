"""What the merging tools take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.contract import MAX_ARRAY, MAX_NAME, Arguments, WriteArguments

__all__ = ["EdgeToMove", "MergeInput", "UnmergeInput"]

Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Reason = Annotated[
    str, Field(min_length=1, max_length=MAX_NAME, description="Why; it goes to the tenant's audit trail.")
]


class MergeInput(WriteArguments):
    """Input of ``graph_merge``."""

    source_id: Name = Field(description="The entity that goes: id or exact name.")
    target_id: Name = Field(description="The entity that stays: id or exact name.")
    reason: Reason
    dry_run: bool = Field(default=False, description="true: only report what a run would do.")


class EdgeToMove(Arguments):
    """A relation that belongs to the new entity."""

    other_entity_id: Name = Field(description="Its other end: id or exact name.")
    relation_type: Name
    direction: Literal["in", "out"] = Field(description="out: from the original to the other; in: the reverse.")


class UnmergeInput(WriteArguments):
    """Input of ``graph_unmerge``."""

    entity_id: Name = Field(description="The entity that holds two things: id or exact name.")
    new_entity_name: Name
    new_entity_type: Name
    edges_to_move: list[EdgeToMove] = Field(default_factory=list, max_length=MAX_ARRAY)
    reason: Reason

"""What ``graph_undo`` takes and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.contract import WriteArguments
from app.memory.schemas import MAX_CURSOR

__all__ = ["UndoAnswer", "UndoInput"]


class UndoInput(WriteArguments):
    """Input of ``graph_undo``."""

    undo_id: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Of the change to undo; omit it to list changes."
    )
    limit: int = Field(default=20, ge=1, le=100)
    cursor: Annotated[str, Field(max_length=MAX_CURSOR)] | None = None


class Change(BaseModel):
    """A change that can be undone."""

    undo_id: str
    tool: str
    summary: str
    at: str
    expires_at: str
    layers: list[str]


class Restored(BaseModel):
    """How many records are as they were."""

    entities: int
    relations: int
    aliases: int


class UndoAnswer(BaseModel):
    """Output of ``graph_undo``: ``changes`` without an id, the rest with one."""

    changes: list[Change] | None = None
    next_cursor: str | None = None
    undone: Change | None = None
    restored: Restored | None = None
    audit_logged: bool = False
    undo_id: str | None = Field(default=None, description="Undoes the undoing.")

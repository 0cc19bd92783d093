"""What ``graph_undo`` takes and answers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from app.contract import WriteArguments
from app.memory.schemas import MAX_CURSOR

__all__ = ["UndoAnswer", "UndoInput"]


def _named(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError(
            "names no change. An id is the `undo_id` in the answer of the change; graph_undo without undo_id lists "
            "those of the changes that may be undone"
        )
    return value


class UndoInput(WriteArguments):
    """Input of ``graph_undo``."""

    undo_id: Annotated[str, Field(min_length=1, max_length=64), BeforeValidator(_named)] | None = Field(
        default=None, description="Of the change to undo, from its answer or from the list; omit it to list changes."
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

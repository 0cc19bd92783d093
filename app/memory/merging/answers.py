"""What the merging tools answer."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["MergeAnswer", "UnmergeAnswer"]


class Merged(BaseModel):
    """An entity of a merge."""

    id: str
    name: str
    type: str


class Source(Merged):
    """The entity that went."""

    deleted: bool


class Value(BaseModel):
    """One of several current values."""

    id: str
    name: str


class Doubled(BaseModel):
    """A relation with one value at a time that has several now."""

    relation: str
    values: list[Value]


class MergeAnswer(BaseModel):
    """Output of ``graph_merge``."""

    source: Source
    target: Merged
    edges_added: int = Field(description="Relations that the target did not have.")
    edges_consolidated: int = Field(description="Relations that both had.")
    self_loops_dropped: int = Field(description="Relations between the two.")
    properties_adopted: list[str]
    aliases_added: list[str] = Field(description="Names that lead to the target now.")
    contradiction_candidates: list[Doubled]
    layers: list[str]
    dry_run: bool
    audit_logged: bool
    undo_id: str | None = None
    warnings: list[str] = Field(default_factory=list)


class Original(BaseModel):
    """The entity that was taken apart."""

    id: str
    name: str
    remaining_edges: int


class NewEntity(Merged):
    """The entity that came of it."""

    moved_edges: int


class UnmergeAnswer(BaseModel):
    """Output of ``graph_unmerge``."""

    original: Original
    new_entity: NewEntity
    layers: list[str]
    kept_edges: list[str] = Field(description="Relations of which a copy stayed in a layer that may not be written.")
    audit_logged: bool
    undo_id: str | None = None
    warnings: list[str] = Field(default_factory=list)

"""What the memory tools answer: the documented fields first, more beside them where both are useful."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = ["EntitiesAnswer", "QueryAnswer", "RelateAnswer", "SearchAnswer", "StatsAnswer"]

Action = Literal["created", "strengthened", "merged"]


class Edge(BaseModel):
    """A relation; moments are ISO text in UTC."""

    source: str = Field(alias="from", description="Entity id.")
    target: str = Field(alias="to", description="Entity id.")
    type: str
    weight: float
    effective_weight: float | None = Field(default=None, description="Weight times affinity to the project.")
    properties: dict[str, Any] | None = None
    valid_at: str | None = None
    invalid_at: str | None = Field(default=None, description="null: it is current.")
    ingested_at: str | None = None
    last_confirmed: str | None = None
    evidence: str | None = None
    source_session: str | None = None
    source_transcript: str | None = None
    source_type: str | None = None
    layers: list[str] | None = None


class Node(BaseModel):
    """An entity, merged over the layers that the call reads."""

    id: str
    name: str
    type: str
    subtype: str | None = None
    confidence: float | None = None
    times_mentioned: int | None = None
    first_seen: str | None = None
    last_seen: str | None = None
    source_file: str | None = None
    aliases: list[str] | None = None
    layers: list[str] | None = None
    edge_count: int | None = Field(default=None, description="Current relations in either direction.")
    distance: int | None = Field(default=None, description="Hops from the nearest named entity.")
    properties: dict[str, Any] | None = None


class RelatedEdge(BaseModel):
    """The relation that a single call wrote."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    type: str
    weight: float
    valid_at: str | None = None
    invalid_at: str | None = Field(default=None, description="Set when a newer value was known already.")


class EdgeName(BaseModel):
    """A relation by its ends."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    type: str
    invalid_at: str | None = None


class Detail(BaseModel):
    """What happened to one entity or relation of a batch."""

    entity: str | None = None
    edge: str | None = Field(default=None, description="from→RELATION→to")
    action: Action
    weight: float | None = None


class RelateAnswer(BaseModel):
    """Output of ``graph_relate``."""

    action: Action | None = Field(default=None, description="Single mode.")
    edge: RelatedEdge | None = Field(default=None, description="Single mode.")
    created_entities: list[str] = Field(default_factory=list, description="Names of entities that are new.")
    entities_created: int = 0
    entities_merged: int = 0
    edges_created: int = 0
    edges_strengthened: int = 0
    edges_failed: int = Field(default=0, description="Always 0: a reference that cannot be resolved fails the call.")
    failed_refs: list[str] = Field(default_factory=list)
    details: list[Detail] = Field(default_factory=list)
    superseded: list[EdgeName] = Field(default_factory=list, description="Relations that this call ended.")
    undo_id: str | None = Field(default=None, description="Of their ending, for graph_undo.")
    warnings: list[str] = Field(default_factory=list)


class Candidates(BaseModel):
    """A name that fits several entities."""

    name: str
    candidates: list[Node]


class QueryAnswer(BaseModel):
    """Output of ``graph_query``."""

    found: bool
    nodes: list[Node] = Field(default_factory=list)
    edges: list[Edge] = Field(default_factory=list)
    edge_count: int | None = None
    source_files: list[str] = Field(default_factory=list)
    seeds: list[str] = Field(default_factory=list, description="Ids of the named entities.")
    not_found: list[str] = Field(default_factory=list, description="Names that fit nothing.")
    ambiguous: list[Candidates] = Field(default_factory=list, description="Names that fit several; ask again by id.")
    project: str | None = Field(default=None, description="Id of the project that project_context named.")
    truncated: bool = Field(default=False, description="The neighbourhood was too large to be read whole.")
    next_cursor: str | None = None


class EntitiesAnswer(BaseModel):
    """Output of ``graph_entities``."""

    found: bool
    entities: list[Node] = Field(default_factory=list)
    total: int = Field(description="All entities that fit; of a search the best 500 are listed.")
    total_entities: int | None = Field(default=None, description="All entities in the layers that the call reads.")
    next_cursor: str | None = None


class Seed(BaseModel):
    """A match of ``graph_search``."""

    id: str
    name: str
    type: str
    similarity: float | None = Field(default=None, description="Cosine; null without a vector.")
    score: float | None = Field(default=None, description="(1+cosine)/2; null without a vector.")
    confidence: float | None = None
    properties: dict[str, Any] | None = None
    layers: list[str] | None = None


class ExpansionNode(BaseModel):
    """A neighbour of a seed."""

    id: str
    name: str
    type: str
    from_seed: str


class ExpansionEdge(BaseModel):
    """A relation beside a seed, in its own direction."""

    source: str = Field(alias="from")
    target: str = Field(alias="to")
    from_name: str
    to_name: str
    type: str
    relation: str
    weight: float


class Expansion(BaseModel):
    """What the best seeds are related to."""

    nodes: list[ExpansionNode]
    edges: list[ExpansionEdge]
    node_count: int
    edge_count: int


class SearchAnswer(BaseModel):
    """Output of ``graph_search``."""

    query: str
    found: bool
    seeds: list[Seed] = Field(default_factory=list)
    expansion: Expansion | None = None
    note: str | None = None
    explain: dict[str, Any] | None = None


class NodeCounts(BaseModel):
    """Merged entities by type."""

    total: int
    by_type: dict[str, int]


class EdgeCounts(BaseModel):
    """Merged current relations by type."""

    total: int
    by_type: dict[str, int]
    ended: int = Field(description="Relations that are no longer current, not part of total.")


class Health(BaseModel):
    """What may need attention."""

    avg_weight: float | None
    orphaned_nodes: int
    unresolved_contradictions: int
    stale_nodes: int
    last_dream_run: str | None = Field(description="When the last run that learnt came to its end.")
    dream_running: bool = Field(description="Whether a run is under way now.")
    pending_ingest_docs: int
    total_ingested_docs: int


class StatsAnswer(BaseModel):
    """Output of ``graph_stats``."""

    schema_version: str
    nodes: NodeCounts
    edges: EdgeCounts
    health: Health

"""What the tools that look at the memory as a whole answer."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

__all__ = [
    "CommunitiesAnswer",
    "ContextAnswer",
    "CypherAnswer",
    "ReembedAnswer",
    "SuggestionsAnswer",
    "ValidateAnswer",
]

Severity = Literal["high", "medium", "low"]


class Issue(BaseModel):
    """Something about an entity that may be wrong."""

    entity_id: str
    name: str
    type: str = Field(
        description="generic_name, meaningless_name, reference_language, type_mismatch, extreme_confidence, "
        "near_duplicate or orphan"
    )
    entity_type: str
    description: str
    issue: str = Field(description="The same as description.")
    severity: Severity
    other_id: str | None = Field(default=None, description="The other entity, where there is one.")


class ValidateAnswer(BaseModel):
    """Output of ``graph_validate``."""

    issue_count: int = Field(description="All issues, also those not shown.")
    total_issues: int
    by_severity: dict[str, int]
    by_type: dict[str, int]
    scope: str
    issues: list[Issue]
    truncated: bool = Field(default=False, description="A check met too many cases to list them all.")
    next_cursor: str | None = None


class ContextAnswer(BaseModel):
    """Output of ``graph_build_context``."""

    generated_at: str
    rules: list[dict[str, Any]] = Field(description="Standing wishes of the user; keep to them.")
    pending_work: dict[str, Any]
    last_dream: dict[str, Any] | None
    topic_neighbourhood: dict[str, Any] | None
    contradictions: list[dict[str, Any]] | None
    recent_entities: list[dict[str, Any]]
    top_hubs: list[dict[str, Any]]
    stats: dict[str, Any]
    graph_health: dict[str, Any]
    recent_additions: dict[str, Any]
    omitted: dict[str, int] = Field(default_factory=dict, description="What the budget cut: list and how many items.")


class Community(BaseModel):
    """Entities that hang together more closely than with the rest."""

    id: int
    label: str = Field(description="Names of its most central members.")
    seed_name: str
    seed_id: str
    member_count: int
    dominant_type: str
    members: list[dict[str, str]] = Field(description="{id, name, type}, the most central first, at most 30.")


class CommunitiesAnswer(BaseModel):
    """Output of ``graph_communities``."""

    communities: list[Community]
    total_communities: int
    total_members: int = Field(description="Members of the communities shown.")
    coverage_pct: float
    coverage: dict[str, int]
    quality: float | None = Field(default=None, description="Modularity of the whole division.")
    truncated: bool = Field(default=False, description="Only the strongest relations were considered.")


class Suggestion(BaseModel):
    """Two entities that may be one."""

    entity_a: dict[str, Any] = Field(description="{id, name, type, edge_count}")
    entity_b: dict[str, Any]
    score: float
    signals: dict[str, Any]
    recommended_action: str


class SuggestionsAnswer(BaseModel):
    """Output of ``graph_merge_suggestions``."""

    suggestions: list[Suggestion]
    total_pairs_evaluated: int
    threshold_used: float
    scope: dict[str, Any]
    scale: str = Field(description="What embedding_similarity is measured on; `cosine` stands beside it.")
    note: str | None = None
    truncated: bool = Field(
        default=False, description="More than 50,000 names or 2,000 pairs: ask for one entity_type or entity_id."
    )
    next_cursor: str | None = Field(default=None, description="Goes on with more pairs, then with more entities.")


class CypherAnswer(BaseModel):
    """Output of ``graph_cypher``."""

    cypher: str
    results: list[dict[str, Any]]
    result_count: int
    execution_time_ms: int
    truncated: bool = Field(description="There are more rows than the limits let through.")


class ReembedAnswer(BaseModel):
    """Output of ``graph_reembed``."""

    embedded: int = Field(description="Entities that got a new vector.")
    skipped: int = Field(description="Entities whose vector was good already.")
    errors: int = Field(description="Entities that could not be embedded.")
    remaining: int = Field(description="Entities that still need one: call again, with next_cursor if there is one.")
    force: bool
    scope: str
    note: str | None = None
    next_cursor: str | None = None

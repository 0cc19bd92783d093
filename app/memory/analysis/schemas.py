"""What the tools that look at the memory as a whole take."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from app.contract import Arguments, ReadArguments, WriteArguments
from app.memory.schemas import Cursor, Name, Short

__all__ = [
    "CommunitiesInput",
    "ContextInput",
    "CypherInput",
    "ReembedInput",
    "SuggestionsInput",
    "ValidateInput",
    "Weights",
]

LONGEST_QUERY: Final = 8_000


class ValidateInput(ReadArguments):
    """Input of ``graph_validate``."""

    source_session: Short | None = Field(default=None, description="Only what this conversation told of.")
    max_issues: int = Field(default=50, ge=1, le=200, description="Most issues in the answer, the gravest first.")
    cursor: Cursor = None


class ContextInput(ReadArguments):
    """Input of ``graph_build_context``."""

    topic: Name | None = Field(default=None, description="A name; what stands around it is shown too.")
    project_cwd: Name | None = Field(default=None, description="Working directory: what is near it weighs more.")
    recent_days: int = Field(default=7, ge=1, le=90)
    hub_count: int = Field(default=5, ge=1, le=20)
    include_contradictions: bool = True
    max_recent: int = Field(default=15, ge=1, le=50)
    token_budget: int = Field(
        default=4000, ge=500, le=15_000, description="About how long the answer may be; the least needed is cut first."
    )


class CommunitiesInput(ReadArguments):
    """Input of ``graph_communities``."""

    weight_threshold: float = Field(default=0.4, ge=0, le=1, description="Only relations stronger than this count.")
    max_communities: int = Field(default=10, ge=1, le=30)
    max_hops: int = Field(default=3, ge=1, le=4, description="Of earlier versions; without effect.")
    min_size: int = Field(default=2, ge=2, description="Fewest members of a community.")
    resolution: float = Field(default=1.0, gt=0, le=10, description="Higher: more and smaller communities.")


class Weights(Arguments):
    """How much each signal counts; they are not normalised."""

    embedding: float = Field(default=0.4, ge=0, le=1)
    neighbor_jaccard: float = Field(default=0.4, ge=0, le=1)
    name: float = Field(default=0.2, ge=0, le=1)


class SuggestionsInput(ReadArguments):
    """Input of ``graph_merge_suggestions``."""

    entity_id: Name | None = Field(default=None, description="Only pairs with this entity (id, name or alias).")
    entity_type: Name | None = Field(default=None, description="Only entities of this type.")
    min_score: float = Field(default=0.8, ge=0, le=1)
    min_embedding_similarity: float = Field(
        default=0.85, ge=0, le=1, description="Least likeness of texts, (1+cosine)/2; pairs alike by name need none."
    )
    limit: int = Field(default=20, ge=1, le=100)
    weights: Weights = Field(default_factory=Weights)
    log_to_audit: bool = Field(default=True, description="Of earlier versions; without effect: this tool only reads.")
    cursor: Cursor = None


class CypherInput(Arguments):
    """Input of ``graph_cypher``."""

    cypher: str = Field(min_length=1, max_length=LONGEST_QUERY, description="One reading query (MATCH … RETURN).")
    params: dict[str, Any] = Field(
        default_factory=dict, max_length=100, description="Values of its $parameters; 8,000 characters as JSON."
    )
    tenant: Short | None = Field(
        default=None,
        description="Name of the one tenant to read: every path then needs {tenant: $tenant}. Default: all tenants.",
    )
    limit: int = Field(default=100, ge=1, le=1000, description="Most rows.")


class ReembedInput(WriteArguments):
    """Input of ``graph_reembed``."""

    force: bool = Field(default=False, description="Every vector anew, not only missing and outdated ones.")
    all_tenants: bool = Field(default=False, description="Operators: every tenant, not only this one.")
    cursor: Cursor = None

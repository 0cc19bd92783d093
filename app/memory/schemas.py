"""What the memory tools take. What they answer is in ``answers.py``; both are the contract that clients see."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field

from app.contract import MAX_ARRAY, MAX_NAME, MAX_TEXT, Arguments, ReadArguments, WriteArguments
from app.memory.moments import Moment

__all__ = [
    "Batch",
    "BatchEntity",
    "BatchRelation",
    "EntitiesInput",
    "QueryInput",
    "RelateInput",
    "SearchInput",
    "StatsInput",
]

MAX_HOPS: Final = 4
MAX_NODES: Final = 200
MAX_CURSOR: Final = 2048


def _at_most_32_kib(text: str) -> str:
    if len(text.encode(errors="surrogatepass")) > MAX_TEXT:
        raise ValueError("a text may have at most 32 KiB; keep the essential part, or split it into several facts")
    return text


Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_at_most_32_kib)]
Short = Annotated[str, Field(max_length=MAX_NAME)]
Cursor = Annotated[
    str | None, Field(max_length=MAX_CURSOR, description="`next_cursor` of the previous page, with the same arguments.")
]
Page = Annotated[str | None, Field(max_length=MAX_CURSOR, description="`next_cursor` of the call before.")]
Reason = Annotated[Short | None, Field(description="Why; it goes to the tenant's audit trail.")]
Types = Annotated[
    list[Name] | None,
    Field(max_length=50, description="Only entities of these types, e.g. Person, Project, Concept, Decision, Fact."),
]

AsOf = Annotated[
    Moment | None, Field(description="Look back to this moment, e.g. 2026-03-01; default: what holds now.")
]
AsOfBasis = Annotated[
    Literal["validity", "ingestion"],
    Field(description="With as_of. validity: what was true then; ingestion: what was believed then."),
]

_WEIGHT: Final = "Strength 0..1: 0.7 said explicitly, 0.5 stated in a note, 0.3 inferred. Out of range is clamped."
_VALID_AT: Final = "When it became true in the world (not when it was said here). Omit when unknown."
_SUPERSEDE: Final = (
    "End other current values of this relation from the same source. Default: only for relations with one value at a "
    "time (WORKS_AT, REPORTS_TO, LOCATED_IN, HOSTED_ON, DEPLOYED_TO) and only with valid_at. true: always."
)
_EVIDENCE: Final = "The sentence that says so, in its own words; it is stored and searchable."
_RELATION: Final = "Verb in capitals, e.g. WORKS_ON, USES_TECH, DEPENDS_ON, PREFERS; RELATED_TO only as a last resort."
_PROPERTIES: Final = 'More about it, e.g. {"status": "active"}; null removes a property.'


class BatchEntity(Arguments):
    """An entity of a batch."""

    localId: str | None = Field(  # noqa: N815 - the name that existing prompts send
        default=None, min_length=1, max_length=MAX_NAME, description="Name of this entity inside this batch only."
    )
    name: Name
    type: Name
    properties: dict[str, Any] = Field(
        default_factory=dict, max_length=MAX_ARRAY, description=_PROPERTIES + " `confidence` (0..1) is allowed here."
    )


class BatchRelation(Arguments):
    """A relation of a batch."""

    model_config = ConfigDict(populate_by_name=True)

    source: Name = Field(alias="from", description="localId or name of an entity of this batch, or a known entity.")
    target: Name = Field(alias="to", description="The same for the other end.")
    relation: Name = Field(description=_RELATION)
    weight: float = Field(default=0.5, description=_WEIGHT)
    properties: dict[str, Any] = Field(default_factory=dict, max_length=MAX_ARRAY, description=_PROPERTIES)
    evidence: Text | None = Field(default=None, description=_EVIDENCE)
    valid_at: Moment | None = Field(default=None, description=_VALID_AT)
    supersede: bool | None = Field(default=None, description=_SUPERSEDE)


class Batch(Arguments):
    """Entities and relations that are written together or not at all."""

    entities: list[BatchEntity] = Field(default_factory=list, max_length=MAX_ARRAY)
    relations: list[BatchRelation] = Field(default_factory=list, max_length=MAX_ARRAY)
    source_session: Short | None = Field(default=None, description="Conversation it was learnt from.")
    source_transcript: Short | None = Field(default=None, description="Transcript file of it.")
    source_type: Short | None = Field(default=None, description="conversation, ingest, manual, bootstrap, memory-file.")


class RelateInput(WriteArguments):
    """Input of ``graph_relate``: one relation, or a batch."""

    from_name: Name | None = Field(default=None, description="Where the relation starts, e.g. Alice.")
    from_type: Name | None = Field(default=None, description="Single mode: its type, e.g. Person; counts if it is new.")
    to_name: Name | None = Field(default=None, description="Where it ends, e.g. Project X.")
    to_type: Name | None = Field(default=None, description="Single mode: its type, e.g. Project; counts if it is new.")
    relation: Name | None = Field(default=None, description=_RELATION)
    weight: float = Field(default=0.5, description=_WEIGHT)
    properties: dict[str, Any] = Field(
        default_factory=dict, max_length=MAX_ARRAY, description='Of the relation, e.g. {"role": "lead"}.'
    )
    evidence: Text | None = Field(default=None, description=_EVIDENCE)
    valid_at: Moment | None = Field(default=None, description=_VALID_AT)
    supersede: bool | None = Field(default=None, description=_SUPERSEDE)
    source_session: Short | None = Field(default=None, description="Conversation it was learnt from.")
    source_transcript: Short | None = Field(default=None, description="Transcript file of it.")
    source_type: Short | None = Field(default=None, description="conversation, ingest, manual, bootstrap, memory-file.")
    batch: Batch | None = Field(default=None, description="Many at once, instead of the fields above; all or nothing.")


class QueryInput(ReadArguments):
    """Input of ``graph_query``."""

    entities: list[Name] = Field(
        max_length=100, description="Names to start from; another spelling, an alias or a typo is found too."
    )
    entity_types: Types = None
    max_hops: int = Field(default=2, ge=0, le=MAX_HOPS, description="How far to go from the named entities.")
    min_weight: float = Field(default=0.3, ge=0, le=1, description="Follow only relations at least this strong.")
    limit: int = Field(default=20, ge=1, le=MAX_NODES, description="Most nodes in the answer.")
    project_context: Name | None = Field(
        default=None, description="Directory or name of the active project: what is near it weighs more."
    )
    context_level: Literal["minimal", "full", "relations-only"] = Field(
        default="full", description="minimal: ids and names; relations-only: names and relations; full: all."
    )
    current_only: bool = Field(default=True, description="false also shows relations that ended.")
    as_of: AsOf = None
    as_of_basis: AsOfBasis = "validity"
    cursor: Cursor = None


class EntitiesInput(ReadArguments):
    """Input of ``graph_entities``."""

    id: Name | None = Field(
        default=None, description="Exactly this entity, by id or exact name; other filters are ignored."
    )
    search: Short | None = Field(default=None, description="Words in names, types, properties or evidence.")
    type: Name | None = Field(default=None, description="Only this type, e.g. Person.")
    min_confidence: float | None = Field(default=None, ge=0, le=1)
    sort_by: Literal["confidence", "last_seen", "name", "relevance"] | None = Field(
        default=None, description="Default: relevance for a search, confidence otherwise."
    )
    limit: int = Field(default=20, ge=1, le=MAX_NODES)
    as_of: AsOf = None
    as_of_basis: AsOfBasis = "validity"
    cursor: Cursor = None


class SearchInput(ReadArguments):
    """Input of ``graph_search``."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)] = Field(
        description="What you look for, in plain words; a question is fine."
    )
    top_k: int = Field(default=10, ge=1, le=50, description="Most seeds.")
    min_similarity: float = Field(
        default=0.5, ge=0, le=1, description="Least score of a match by meaning alone, on the scale (1+cosine)/2."
    )
    min_cosine: float | None = Field(default=None, ge=-1, le=1, description="The same as a cosine; it wins.")
    entity_types: Types = None
    expand: bool = Field(default=True, description="Also show what the best seeds are related to.")
    expand_min_weight: float = Field(default=0.3, ge=0, le=1, description="Follow only relations stronger than this.")
    as_of: AsOf = None
    as_of_basis: AsOfBasis = "validity"
    explain: bool = Field(default=False, description="Show how each candidate was found and ranked.")


class StatsInput(ReadArguments):
    """Input of ``graph_stats``: nothing but layers."""

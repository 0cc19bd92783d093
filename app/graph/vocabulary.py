"""Types, relations and properties that graphkeep documents, and the rules for others (design §5)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from app.errors import InvalidInput

__all__ = [
    "ENTITY_PROPERTIES",
    "ENTITY_TYPES",
    "PROTECTED",
    "RELATIONS",
    "RELATION_PROPERTIES",
    "TEXT_PROPERTIES",
    "relation_name",
    "split_properties",
    "type_label",
    "type_name",
]

ENTITY_TYPES: Final = (
    "Person",
    "Project",
    "Preference",
    "Concept",
    "Decision",
    "Fact",
    "Event",
    "Object",
    "Reasoning",
    "Organization",
    "Feature",
    "Technology",
    "Artifact",
    "Resource",
    "Infrastructure",
    "Alias",
)

RELATIONS: Final = (
    *("WORKS_ON", "PREFERS", "KNOWS_ABOUT", "DEPENDS_ON", "USES_TECH", "DECIDED_FOR", "SUPERSEDES", "CONTRADICTS"),
    *("RELATED_TO", "ALIAS_OF", "PARTICIPATED_IN", "OCCURRED_DURING", "PRODUCED", "TRIGGERED_BY", "USES", "HOSTED_ON"),
    *("PRODUCED_BY", "LED_TO", "INVOLVED_IN", "WORKS_AT", "REPORTS_TO", "STAKEHOLDER_IN", "KNOWS", "COLLABORATES_WITH"),
    *("FAMILY_OF", "MENTOR_OF", "IMPLEMENTS", "EXTENDS", "INSPIRED_BY", "BUILDS_ON", "DERIVED_FROM", "CONTAINS"),
    *("PART_OF", "INSTANCE_OF", "CATEGORIZED_AS", "ABOUT", "DESCRIBES", "DOCUMENTS", "ATTRIBUTED_TO", "AUTHORED"),
    *("CREATED", "AFFECTS", "GOVERNS", "REPLACES", "DEPRECATED_BY", "BLOCKS", "BLOCKED_BY", "RESOLVED_BY"),
    *("LOCATED_IN", "DEPLOYED_TO"),
)

ENTITY_PROPERTIES: Final = frozenset(
    {
        *("role", "relationship_to_user", "organization", "email"),
        *("status", "stack", "description", "directory", "start_date"),
        *("domain", "key", "value", "times_confirmed", "category", "user_expertise"),
        *("what", "why", "context", "reversible", "decided_date"),
        *("content", "source", "source_ref", "verified"),
        *("event_date", "duration", "outcome", "location"),
        *("object_type", "url", "version", "summary", "approach", "outcome_summary"),
        *("specialty", "source_file", "subtype"),
    }
)
"""Entity properties stored natively; all others go into ``extra``."""

RELATION_PROPERTIES: Final = frozenset(
    {
        *("description", "detected_date", "resolved", "resolution", "reason", "superseded_date"),
        *("role", "since", "strength", "depth", "purpose", "dependency_type", "relationship_type"),
    }
)
"""Relation properties stored natively; all others go into ``extra``."""

TEXT_PROPERTIES: Final = (
    *("subtype", "description", "content", "summary", "what", "why", "context", "role", "category", "specialty"),
    *("value", "outcome", "outcome_summary", "approach", "location", "organization", "stack", "domain", "key"),
    *("object_type", "relationship_to_user", "user_expertise", "status", "source", "email", "url"),
)
"""Properties searched as text, in the order in which they are embedded."""

PROTECTED: Final = frozenset(
    {
        *("tenant", "tenant_id", "layer", "layers", "id", "name", "type", "aliases", "times_mentioned"),
        *("first_seen", "last_seen", "extra", "partition", "names", "words", "thread", "position", "evidence_text"),
        *("embedding", "embedding_of", "weight", "last_confirmed", "ingested_at", "valid_at", "invalid_at", "ended_at"),
        *("evidence", "past", "source_session", "source_transcript", "source_type", "decay_state"),
    }
)
"""Names that a caller's ``properties`` may never set."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}\Z")
_PROPERTY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_STRUCTURAL: Final = frozenset({"Entity", "Alias", "Assertion", "Episode", "Document", "Chunk", "Tag", "Collection"})
_SYNONYMS: Final = {"tool": "Object", "organisation": "Organization", "company": "Organization", "people": "Person"}
_CANONICAL: Final = {name.casefold(): name for name in (*ENTITY_TYPES, *_STRUCTURAL)} | _SYNONYMS
_LONGEST_TEXT: Final = 32 * 1024


def type_name(text: str, *, field: str = "type") -> str:
    """The canonical spelling of an entity type: documented ones whatever their case, others with a capital.

    Raises:
        InvalidInput: letters (a-z), digits and underscore only, a letter first, at most 64.

    """
    _check(text, field, "an entity type", "Person")
    return _CANONICAL.get(text.casefold(), text[0].upper() + text[1:])


def type_label(type_: str) -> str:
    """The node label of a type as ``type_name`` gave it; structural labels get ``_`` appended."""
    return f"{type_}_" if type_ in _STRUCTURAL else type_


def relation_name(text: str, *, field: str = "relation") -> str:
    """A relation as given, once it has passed.

    Raises:
        InvalidInput: letters (a-z), digits and underscore only, a letter first, at most 64.

    """
    _check(text, field, "a relation", "WORKS_ON")
    return text


def _check(text: str, field: str, what: str, example: str) -> None:
    if not _IDENTIFIER.match(text):
        raise InvalidInput(
            f"{field}: {what} has only letters (a-z), digits and underscore, starts with a letter and has at most 64 "
            f"characters, for example {example}. Nothing was applied.",
            field=field,
        )


def split_properties(
    properties: Mapping[str, Any], vocabulary: frozenset[str], *, field: str = "properties"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Caller's properties as (native, extra): documented scalar ones, and the rest, to be kept as one JSON text.

    ``confidence`` is left to the caller of this function. A value of None means "remove" and stays among the native.

    Raises:
        InvalidInput: a protected name, a malformed name, a text over 32 KiB, NaN, or what JSON cannot hold.

    """
    native: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in properties.items():
        if name in PROTECTED or name.startswith("_"):
            raise InvalidInput(
                f"{field}.{name}: this name belongs to graphkeep. Choose another name. Nothing was applied.",
                field=field,
            )
        if not _PROPERTY.match(name):
            raise InvalidInput(
                f"{field}: a property name starts with a letter and has at most 64 letters, digits, '_', '.' or '-', "
                "for example 'start_date'. Nothing was applied.",
                field=field,
            )
        checked = _value(value, f"{field}.{name}", field)
        if name in vocabulary and (checked is None or isinstance(checked, str | bool | int | float)):
            native[name] = checked
        else:
            extra[name] = checked
    return native, extra


def _value(value: Any, where: str, field: str) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return _text(value, where, field)
    if isinstance(value, int):
        # The engine's integers have 64 bits; a larger one stays exact as text.
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{where}: a number must be finite. Nothing was applied.", field=field)
        return value
    try:
        size = len(orjson.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}: a value must be plain JSON. Nothing was applied.", field=field) from error
    if size > _LONGEST_TEXT:
        raise InvalidInput(f"{where}: a value may have at most 32 KiB. Nothing was applied.", field=field)
    return value


def _text(value: str, where: str, field: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{where}: text must be valid Unicode. Nothing was applied.", field=field) from error
    if size > _LONGEST_TEXT:
        raise InvalidInput(f"{where}: a text may have at most 32 KiB. Nothing was applied.", field=field)
    return value

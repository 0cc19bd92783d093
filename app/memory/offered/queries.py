"""What completions read."""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["NAMES_FROM", "TYPES_FROM"]

# Ids are looked up by their beginning, in order of the index; a name's id begins as the name does.
NAMES_FROM: Final = statement(
    "memory.complete_names",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id STARTS WITH $beginning
    WITH n.id AS id, min([n.layer, n.name]) AS first
    RETURN id, first[1] AS name ORDER BY id LIMIT $limit
    """,
)

TYPES_FROM: Final = statement(
    "memory.complete_types",
    """
    MATCH (n:Entity {tenant: $tenant}) WHERE n.layer IN $layers AND n.id IS NOT NULL
    WITH n.id AS id, min([n.layer, n.type]) AS first
    WITH DISTINCT first[1] AS type WHERE toLower(type) STARTS WITH $beginning
    RETURN type ORDER BY type LIMIT $limit
    """,
)

"""What completions read."""

from __future__ import annotations

from typing import Final

from app.store.statement import statement

__all__ = ["NAMES_FROM"]

# Ids are looked up by their beginning, layer by layer in the order of the index, which stops at the limit; then names
# are read. A name's id begins as the name does.
NAMES_FROM: Final = statement(
    "memory.complete_names",
    """
    UNWIND $layers AS place
    CALL (place) {
      MATCH (n:Entity {tenant: $tenant})
      WHERE n.layer IN $layers AND n.layer = place AND n.id STARTS WITH $beginning
      RETURN n.id AS id ORDER BY n.tenant, n.layer, n.id LIMIT $limit
    }
    WITH DISTINCT id ORDER BY id LIMIT $limit
    CALL (id) {
      MATCH (n:Entity {tenant: $tenant, id: id}) WHERE n.layer IN $layers
      RETURN min([n.layer, n.name]) AS first
    }
    RETURN id, first[1] AS name ORDER BY id
    """,
)

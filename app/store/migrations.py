"""Changes of the schema, numbered. A release adds one at the end and never edits one that was released.

A migration may be cut short and run again, so each command and statement is one that may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, LiteralString

from app.store.statement import Statement

__all__ = ["MIGRATIONS", "Migration"]


@dataclass(frozen=True, slots=True)
class Migration:
    """Version ``number`` of the schema: ``commands`` make indexes and constraints, ``statements`` change records.

    The commands of all versions run first; the statements run for a database of an older version, in one transaction.
    """

    number: int
    commands: tuple[LiteralString, ...]
    statements: tuple[Statement, ...] = ()


MIGRATIONS: Final[tuple[Migration, ...]] = (
    Migration(
        1,
        (
            "CREATE CONSTRAINT entity_identity IF NOT EXISTS FOR (n:Entity) "
            "REQUIRE (n.tenant, n.layer, n.id) IS UNIQUE",
            "CREATE CONSTRAINT alias_identity IF NOT EXISTS FOR (n:Alias) REQUIRE (n.tenant, n.layer, n.id) IS UNIQUE",
            "CREATE INDEX alias_target IF NOT EXISTS FOR (n:Alias) ON (n.tenant, n.layer, n.target)",
            "CREATE INDEX entity_type IF NOT EXISTS FOR (n:Entity) ON (n.tenant, n.layer, n.type)",
            "CREATE INDEX entity_thread IF NOT EXISTS FOR (n:Entity) ON (n.tenant, n.layer, n.thread, n.position)",
            "CREATE INDEX entity_last_seen IF NOT EXISTS FOR (n:Entity) ON (n.tenant, n.last_seen)",
            "CREATE FULLTEXT INDEX entity_text IF NOT EXISTS FOR (n:Entity) ON EACH [n.partition, n.names, n.words] "
            "OPTIONS {indexConfig: {`fulltext.analyzer`: 'whitespace', `fulltext.eventually_consistent`: false}}",
        ),
    ),
)

"""The shape of the database: constraints, indexes, numbered migrations and the marker that says the data is ours.

``_Schema {id: 'graphkeep'}`` carries the version. Migrations are idempotent and run under a write lock on that node's
unique key, so two replicas starting at once do the work once; index commands are ``IF NOT EXISTS`` beside that.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from app.context import Deadline
from app.errors import Conflict, StartError
from app.store.control.embedding import decision_in
from app.store.control.schema import INDEXED, UNIQUE
from app.store.database import Database
from app.store.migrations import MIGRATIONS
from app.store.session import Writing
from app.store.statement import statement

__all__ = ["VERSION", "SchemaStatus", "ensure_vector_index", "migrate", "status", "vector_dimension"]

VERSION: Final = MIGRATIONS[-1].number
"""The newest schema that this release knows."""

_FOREIGN_EXIT: Final = 78  # EX_CONFIG of sysexits.h
_MIGRATION_SECONDS: Final = 120.0
_LARGEST_DIMENSION: Final = 4096
_WORD: Final = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*\Z")

MARKER: Final = statement(
    "schema.read_marker",
    "MATCH (s:_Schema {id: 'graphkeep'}) RETURN s.version AS version, s.fingerprint AS fingerprint",
    control=True,
)
FOREIGN: Final = statement(
    "schema.find_foreign",
    "MATCH (n) WHERE NOT n:_Schema RETURN true AS found LIMIT 1",
    control=True,
)
LOCK: Final = statement(
    "schema.take_lock",
    """
    MERGE (s:_Schema {id: 'graphkeep'})
    SET s.locked_at = datetime()
    RETURN s.version AS version, s.fingerprint AS fingerprint
    """,
    writes=True,
    control=True,
)
STAMP: Final = statement(
    "schema.stamp_version",
    """
    MATCH (s:_Schema {id: 'graphkeep'})
    SET s.version = $version, s.fingerprint = $fingerprint, s.migrated_at = datetime()
    """,
    writes=True,
    control=True,
)
INDEXES: Final = statement(
    "schema.list_indexes",
    "SHOW INDEXES YIELD name, state, type, options RETURN name, state, type, options",
    control=True,
)
AWAIT: Final = statement("schema.await_indexes", "CALL db.awaitIndexes(110)", control=True)


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """What is known of the schema: its version (None: never migrated), and the indexes that are not online."""

    version: int | None
    waiting: tuple[str, ...]

    @property
    def ready(self) -> bool:
        """Whether this release can work with it as it is."""
        return self.version == VERSION and not self.waiting


async def status(database: Database) -> SchemaStatus:
    """The schema as it is now.

    Raises:
        CallError: the database does not answer.
    """
    marker = await database.control.read(MARKER)
    indexes = await database.control.read(INDEXES)
    waiting = tuple(sorted(row["name"] for row in indexes if row["state"] != "ONLINE"))
    return SchemaStatus(marker[0]["version"] if marker else None, waiting)


async def migrate(database: Database) -> None:
    """Bring the schema to ``VERSION``; safe to call from several processes at once and any number of times.

    Raises:
        StartError: the data is not ours, or of a newer release.
        CallError: the database does not answer.
    """
    await _refuse_foreign(database)
    control = database.control.until(Deadline.after(_MIGRATION_SECONDS), "schema")
    marker = await control.read(MARKER)
    if marker and _is_current(marker[0]):
        return
    await database.command(_unique("_Schema", ("id",)))

    async def work(writing: Writing) -> None:
        # Index commands cannot share a transaction with data; this one holds the lock while they run beside it.
        held = (await writing.run(LOCK))[0]
        _refuse_newer(held["version"])
        if _is_current(held):
            return
        for command in _commands():
            await database.command(command)
        for migration in MIGRATIONS:
            if migration.number > (held["version"] or 0):
                for change in migration.statements:
                    await writing.run(change)
        await writing.run(STAMP, version=MIGRATIONS[-1].number, fingerprint=_fingerprint())

    await control.write(work)
    await control.read(AWAIT)


async def ensure_vector_index(database: Database, dimension: int) -> None:
    """Make the index over entity vectors of ``dimension`` floats, replacing one of another dimension; wait for it.

    Raises:
        ValueError: the engine has no index of that dimension.
        Conflict: a model with vectors of another dimension is decided on; the index stays as it is.
        CallError: the database does not answer.
    """
    if not 1 <= dimension <= _LARGEST_DIMENSION:
        raise ValueError(f"a vector index has 1 to {_LARGEST_DIMENSION} dimensions")
    control = database.control.until(Deadline.after(_MIGRATION_SECONDS), "schema")

    async def work(writing: Writing) -> None:
        await writing.run(LOCK)
        # Who opened its model for minutes may come with a decision that no longer stands, behind who made it anew.
        stands = await decision_in(writing)
        if stands is not None and stands.dimension != dimension:
            raise Conflict("another embedding model was decided on meanwhile; the index of vectors stays as it is.")
        present = _vector_dimension(await database.control.read(INDEXES))
        if present != dimension:
            if present is not None:
                await database.command("DROP INDEX entity_embedding IF EXISTS")
            await database.command(_vector_index(dimension))

    await control.write(work)
    await control.read(AWAIT)


async def vector_dimension(database: Database) -> int | None:
    """Floats of the vectors that the index over entities takes; None without that index.

    Raises:
        CallError: the database does not answer.
    """
    return _vector_dimension(await database.control.read(INDEXES))


async def _refuse_foreign(database: Database) -> None:
    # The marker is written before all other data: read after it, its absence means that the data is not ours.
    foreign = await database.control.read(FOREIGN)
    marker = await database.control.read(MARKER)
    if foreign and not marker:
        raise StartError(
            "the database holds data that graphkeep did not write; point NEO4J_URI or NEO4J_DATABASE to an empty one",
            exit_code=_FOREIGN_EXIT,
        )
    if marker:
        _refuse_newer(marker[0]["version"])


def _refuse_newer(version: int | None) -> None:
    newest = MIGRATIONS[-1].number
    if version is not None and version > newest:
        raise StartError(
            f"the database has schema {version}, this release knows {newest}; start the newer release of graphkeep",
            exit_code=_FOREIGN_EXIT,
        )


def _is_current(marker: dict[str, Any]) -> bool:
    return bool(marker["version"] == MIGRATIONS[-1].number and marker["fingerprint"] == _fingerprint())


def _commands() -> tuple[str, ...]:
    """Every index command of every version, each ``IF NOT EXISTS``: what is there already costs nothing."""
    unique = (_unique(label, properties) for label, properties in UNIQUE)
    indexed = (_index(label, properties) for label, properties in INDEXED)
    numbered = (command for migration in MIGRATIONS for command in migration.commands)
    return (*numbered, *unique, *indexed)


def _fingerprint() -> str:
    return hashlib.sha256("\n".join(_commands()).encode()).hexdigest()[:16]


def _unique(label: str, properties: tuple[str, ...]) -> str:
    name, columns = _parts(label, properties)
    return f"CREATE CONSTRAINT {name}_unique IF NOT EXISTS FOR (n:{label}) REQUIRE ({columns}) IS UNIQUE"


def _index(label: str, properties: tuple[str, ...]) -> str:
    name, columns = _parts(label, properties)
    return f"CREATE INDEX {name}_index IF NOT EXISTS FOR (n:{label}) ON ({columns})"


def _parts(label: str, properties: tuple[str, ...]) -> tuple[str, str]:
    for word in (label, *properties):
        if not _WORD.match(word):
            raise ValueError(f"{word!r} is not a plain word")
    return "_".join(("control", label.strip("_").lower(), *properties)), ", ".join(f"n.{name}" for name in properties)


def _vector_index(dimension: int) -> str:
    return (
        "CREATE VECTOR INDEX entity_embedding IF NOT EXISTS FOR (n:Entity) ON n.embedding "
        "WITH [n.tenant, n.layer, n.type] OPTIONS {indexConfig: "
        f"{{`vector.dimensions`: {dimension:d}, `vector.similarity_function`: 'cosine'}}}}"
    )


def _vector_dimension(indexes: list[dict[str, Any]]) -> int | None:
    for row in indexes:
        if row["name"] == "entity_embedding":
            return int(row["options"]["indexConfig"]["vector.dimensions"])
    return None

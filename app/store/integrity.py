"""Whether the graph keeps its invariants: run after every test module and by ``doctor``."""

from __future__ import annotations

from typing import Any, Final

from app.context import Deadline
from app.store.database import Database
from app.store.statement import Statement, statement

__all__ = ["check"]

_SECONDS: Final = 120.0

CROSSING: Final = statement(
    "integrity.find_crossing",
    """
    MATCH (a)-[r]->(b)
    WHERE a.tenant IS NULL OR a.layer IS NULL
       OR a.tenant <> b.tenant OR a.layer <> b.layer OR b.tenant IS NULL OR b.layer IS NULL
    RETURN type(r) AS kind, count(*) AS many ORDER BY kind LIMIT 20
    """,
    control=True,
)
STRAY_RELATIONS: Final = statement(
    "integrity.find_stray_relations",
    """
    MATCH (a)-[r]->()
    WHERE r.tenant IS NULL OR r.layer IS NULL OR r.tenant <> a.tenant OR r.layer <> a.layer
    RETURN type(r) AS kind, count(*) AS many ORDER BY kind LIMIT 20
    """,
    control=True,
)
STRAY_RECORDS: Final = statement(
    "integrity.find_stray_records",
    """
    MATCH (n)
    WHERE NONE(label IN labels(n) WHERE label STARTS WITH '_')
      AND (n.tenant IS NULL OR n.tenant = '' OR n.layer IS NULL OR n.id IS NULL)
    UNWIND CASE WHEN labels(n) = [] THEN ['(no label)'] ELSE labels(n) END AS kind
    RETURN kind, count(*) AS many ORDER BY kind LIMIT 20
    """,
    control=True,
)
DUPLICATES: Final = statement(
    "integrity.find_duplicates",
    """
    MATCH (n:Entity)
    WITH n.tenant AS tenant, n.layer AS layer, n.id AS id, count(*) AS copies WHERE copies > 1
    RETURN 'Entity' AS kind, count(*) AS many
    """,
    control=True,
)
DOUBLE_RELATIONS: Final = statement(
    "integrity.find_double_relations",
    """
    MATCH (a:Entity)-[r]->(b:Entity)
    WITH a, type(r) AS kind, b, count(*) AS copies WHERE copies > 1
    RETURN kind, count(*) AS many ORDER BY kind LIMIT 20
    """,
    control=True,
)

_FINDINGS: Final[tuple[tuple[Statement, str], ...]] = (
    (CROSSING, "relationships {kind} cross a partition or leave one: {many}"),
    (STRAY_RELATIONS, "relationships {kind} carry no partition, or another than their ends: {many}"),
    (STRAY_RECORDS, "records {kind} carry no partition or id: {many}"),
    (DUPLICATES, "records {kind} that share tenant, layer and id: {many}"),
    (DOUBLE_RELATIONS, "relations {kind} that exist twice between the same ends: {many}"),
)


async def check(database: Database) -> list[str]:
    """What breaks an invariant, as sentences without tenants or text; empty when the graph is sound.

    Raises:
        CallError: the database does not answer.
    """
    control = database.control.until(Deadline.after(_SECONDS), "integrity")
    findings: list[str] = []
    for question, sentence in _FINDINGS:
        findings.extend(_say(sentence, row) for row in await control.read(question) if row["many"])
    return findings


def _say(sentence: str, row: dict[str, Any]) -> str:
    return sentence.format(kind=row["kind"], many=row["many"])

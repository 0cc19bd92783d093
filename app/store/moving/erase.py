"""Removing everything of a data id or a tenant, in batches: what was cut short goes on where it stopped.

These statements look at every label there is, since a tenant's records lie under whatever label a room gave them. None
of them is run by a tool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from app.context import Deadline
from app.store.session import ControlSession, Writing
from app.store.statement import Statement, statement

__all__ = ["counted", "erase_data", "erase_tenant", "found"]

_BATCH: Final = 2000
_SECONDS: Final = 600.0

LABELS: Final = statement(
    "erasing.list_labels", "CALL db.labels() YIELD label RETURN label ORDER BY label", control=True
)

# By the label's own index where it has one (Entity and Alias hold nearly everything).
COUNT: Final = statement(
    "erasing.count_label",
    "MATCH (n:$($label)) WHERE n.tenant = $of RETURN count(n) AS many",
    control=True,
)
COUNT_ENTITIES: Final = statement(
    "erasing.count_entities",
    """
    MATCH (n:Entity {tenant: $of})
    RETURN count(n) AS many, count(n.embedding) AS vectors, sum(COUNT { (n)-->() }) AS relations
    """,
    control=True,
)
RELATIONS: Final = statement(
    "erasing.erase_relations",
    """
    MATCH (n:Entity {tenant: $of}) WITH n LIMIT $nodes
    MATCH (n)-[r]-() WITH DISTINCT r LIMIT $limit
    DELETE r
    RETURN count(*) AS erased
    """,
    writes=True,
    control=True,
)
ENTITIES: Final = statement(
    "erasing.erase_entities",
    "MATCH (n:Entity {tenant: $of}) WITH n LIMIT $nodes DETACH DELETE n RETURN count(*) AS erased",
    writes=True,
    control=True,
)
ALIASES: Final = statement(
    "erasing.erase_aliases",
    "MATCH (n:Alias {tenant: $of}) WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS erased",
    writes=True,
    control=True,
)
OTHERS: Final = statement(
    "erasing.erase_label",
    "MATCH (n:$($label)) WHERE n.tenant = $of WITH n LIMIT $limit DETACH DELETE n RETURN count(*) AS erased",
    writes=True,
    control=True,
)

# Every property of every record and relation but vectors: an id anywhere in a text or a list of texts.
SCAN: Final = statement(
    "erasing.find_traces",
    """
    CALL () {
      MATCH (n)
      WHERE any(k IN keys(n) WHERE k <> 'embedding' AND any(id IN $ids WHERE
        CASE WHEN n[k] IS :: STRING THEN n[k] CONTAINS id
             WHEN n[k] IS :: LIST<STRING> THEN any(x IN n[k] WHERE x CONTAINS id) ELSE false END))
      RETURN coalesce(head(labels(n)), '(no label)') AS kind, count(*) AS many
      UNION ALL
      MATCH ()-[r]->()
      WHERE any(k IN keys(r) WHERE any(id IN $ids WHERE
        CASE WHEN r[k] IS :: STRING THEN r[k] CONTAINS id
             WHEN r[k] IS :: LIST<STRING> THEN any(x IN r[k] WHERE x CONTAINS id) ELSE false END))
      RETURN type(r) AS kind, count(*) AS many
    }
    RETURN kind, sum(many) AS many ORDER BY kind
    """,
    control=True,
)
TRACES: Final = statement(
    "erasing.erase_traces",
    """
    MATCH (n:$($label))
    WHERE any(k IN keys(n) WHERE k <> 'embedding' AND any(id IN $ids WHERE
      CASE WHEN n[k] IS :: STRING THEN n[k] CONTAINS id
           WHEN n[k] IS :: LIST<STRING> THEN any(x IN n[k] WHERE x CONTAINS id) ELSE false END))
    WITH n LIMIT $limit
    DETACH DELETE n
    RETURN count(*) AS erased
    """,
    writes=True,
    control=True,
)

_BULK: Final = frozenset({"Entity", "Alias"})


async def counted(control: ControlSession, owner: str) -> dict[str, int]:
    """Records by label whose ``tenant`` is ``owner`` (a data id or a control id); relations and vectors beside them.

    Raises:
        CallError: the database does not answer.
    """
    session = _patient(control)
    counts: dict[str, int] = {}
    whole = (await session.read(COUNT_ENTITIES, of=owner))[0]
    counts |= {"Entity": whole["many"], "relations": whole["relations"], "vectors": whole["vectors"]}
    for label in await _labels(session):
        if label != "Entity":
            many = int((await session.read(COUNT, label=label, of=owner))[0]["many"])
            # The type of an entity is a label too; it is counted once, as Entity.
            if many and (label.startswith("_") or label in _BULK or whole["many"] == 0):
                counts[label] = many
    return {kind: many for kind, many in counts.items() if many}


async def erase_data(control: ControlSession, data: str, *, batch: int = _BATCH) -> dict[str, int]:
    """Erase every record whose ``tenant`` is this data id, whatever its label; how many went, by kind.

    Raises:
        CallError: the database does not answer; what is left goes with the next call.
    """
    session = _patient(control)
    erased: Counter[str] = Counter()
    nodes = max(1, batch // 4)
    while True:
        erased["relations"] += await _all(session, RELATIONS, of=data, nodes=nodes, limit=batch)
        gone = await _once(session, ENTITIES, of=data, nodes=nodes)
        erased["Entity"] += gone
        if not gone:
            break
    erased["Alias"] += await _all(session, ALIASES, of=data, limit=batch)
    for label in await _labels(session):
        if label not in _BULK:
            erased[label] += await _all(session, OTHERS, label=label, of=data, limit=batch)
    return {kind: many for kind, many in sorted(erased.items()) if many}


async def erase_tenant(control: ControlSession, tenant: str, data: str) -> dict[str, int]:
    """Erase every control record that names the tenant's control id or data id anywhere; how many went, by label.

    Raises:
        CallError: the database does not answer; what is left goes with the next call.
    """
    session = _patient(control)
    erased: Counter[str] = Counter()
    for label in await _labels(session):
        if label.startswith("_") and label != "_Schema":
            erased[label] += await _all(session, TRACES, label=label, ids=[tenant, data], limit=_BATCH)
    return {kind: many for kind, many in sorted(erased.items()) if many}


async def found(control: ControlSession, *ids: str) -> dict[str, int]:
    """Records and relations, by label or type, that hold one of ``ids`` in any property: a scan of the whole graph.

    Raises:
        CallError: the database does not answer.
    """
    return {row["kind"]: row["many"] for row in await _patient(control).read(SCAN, ids=list(ids))}


def _patient(control: ControlSession) -> ControlSession:
    return control.until(Deadline.after(_SECONDS), "erasing")


async def _labels(session: ControlSession) -> list[str]:
    return [row["label"] for row in await session.read(LABELS)]


async def _all(session: ControlSession, change: Statement, **parameters: Any) -> int:
    total = 0
    while gone := await _once(session, change, **parameters):
        total += gone
    return total


async def _once(session: ControlSession, change: Statement, **parameters: Any) -> int:
    async def work(writing: Writing) -> list[Mapping[str, Any]]:
        return list(await writing.run(change, **parameters))

    return int((await session.write(work))[0]["erased"])

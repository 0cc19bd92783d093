"""Removing everything of a data id or a tenant, in batches: what was cut short goes on where it stopped.

These statements look at every label there is, since a tenant's records lie under whatever label a room gave them. None
of them is run by a tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.context import Deadline
from app.store.session import ControlSession, Writing
from app.store.statement import Statement, statement

__all__ = ["counted", "erase_data", "erase_tenant", "forget_tenant", "found"]

_BATCH: Final = 2000
_SECONDS: Final = 600.0

# One scan for whatever lies under labels without an index of their own; entities and aliases have theirs.
OTHER_KINDS: Final = statement(
    "erasing.count_others",
    """
    MATCH (n) WHERE n.tenant = $of AND NOT n:Entity AND NOT n:Alias
    RETURN head(labels(n)) AS kind, count(*) AS many ORDER BY kind
    """,
    control=True,
)
COUNT_ALIASES: Final = statement(
    "erasing.count_aliases", "MATCH (n:Alias {tenant: $of}) RETURN count(n) AS many", control=True
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

# Codes and refresh tokens know their grant alone.
GIVEN: Final = statement(
    "erasing.erase_given",
    """
    MATCH (g:_Grant {tenant: $of})
    MATCH (n:_Code|_RefreshToken) WHERE n.grant = g.id
    WITH n LIMIT $limit
    DELETE n
    RETURN count(*) AS erased
    """,
    writes=True,
    control=True,
)
FORGET: Final = statement(
    "erasing.forget_tenant",
    "MATCH (t:_Tenant {id: $id}) WHERE t.state = 'deleted' DELETE t RETURN count(*) AS erased",
    writes=True,
    control=True,
)

# Every property of every record and relation but vectors: an id anywhere in a text or a list of texts. What another
# tenant, a person or a program wrote is theirs, also where it names this one: else a text of theirs could block an
# erasure, or an erasure take a line of theirs away.
SCAN: Final = statement(
    "erasing.find_traces",
    """
    CALL () {
      MATCH (n)
      WHERE coalesce(n.tenant, '') IN $ids + [''] AND none(label IN labels(n) WHERE label IN $kept)
        AND any(k IN keys(n) WHERE k <> 'embedding' AND
          CASE WHEN n[k] IS :: STRING THEN any(id IN $ids WHERE n[k] CONTAINS id)
            WHEN n[k] IS :: LIST<STRING> THEN any(x IN n[k] WHERE any(id IN $ids WHERE x CONTAINS id)) ELSE false END)
      RETURN coalesce(head(labels(n)), '(no label)') AS kind, count(*) AS many
      UNION ALL
      MATCH ()-[r]->()
      WHERE coalesce(r.tenant, '') IN $ids + ['']
        AND any(k IN keys(r) WHERE CASE WHEN r[k] IS :: STRING THEN any(id IN $ids WHERE r[k] CONTAINS id)
           WHEN r[k] IS :: LIST<STRING> THEN any(x IN r[k] WHERE any(id IN $ids WHERE x CONTAINS id)) ELSE false END)
      RETURN type(r) AS kind, count(*) AS many
    }
    RETURN kind, sum(many) AS many ORDER BY kind
    """,
    control=True,
)
LABELS: Final = statement(
    "erasing.list_labels", "CALL db.labels() YIELD label RETURN collect(label) AS labels", control=True
)
KINDS: Final = statement(
    "erasing.list_traces",
    """
    MATCH (n:$any($labels))
    WHERE coalesce(n.tenant, '') IN $ids + ['']
      AND any(k IN keys(n) WHERE any(id IN $ids WHERE
      CASE WHEN n[k] IS :: STRING THEN n[k] CONTAINS id
           WHEN n[k] IS :: LIST<STRING> THEN any(x IN n[k] WHERE x CONTAINS id) ELSE false END))
    RETURN DISTINCT head(labels(n)) AS kind ORDER BY kind
    """,
    control=True,
)
TRACES: Final = statement(
    "erasing.erase_traces",
    """
    MATCH (n:$($label))
    WHERE coalesce(n.tenant, '') IN $ids + ['']
      AND any(k IN keys(n) WHERE k <> 'embedding' AND any(id IN $ids WHERE
      CASE WHEN n[k] IS :: STRING THEN n[k] CONTAINS id
           WHEN n[k] IS :: LIST<STRING> THEN any(x IN n[k] WHERE x CONTAINS id) ELSE false END))
    WITH n LIMIT $limit
    DETACH DELETE n
    RETURN count(*) AS erased
    """,
    writes=True,
    control=True,
)

_OF_GATEWAY: Final = ("_Embedding", "_Gateway", "_Schema", "_Secret", "_SigningKey")
_OF_PEOPLE: Final = ("_Identity", "_Passkey", "_Password", "_RecoveryCode", "_Session", "_SignInAttempts", "_User")
_OF_PROGRAMS: Final = ("_Client", "_ClientDocument", "_PendingAuthorization")
_KEPT: Final = frozenset({"_Tenant", *_OF_GATEWAY, *_OF_PEOPLE, *_OF_PROGRAMS})
"""What no tenant owns, and the tenant's own record, which goes last, by :func:`forget_tenant`."""


async def counted(control: ControlSession, owner: str) -> dict[str, int]:
    """Records by label whose ``tenant`` is ``owner`` (a data id or a control id); relations and vectors beside them.

    Raises:
        CallError: the database does not answer.
    """
    session = _patient(control)
    whole = (await session.read(COUNT_ENTITIES, of=owner))[0]
    counts = {"Entity": whole["many"], "relations": whole["relations"], "vectors": whole["vectors"]}
    counts["Alias"] = (await session.read(COUNT_ALIASES, of=owner))[0]["many"]
    counts |= {row["kind"]: row["many"] for row in await session.read(OTHER_KINDS, of=owner)}
    return {kind: many for kind, many in sorted(counts.items()) if many}


async def erase_data(control: ControlSession, data: str, *, batch: int = _BATCH) -> None:
    """Erase every record whose ``tenant`` is this data id, whatever its label.

    Raises:
        CallError: the database does not answer; what is left goes with the next call.
    """
    session = _patient(control)
    nodes = max(1, batch // 4)
    while True:
        await _all(session, RELATIONS, of=data, nodes=nodes, limit=batch)
        if not await _once(session, ENTITIES, of=data, nodes=nodes):
            break
    await _all(session, ALIASES, of=data, limit=batch)
    for row in await session.read(OTHER_KINDS, of=data):
        await _all(session, OTHERS, label=row["kind"], of=data, limit=batch)


async def erase_tenant(control: ControlSession, *ids: str) -> None:
    """Erase every control record that names one of a tenant's ids anywhere, and what grants of it gave; its own record
    and those of people and programs stay.

    Raises:
        CallError: the database does not answer; what is left goes with the next call.
    """
    session = _patient(control)
    for owner in ids:
        await _all(session, GIVEN, of=owner, limit=_BATCH)
    labels = (await session.read(LABELS))[0]["labels"]
    controls = [label for label in labels if label.startswith("_") and label not in _KEPT]
    for row in await session.read(KINDS, labels=controls, ids=list(ids)):
        await _all(session, TRACES, label=row["kind"], ids=list(ids), limit=_BATCH)


async def forget_tenant(control: ControlSession, tenant: str) -> None:
    """Remove the record of a deleted tenant: the end of an erasure.

    Raises:
        CallError: the database does not answer.
    """
    await _patient(control).write(lambda writing: writing.run(FORGET, id=tenant))


async def found(control: ControlSession, *ids: str) -> dict[str, int]:
    """Records and relations, by label or type, that hold one of a tenant's ``ids`` in any property: a scan of the whole
    graph but for what is another tenant's, a person's, a program's or the gateway's own, and the tenant's own record.

    Raises:
        CallError: the database does not answer.
    """
    rows = await _patient(control).read(SCAN, ids=list(ids), kept=sorted(_KEPT))
    return {row["kind"]: row["many"] for row in rows}


def _patient(control: ControlSession) -> ControlSession:
    return control.until(Deadline.after(_SECONDS), "erasing")


async def _all(session: ControlSession, change: Statement, **parameters: Any) -> None:
    while await _once(session, change, **parameters):
        pass


async def _once(session: ControlSession, change: Statement, **parameters: Any) -> int:
    async def work(writing: Writing) -> list[Mapping[str, Any]]:
        return list(await writing.run(change, **parameters))

    return int((await session.write(work))[0]["erased"])

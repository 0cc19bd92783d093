"""The audit trail: who did what in which tenant, appended and never changed. It holds no secret.

Entries of the memory's tools hold what their tenant remembers: ids of entities, relations, reasons in a caller's words;
those of operators' queries may name it. They are whole in that tenant's own trail alone; the search over all tenants
shows that there was such an entry, by whom and when, and never what it was about.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.context import EVERY_LAYER
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = ["Audit", "AuditEntry", "AuditQuery", "append_in"]

LONGEST_LIST: Final = 500
MEMORY: Final = ("memory.", "graph.cypher")
"""How the actions begin whose target and detail are of what a tenant remembers."""

APPEND = statement(
    "audit.append",
    """
    CREATE (a:_Audit {id: $id, at: $at, tenant: $of, actor: $actor, action: $action, target: $target,
                      layers: $in_layers, detail: $detail})
    RETURN a.id AS id
    """,
    writes=True,
    control=True,
)
APPEND_EACH = statement(
    "audit.append_each",
    """
    UNWIND $entries AS entry
    CREATE (a:_Audit {id: entry.id, at: $at, tenant: entry.tenant, actor: $actor, action: $action, target: '',
                      layers: [], detail: $detail})
    RETURN count(a) AS written
    """,
    writes=True,
    control=True,
)
_MATCHING: Final = """a.at >= $since AND a.at <= $at AND NOT (a.at = $at AND a.id >= $id)
      AND ($actor = '' OR a.actor = $actor) AND ($action = '' OR a.action STARTS WITH $action)"""
_ENTRY: Final = """a.id AS id, a.at AS at, a.tenant AS tenant, a.actor AS actor, a.action AS action,
           a.target AS target, a.layers AS layers, a.detail AS detail"""

LIST = statement(
    "audit.list",
    f"""
    MATCH (a:_Audit {{tenant: $of}})
    WHERE {_MATCHING}
      AND ($every OR all(layer IN a.layers WHERE layer IN $readable))
    RETURN {_ENTRY}
    ORDER BY a.at DESC, a.id DESC LIMIT $limit
    """,
    control=True,
)
SEARCH = statement(
    "audit.search",
    f"""
    MATCH (a:_Audit)
    WHERE {_MATCHING}
    WITH a ORDER BY a.at DESC, a.id DESC LIMIT $limit
    WITH a, any(beginning IN $covered WHERE a.action STARTS WITH beginning) AS covered
    RETURN a.id AS id, a.at AS at, a.tenant AS tenant, a.actor AS actor, a.action AS action,
           CASE WHEN covered THEN '' ELSE a.target END AS target, a.layers AS layers,
           CASE WHEN covered THEN '{{}}' ELSE a.detail END AS detail
    ORDER BY at DESC, id DESC
    """,
    control=True,
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that was done. ``at`` is Unix milliseconds, ``layers`` those it was done under (partition rule 18)."""

    id: str
    at: int
    tenant: str
    actor: str
    action: str
    target: str
    layers: tuple[str, ...]
    detail: Mapping[str, Any]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> AuditEntry:
        """An entry from a row of the statements above."""
        return cls(**{**row, "layers": tuple(row["layers"]), "detail": json.loads(row["detail"])})


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which entries are wanted. ``action`` is a beginning of the word; moments are Unix milliseconds, ``until`` and
    ``before_id`` being what a page ended with. Empty means any."""

    actor: str = ""
    action: str = ""
    since: int = 0
    until: int = 2**53
    before_id: str = "~"

    def after(self, last: AuditEntry) -> AuditQuery:
        """The same for the page behind ``last``."""
        return replace(self, until=last.at, before_id=last.id)

    def parameters(self) -> dict[str, Any]:
        """As the statements take it."""
        return {
            "actor": self.actor,
            "action": self.action,
            "since": self.since,
            "at": self.until,
            "id": self.before_id,
        }


async def append_in(
    writing: Writing,
    *,
    tenant: str,
    actor: str,
    action: str,
    target: str = "",
    layers: Collection[str] = (),
    detail: Mapping[str, str | float | bool] | None = None,
) -> None:
    """Append an entry in a transaction that is under way.

    ``tenant`` is the control id ("" for what concerns the gateway itself), ``actor`` a subject id or the word
    ``command`` for the command line, ``action`` a word like ``token.create``, ``target`` the id acted upon.
    """
    await writing.run(
        APPEND,
        id=f"au-{secrets.token_hex(12)}",
        at=int(time.time() * 1000),
        of=tenant,
        actor=actor,
        action=action,
        target=target,
        in_layers=sorted(layers),
        detail=json.dumps(dict(detail or {}), sort_keys=True),
    )


class Audit:
    """The store of audit entries."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def append(
        self,
        *,
        tenant: str,
        actor: str,
        action: str,
        target: str = "",
        layers: Collection[str] = (),
        detail: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        """Append an entry; see :func:`append_in`."""

        async def work(writing: Writing) -> None:
            await append_in(
                writing, tenant=tenant, actor=actor, action=action, target=target, layers=layers, detail=detail
            )

        await self._control.write(work)

    async def append_each(
        self, tenants: Collection[str], *, actor: str, action: str, detail: Mapping[str, str | int | bool]
    ) -> None:
        """Append one entry, the same, to the trails of several tenants (control ids), in one transaction."""
        entries = [{"id": f"au-{secrets.token_hex(12)}", "tenant": tenant} for tenant in sorted(set(tenants))]
        said = {"at": int(time.time() * 1000), "actor": actor, "action": action, "detail": json.dumps(dict(detail))}
        await self._control.write(lambda writing: writing.run(APPEND_EACH, entries=entries, **said))

    async def entries(
        self, tenant: str, readable: Collection[str], query: AuditQuery = AuditQuery(), *, limit: int = 100
    ) -> list[AuditEntry]:
        """A tenant's entries, newest first, of those that may be read with these layers (or ``*``)."""
        rows = await self._control.read(
            LIST,
            of=tenant,
            every=EVERY_LAYER in readable,
            readable=sorted(readable),
            limit=max(1, min(limit, LONGEST_LIST)),
            **query.parameters(),
        )
        return [AuditEntry.of(row) for row in rows]

    async def search(self, query: AuditQuery = AuditQuery(), *, limit: int = 100) -> list[AuditEntry]:
        """Entries of every tenant and of the gateway itself, newest first: for operators.

        Those that may be of what a tenant remembers come without target and detail, since nothing tells their tenants
        of the search.
        """
        rows = await self._control.read(
            SEARCH, covered=list(MEMORY), limit=max(1, min(limit, LONGEST_LIST)), **query.parameters()
        )
        return [AuditEntry.of(row) for row in rows]

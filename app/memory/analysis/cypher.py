"""``graph_cypher``: an operator's own reading query, over one tenant or over all."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any, Final

from app.contract import Call
from app.errors import Forbidden, InvalidInput, NotFound
from app.memory.analysis.schemas import CypherInput
from app.store.control.audit import Audit
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database
from app.store.guard import guarded

__all__ = ["ACTION", "cypher"]

ACTION: Final = "graph.cypher"
"""What it is called in the audit."""

_CHARACTERS: Final = 45_000
_ECHO: Final = 1_000
_TOLD: Final = 2_048
"""Characters of a query that the audit holds."""


async def cypher(database: Database, call: Call, arguments: CypherInput) -> Mapping[str, Any]:
    """Answer ``graph_cypher``.

    A tenant that is named is the only one that the query can reach, and its audit has the entry with the query;
    without a name every tenant may have been read, so the audit of each has it, with the query's hash. It is written
    before anything is read.

    Raises:
        Forbidden: the caller is no operator.
        InvalidInput: the query or a parameter is refused.
        NotFound: no tenant has this name.
        CallError: what the store raises.
    """
    if not call.principal.operator:
        raise Forbidden("graph_cypher is for the operators of this gateway. Nothing was run.")
    confined = arguments.tenant is not None
    if confined and "tenant" in arguments.params:
        raise InvalidInput("The parameter tenant is set by the argument tenant. Nothing was run.", field="params")
    guarded(arguments.cypher, confined=confined)
    control = database.control.until(call.deadline, call.request_id)
    read = await _read(Tenants(control), arguments.tenant)
    digest = hashlib.sha256(arguments.cypher.encode()).hexdigest()[:16]
    detail: dict[str, str | int | bool] = {"query": digest, "all_tenants": not confined}
    told = {**detail, "text": arguments.cypher[:_TOLD]}
    concerned, own = {tenant.id for tenant in read}, call.principal.tenant
    audit, said = Audit(control), {"actor": call.principal.subject, "action": ACTION}
    if not confined:
        # What the query names may be one tenant's; the others are told that it was asked, by its hash.
        await audit.append_each(concerned - {own}, **said, detail=detail)
        concerned = set()
    await audit.append_each(concerned | {own}, **said, detail=told)
    began = time.perf_counter()
    found = await database.ask(
        arguments.cypher,
        {**arguments.params, **({"tenant": read[0].data} if confined else {})},
        confined=confined,
        deadline=call.deadline,
        request_id=call.request_id,
        rows=arguments.limit,
        characters=_CHARACTERS,
    )
    return {
        "cypher": arguments.cypher[:_ECHO],
        "results": found.rows,
        "result_count": len(found.rows),
        "execution_time_ms": round((time.perf_counter() - began) * 1000),
        "truncated": found.truncated,
    }


async def _read(tenants: Tenants, name: str | None) -> list[Tenant]:
    """The tenants that the query may read."""
    if name is None:
        return [tenant for tenant in await tenants.all() if tenant.state is not TenantState.DELETED]
    found = await tenants.by_name(name)
    if found is None:
        raise NotFound("no tenant has this name; `graphkeep tenant list` shows those that there are. Nothing was run.")
    return [found]

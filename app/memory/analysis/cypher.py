"""``graph_cypher``: an operator's own reading query, over one tenant or over all."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from app.context import Principal
from app.contract import Call
from app.errors import Forbidden, InvalidInput, NotFound
from app.memory.analysis.schemas import CypherInput
from app.store.control.audit import Audit
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.cypher import condensed
from app.store.database import Database
from app.store.guard import guarded

__all__ = ["ACTION", "cypher"]

ACTION: Final = "graph.cypher"
"""What it is called in the audit."""

_CHARACTERS: Final = 45_000
_ECHO: Final = 1_000
_PARAMETERS: Final = 8_000
"""Characters of the parameters as JSON: the audit holds them whole, as it does the query."""


async def cypher(database: Database, call: Call, arguments: CypherInput) -> Mapping[str, Any]:
    """Answer ``graph_cypher``.

    A tenant that is named is the only one that the query can reach: its audit holds the query and its parameters, and
    the operator's own, which outlives it, their hash. Without a name every tenant may have been read, so the audit of
    each has the hash, and the operator's own the query. That is written before anything is read.

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
    text = condensed(guarded(arguments.cypher, confined=confined))
    params = json.dumps(arguments.params, ensure_ascii=False, sort_keys=True)
    if len(params) > _PARAMETERS:
        raise InvalidInput(
            f"params may have at most {_PARAMETERS} characters as JSON. Nothing was run.", field="params"
        )
    control = database.control.until(call.deadline, call.request_id)
    read = await _read(Tenants(control), arguments.tenant)
    await _note(Audit(control), call.principal, read, text, params, confined=confined)
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


async def _note(audit: Audit, asker: Principal, read: list[Tenant], text: str, params: str, *, confined: bool) -> None:
    """Write to every trail concerned that this was asked; what it says, where only those whose it is read it.

    What a query names may lie in any layer of the tenant, and may be one tenant's even where all were read.
    """
    hashed = hashlib.sha256(f"{text}\n{params}".encode(errors="surrogatepass")).hexdigest()[:16]
    detail: dict[str, str | int | bool] = {"query": hashed, "all_tenants": not confined}
    told = read[0].id if confined else asker.tenant
    layers = next((tenant.all_layers() for tenant in read if tenant.id == told), frozenset())
    others = {asker.tenant, *(tenant.id for tenant in read)} - {told}
    said = {"actor": asker.subject, "action": ACTION}
    await audit.append_each(others, **said, detail=detail)
    await audit.append(tenant=told, **said, layers=layers, detail={**detail, "text": text, "params": params})


async def _read(tenants: Tenants, name: str | None) -> list[Tenant]:
    """The tenants that the query may read."""
    if name is None:
        return [tenant for tenant in await tenants.all() if tenant.state is not TenantState.DELETED]
    found = await tenants.by_name(name)
    if found is None:
        raise NotFound("no tenant has this name; `graphkeep tenant list` shows those that there are. Nothing was run.")
    return [found]

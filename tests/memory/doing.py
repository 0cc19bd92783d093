"""Tools called as the dispatcher does it: arguments and answers held to their schemas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from app.context import TENANT_WIDE
from app.contract import Json
from app.memory.changing.tools import CHANGING
from app.memory.fading.tools import FADING
from app.memory.merging.tools import MERGING
from app.memory.removing.tools import REMOVING
from app.memory.undoing.tools import UNDOING
from app.store.control.audit import Audit, AuditEntry
from app.store.database import Database, Writing
from app.store.statement import Statement
from tests.memory.conftest import Agent

TOOLS: Final = {tool.name: tool for tool in (*CHANGING, *FADING, *REMOVING, *MERGING, *UNDOING)}


async def do(agent: Agent, name: str, *, digest: str = "d", **arguments: Any) -> dict[str, Any]:
    """Call a tool as ``agent``."""
    tool = TOOLS[name]
    answer = dict(await tool.run(agent.service, agent.call(name, digest), tool.input.model_validate(arguments)))
    tool.output.model_validate(answer)
    return answer


async def backdate(database: Database, agent: Agent, days: float) -> None:
    """Let everything of the agent's tenant have happened so many days earlier, the bookkeeping of decay too."""
    async with database.driver.session(database=database.name) as session:
        await session.run(
            """
            CYPHER 25
            MATCH (n:Entity {tenant: $tenant})
            SET n.last_seen = n.last_seen - duration({seconds: $seconds})
            SET n.decay_state = CASE WHEN n.decay_state IS NULL THEN null ELSE
              [n.decay_state[0], n.decay_state[1] - $seconds, n.decay_state[2], n.decay_state[3]] END
            WITH n MATCH (n)-[r]->()
            SET r.last_confirmed = r.last_confirmed - duration({seconds: $seconds})
            SET r.decay_state = CASE WHEN r.decay_state IS NULL THEN null ELSE
              [r.decay_state[0], r.decay_state[1] - $seconds, r.decay_state[2], r.decay_state[3]] END
            """,
            tenant=agent.tenant,
            seconds=round(days * 86_400),
        )


async def entries(database: Database, agent: Agent) -> list[AuditEntry]:
    """The tenant's audit trail, as one reads it who may read what the agent may."""
    readable = [*agent.layers, TENANT_WIDE]
    return await Audit(database.control).entries(agent.tenant, readable)


@asynccontextmanager
async def uncommitted(agent: Agent, *steps: tuple[Statement, Mapping[str, Any]]) -> AsyncIterator[None]:
    """While the block runs, a write of the agent's has run these statements; at its end that is committed."""
    call = agent.call("test")
    session = agent.service.database.session(call.scope, deadline=call.deadline, request_id="uncommitted")
    ran, go_on = asyncio.Event(), asyncio.Event()

    async def work(writing: Writing) -> Json:
        for statement, parameters in steps:
            await writing.run(statement, **parameters)
        ran.set()
        await go_on.wait()
        return {}

    writing = asyncio.create_task(session.write(work))
    await asyncio.wait({writing, asyncio.create_task(ran.wait())}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield
    finally:
        go_on.set()
        await writing


async def one_waits(database: Database, agent: Agent, *, number: int = 1) -> None:
    """Until so many transactions of the agent's tenant wait for a lock."""
    async with asyncio.timeout(20), database.driver.session(database=database.name) as session:
        while True:
            result = await session.run(
                "SHOW TRANSACTIONS YIELD status, metaData WHERE status STARTS WITH 'Blocked' AND metaData.tenant = $of "
                "RETURN count(*) AS waiting",
                of=agent.tenant,
            )
            row = await result.single()
            if row is not None and row["waiting"] >= number:
                return
            await asyncio.sleep(0.02)

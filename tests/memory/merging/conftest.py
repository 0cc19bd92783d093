"""Agents that write several layers, and the whole of a tenant's records to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from app.contract import Call
from app.memory.merging.tools import MERGING
from app.memory.service import MemoryService
from app.memory.undoing.tools import UNDOING
from app.store.database import Database
from app.store.statement import statement
from tests.memory.conftest import Agent

TOOLS: Final = {tool.name: tool for tool in (*MERGING, *UNDOING)}

EVERYTHING: Final = statement(
    "test.dump_everything",
    """
    CALL () {
      MATCH (n:Entity|Alias {tenant: $tenant}) WHERE n.layer IN $layers
      WITH n ORDER BY n.layer, n.id, labels(n)
      RETURN collect([labels(n), properties(n)]) AS nodes
    }
    CALL () {
      MATCH (a:Entity {tenant: $tenant}) WHERE a.layer IN $layers
      MATCH (a)-[r]->(b:Entity {tenant: $tenant, layer: a.layer})
      WITH a, r, b ORDER BY r.layer, a.id, type(r), b.id
      RETURN collect([a.id, type(r), b.id, properties(r)]) AS relations
    }
    RETURN nodes, relations
    """,
)


class Team(Agent):
    """Reads ``layers`` and writes ``writes``, new records to the first of these."""

    def __init__(self, service: MemoryService, tenant: str, layers: Sequence[str], writes: Sequence[str]) -> None:
        super().__init__(service, tenant, layers, writes[0])
        self.writes = tuple(writes)

    def call(self, tool: str, digest: str = "") -> Call:
        made = super().call(tool, digest)
        return replace(made, scope=replace(made.scope, writable=self.writes))


async def do(agent: Agent, name: str, *, digest: str = "d", **arguments: Any) -> dict[str, Any]:
    """Call a tool as ``agent``, its arguments and its answer held to their schemas."""
    tool = TOOLS[name]
    answer = dict(await tool.run(agent.service, agent.call(name, digest), tool.input.model_validate(arguments)))
    tool.output.model_validate(answer)
    return answer


async def merge(agent: Agent, source: str, target: str, **more: Any) -> dict[str, Any]:
    return await do(agent, "graph_merge", **{"source_id": source, "target_id": target, "reason": "one thing", **more})


async def undo(agent: Agent, undo_id: str | None, **more: Any) -> dict[str, Any]:
    return await do(agent, "graph_undo", undo_id=undo_id, **more)


async def everything(database: Database, agent: Agent, *layers: str) -> dict[str, Any]:
    """All entities, aliases and relations of the agent's tenant in some layers (default: those that it reads)."""
    call = agent.call("test")
    scope = replace(call.scope, layers=tuple(layers) or call.scope.layers)
    session = database.session(scope, deadline=call.deadline, request_id="test")
    return (await session.read(EVERYTHING))[0]

"""Tools called as the dispatcher does it: arguments and answers held to their schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from app.context import SCOPES
from app.memory.analysis.tools import ANALYSIS
from tests.memory.conftest import Agent

TOOLS: Final = {tool.name: tool for tool in ANALYSIS}


async def do(agent: Agent, name: str, *, operator: bool = False, digest: str = "d", **arguments: Any) -> dict[str, Any]:
    """Call a tool as ``agent``."""
    tool = TOOLS[name]
    call = agent.call(name, digest)
    if operator:
        grant = replace(call.principal.grant, scopes=frozenset(SCOPES))
        call = replace(call, principal=replace(call.principal, operator=True, grant=grant))
    answer = dict(await tool.run(agent.service, call, tool.input.model_validate(arguments)))
    tool.output.model_validate(answer)
    return answer


def entity(name: str, type_: str = "Concept", **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "properties": properties}


def relation(source: str, verb: str, target: str, **more: Any) -> dict[str, Any]:
    return {"from": source, "relation": verb, "to": target, "weight": 0.7, **more}

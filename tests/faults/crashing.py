"""A process that dies on request: ``python -m tests.faults.crashing`` reads one JSON order a line.

For each order it forks; the child calls one tool on the real database and kills itself (signal 9) at the given point:
before the n-th statement of the write, before its commit, or after it, whichever comes n-th. The answer says whether
the child was killed or came to its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

from app.memory.service import MemoryService
from app.memory.tools import TOOLS
from app.settings import EmbeddingSettings, LimitSettings, Settings
from app.store import execution
from app.store.database import Database
from tests.memory.conftest import Agent

__all__ = ["NEWEST", "Silent", "main", "use"]

NEWEST = "the newest change"
"""Stands for the id of what can be undone, which nobody knows before."""


class Silent:
    """No embedding model."""

    identity = None
    state = "none"


def main() -> None:
    """Carry out orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            asyncio.run(_call(order))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps({"killed": killed, "status": status}), flush=True)


async def _call(order: dict[str, Any]) -> None:
    database = await Database.connect(order["uri"], "neo4j", order["password"], "neo4j", pool_size=5)
    limits = LimitSettings(write_seconds=60, read_seconds=60)
    settings = Settings(limits=limits, embedding=EmbeddingSettings(embedding="none"))
    service = MemoryService(database, Silent(), settings)  # type: ignore[arg-type]
    agent = Agent(service, order["tenant"], ("",), "")
    arguments = order["arguments"]
    if NEWEST in arguments.values():
        listed = await use(agent, order["tool"], {})
        arguments = {**arguments, "undo_id": listed["changes"][0]["undo_id"]}
    _die_at(order["point"])
    await use(agent, order["tool"], arguments)
    await service.close()
    await database.close()


async def use(agent: Agent, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool of the memory."""
    tool = next(tool for tool in TOOLS if tool.name == name)
    return dict(await tool.run(agent.service, agent.call(name), tool.input.model_validate(arguments)))


def _die_at(point: int) -> None:
    attempt: Any = execution._Attempt
    run, commit = attempt._run, attempt.commit
    passed = 0

    def here() -> None:
        nonlocal passed
        passed += 1
        if passed == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async def dying_run(self: Any, *arguments: Any) -> Any:
        here()
        return await run(self, *arguments)

    async def dying_commit(self: Any) -> None:
        here()
        await commit(self)
        here()

    attempt._run, attempt.commit = dying_run, dying_commit


if __name__ == "__main__":
    main()

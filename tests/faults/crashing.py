"""A process that dies on request: ``python -m tests.faults.crashing`` reads one JSON order a line.

For each order it forks; the child does one piece of work on the real database and kills itself (signal 9) at the given
point: before the n-th statement of its writes, before or after a commit, or before the n-th change to a file or folder
below ``home``, all counted together. The answer says whether the child was killed or came to its end, and then which
steps it took.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from app.memory.moving.restore import restore
from app.memory.service import MemoryService
from app.memory.tools import TOOLS
from app.settings import EmbeddingSettings, LimitSettings, RunSettings, Settings
from app.store import execution
from app.store.control.tenants import Tenants
from app.store.database import Database
from tests.ingest.conftest import Agent as Sender
from tests.ingest.conftest import service_at, talk
from tests.memory.conftest import Agent

__all__ = ["NEWEST", "Silent", "main", "use"]

NEWEST = "the newest change"
"""Stands for the id of what can be undone, which nobody knows before."""

_CHANGES: Final = frozenset({"os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate"})
"""What Python says before it changes a file or folder; of an opened one it says with which flags."""


class Silent:
    """No embedding model."""

    identity = None
    state = "none"


class Steps:
    """Counts the steps of a piece of work from :meth:`begin` on, and dies at the ``point``-th; 0 never comes."""

    def __init__(self, point: int, home: str) -> None:
        self.names: list[str] = []
        self._point = point
        self._home = home

    def begin(self) -> None:
        """From here on."""
        attempt: Any = execution._Attempt
        run, commit = attempt._run, attempt.commit

        async def counted_run(this: Any, statement: Any, parameters: Any) -> Any:
            self._here(statement.name)
            return await run(this, statement, parameters)

        async def counted_commit(this: Any) -> None:
            last = this.statement
            self._here(f"{last}: commit")
            await commit(this)
            self._here(f"{last}: committed")

        attempt._run, attempt.commit = counted_run, counted_commit
        if self._home:
            sys.addaudithook(self._file)

    def _file(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = given
            changes = isinstance(flags, int) and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        elif event in _CHANGES:
            path, changes = given[0], True
        else:
            return
        # What is removed with its folder is named from that folder on.
        if changes and isinstance(path, str | Path) and (not os.path.isabs(path) or str(path).startswith(self._home)):
            self._here(f"{event} {Path(path).suffix or Path(path).name}")

    def _here(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Carry out orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what it logs is no answer
            names = asyncio.run(_work(order))
            with os.fdopen(writing, "w") as told:
                json.dump(names, told)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as tells:
            told_steps = tells.read()
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        steps = json.loads(told_steps) if told_steps else None
        print(json.dumps({"killed": killed, "status": status, "steps": steps}), flush=True)


async def _work(order: dict[str, Any]) -> list[str]:
    database = await Database.connect(order["uri"], "neo4j", order["password"], "neo4j", pool_size=5)
    steps = Steps(order["point"], order.get("home", ""))
    await _WORK[order["work"]](database, order, steps)
    names = list(steps.names)
    await database.close()
    return names


async def _tool(database: Database, order: dict[str, Any], steps: Steps) -> None:
    """One call of a tool of the memory: ``tool``, ``tenant``, ``arguments``."""
    limits = LimitSettings(write_seconds=60, read_seconds=60)
    settings = Settings(limits=limits, embedding=EmbeddingSettings(embedding="none"))
    service = MemoryService(database, Silent(), settings)  # type: ignore[arg-type]
    agent = Agent(service, order["tenant"], ("",), "")
    arguments = order["arguments"]
    if NEWEST in arguments.values():
        listed = await use(agent, order["tool"], {})
        arguments = {**arguments, "undo_id": listed["changes"][0]["undo_id"]}
    steps.begin()
    await use(agent, order["tool"], arguments)
    await service.close()


async def _restore(database: Database, order: dict[str, Any], steps: Steps) -> None:
    """A restore of ``file`` in the place of what ``tenant`` (a control id) holds, as the command does it."""
    tenant = await Tenants(database.control).by_id(order["tenant"])
    assert tenant is not None
    settings = Settings(run=RunSettings(home=Path(order["home"])), embedding=EmbeddingSettings(embedding="none"))
    steps.begin()
    await restore(database, settings, tenant, Path(order["file"]), alone=True, replace=True)


async def _accept(database: Database, order: dict[str, Any], steps: Steps) -> None:
    """A transcript of ``texts`` that arrives from behind its route."""
    sender = Sender(service_at(database, Path(order["home"])), order["tenant"])
    steps.begin()
    await sender.send("s-1.jsonl", talk(*order["texts"]))


async def _convert(database: Database, order: dict[str, Any], steps: Steps) -> None:
    """The worker's next item, which is the tenant's."""
    service = service_at(database, Path(order["home"]))
    service.worker._served = order["tenant"][:-1]  # whoever else left something was served before
    steps.begin()
    assert await service.worker.step()


async def _queue(database: Database, order: dict[str, Any], steps: Steps) -> None:
    """What a run does with an item of the queue: ``action``, ``arguments``."""
    sender = Sender(service_at(database, Path(order["home"])), order["tenant"])
    steps.begin()
    await sender.ask(order["action"], **order["arguments"])


async def use(agent: Agent, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool of the memory."""
    tool = next(tool for tool in TOOLS if tool.name == name)
    return dict(await tool.run(agent.service, agent.call(name), tool.input.model_validate(arguments)))


_WORK: Final[dict[str, Callable[[Database, dict[str, Any], Steps], Awaitable[None]]]] = {
    "tool": _tool,
    "restore": _restore,
    "accept": _accept,
    "convert": _convert,
    "queue": _queue,
}

if __name__ == "__main__":
    main()

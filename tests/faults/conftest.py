from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from app.memory.service import MemoryService
from app.settings import EmbeddingSettings, LimitSettings, Settings
from app.store.database import Database
from tests.conftest import Server
from tests.faults.crashing import Silent
from tests.gateway import Gateway, owner_token, running, settings_for
from tests.memory.conftest import Agent

Process = Callable[[int, dict[str, Any]], Awaitable[list[str] | None]]


@pytest_asyncio.fixture(scope="package")
async def process(neo4j_server: Server) -> AsyncIterator[Process]:
    """``process(point, order)``: a piece of work in a process that dies at that step (``tests.faults.crashing``).

    The answer is None when it died, or the steps that it took.
    """
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.crashing"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=dict(os.environ),
    )
    assert started.stdin is not None
    assert started.stdout is not None
    stdin, stdout = started.stdin, started.stdout

    async def ordered(point: int, order: dict[str, Any]) -> list[str] | None:
        whole = {"uri": neo4j_server.uri, "password": neo4j_server.password, "point": point, **order}
        stdin.write(json.dumps(whole).encode() + b"\n")
        await stdin.drain()
        answer = json.loads(await asyncio.wait_for(stdout.readline(), 60))
        assert answer["killed"] or answer["status"] == 0, "the child failed by itself"
        steps: list[str] | None = answer["steps"]
        return steps

    yield ordered
    stdin.close()
    await started.wait()


@pytest_asyncio.fixture
async def crashed_agent(database: Database, tenant: str) -> AsyncIterator[Agent]:
    """Whose processes die."""
    settings = Settings(limits=LimitSettings(), embedding=EmbeddingSettings(embedding="none"))
    service = MemoryService(database, Silent(), settings)  # type: ignore[arg-type]
    yield Agent(service, tenant, ("",), "")
    await service.close()


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    """A whole gateway without a model."""
    limits = LimitSettings(calls_per_minute=100_000, burst=10_000, write_seconds=60, read_seconds=60)
    settings = settings_for(neo4j_server, tmp_path_factory.mktemp("gk"), limits=limits)
    async with running(settings, await owner_token(settings, database)) as found:
        yield found

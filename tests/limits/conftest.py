"""A Redis of our own, really run."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis.asyncio as aio

from tests.edge.conftest import serve
from tests.ports import free_port

__all__ = ["RedisServer", "kind", "redis_server", "serve"]


class RedisServer:
    """A redis-server that can be stopped and started again at the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is missing: run `make test-deps`"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: ASYNC220 - forks at once
        async with asyncio.timeout(10):
            while not await self._answers():  # noqa: ASYNC110 - another process has no event
                await asyncio.sleep(0.02)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await asyncio.to_thread(self._process.wait, 10)
            self._process = None

    async def _answers(self) -> bool:
        client = aio.Redis.from_url(self.url)
        try:
            return bool(await client.ping())
        except (aio.RedisError, OSError):
            return False
        finally:
            await client.aclose()


@pytest_asyncio.fixture
async def redis_server(tmp_path: Path) -> AsyncIterator[RedisServer]:
    server = RedisServer(tmp_path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(params=["in process", "Redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)

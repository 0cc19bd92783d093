from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from app.settings import LimitSettings
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import Gateway, owner_token, running, settings_for


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Gateway]:
    """A whole gateway without a model."""
    limits = LimitSettings(calls_per_minute=100_000, burst=10_000, write_seconds=60, read_seconds=60)
    settings = settings_for(neo4j_server, tmp_path_factory.mktemp("gk"), limits=limits)
    async with running(settings, await owner_token(settings, database)) as found:
        yield found

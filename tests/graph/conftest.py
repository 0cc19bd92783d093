"""Sessions with time to spare: a busy machine must not fail a test of what is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import pytest_asyncio

from app.store.database import Database, TenantSession
from app.store.schema import ensure_vector_index


@pytest.fixture
def open_session(open_session: Callable[..., TenantSession]) -> Callable[..., TenantSession]:
    return partial(open_session, seconds=600.0)


@pytest_asyncio.fixture(scope="module")
async def vector_index(database: Database) -> None:
    """The index over vectors, which a gateway makes once it knows its model: a fresh database has none."""
    await ensure_vector_index(database, 384)

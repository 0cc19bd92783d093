"""Tenants with names, and what they hold, as the files of the moving room show it."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio

from app.context import Deadline, Scope
from app.memory.service import MemoryService
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from app.store.moving.dump import Dump
from tests.identity import fresh_name
from tests.memory.conftest import Agent

LAYERS = ("", "work")


async def lines_of(
    database: Database, data: str, layers: tuple[str, ...] = LAYERS, *, vectors: bool = False
) -> list[bytes]:
    """A dump of a data id, line by line."""

    def opened(scope: Scope) -> Any:
        return database.session(scope, deadline=Deadline.after(15), request_id="test")

    dump = Dump(opened, data, layers, vectors=vectors)
    pieces = [piece async for piece in dump.lines({"nodes": 0, "edges": 0})]
    return b"".join(pieces).splitlines(keepends=True)


async def records_of(database: Database, data: str, *, vectors: bool = False) -> list[dict[str, Any]]:
    """The records that a data id holds."""
    read = [orjson.loads(line) for line in await lines_of(database, data, vectors=vectors)]
    return [{key: value for key, value in each.items() if key != "crc"} for each in read[1:-1]]


async def learn(service: MemoryService, data: str) -> None:
    """Two layers with everything that a record can have."""
    wide, work = Agent(service, data, ("",), ""), Agent(service, data, LAYERS, "work")
    await wide.batch(
        [
            {"name": "Ada", "type": "Person", "properties": {"role": "countess", "mood": {"now": "calm"}}},
            {"name": "Babbage Ltd", "type": "Organization"},
            {"name": "Royal Society", "type": "Organization"},
            {"name": "日本", "type": "Concept", "properties": {"content": "a country"}},
        ],
        [
            {"from": "Ada", "relation": "WORKS_AT", "to": "Babbage Ltd", "valid_at": "2020-01-01", "evidence": "said"},
            {"from": "Ada", "relation": "WORKS_AT", "to": "Royal Society", "valid_at": "2022-01-01"},
            {"from": "Ada", "relation": "KNOWS_ABOUT", "to": "日本", "properties": {"depth": "deep", "odd": [1, 2]}},
        ],
        source_session="s1",
    )
    await wide.relate("Ada", "WORKS_AT", "Babbage Ltd", to_type="Organization", valid_at="2024-01-01")  # a past
    await wide.relate("Countess", "ALIAS_OF", "Ada", to_type="Person")
    await work.relate("Ada", "USES", "Engine", evidence="at work")


_LEARNED: list[str] = []


@pytest_asyncio.fixture
async def learned(service: MemoryService) -> str:
    """A tenant that has learnt: many tests read it and none changes it."""
    if not _LEARNED:
        data = fresh_name("learned")
        await learn(service, data)
        _LEARNED.append(data)
    return _LEARNED[0]


@pytest.fixture
def new_tenant(database: Database) -> Callable[[], Awaitable[Tenant]]:
    """A tenant with a name, the layer `work` and nothing in it."""

    async def made() -> Tenant:
        tenants = Tenants(database.control)
        tenant = await tenants.create(f"moved {secrets.token_hex(6)}")
        found = await tenants.add_layers(tenant.id, ["work"])
        assert found is not None
        return found

    return made


@pytest.fixture
def backup(database: Database, tmp_path: Path) -> Callable[[str], Awaitable[Path]]:
    """``backup(data)``: a file of what a data id holds."""

    async def written(data: str) -> Path:
        path = tmp_path / f"{secrets.token_hex(4)}.jsonl"
        path.write_bytes(b"".join(await lines_of(database, data)))
        return path

    return written

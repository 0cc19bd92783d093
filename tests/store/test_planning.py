"""Plans are made before the first call needs them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import app.graph.queries  # registers its statements
import app.memory.figures.queries
from app.main import FIRST, ROOMS
from app.memory.tools import TOOLS
from app.store.database import Database
from app.store.planning import EXAMPLES, NOBODY, plan_ahead
from app.store.schema import ensure_vector_index
from app.store.statement import REGISTERED
from tests.conftest import Server
from tests.gateway import running, settings_for


def _of_tools():
    return {name: found for name, found in REGISTERED.items() if name.split(".")[0] in ROOMS}


def test_every_parameter_of_a_tools_statement_has_an_example():
    wanted = {name for found in _of_tools().values() for name in found.parameters}
    assert wanted - EXAMPLES.keys() == {"vector"}


async def test_every_statement_of_the_tools_runs_and_leaves_nothing(database: Database, open_session):
    await ensure_vector_index(database, 384)
    assert await plan_ahead(database, ROOMS) + await plan_ahead(database, ROOMS, dimension=384) >= len(_of_tools()) > 10
    rows = await open_session(NOBODY, layers=(NOBODY,)).read(app.memory.figures.queries.COUNT_ENTITIES)
    assert rows == []


async def test_what_a_new_clients_first_calls_run_is_planned_by_name(database: Database):
    assert await plan_ahead(database, FIRST) == len(FIRST) > 10


async def test_a_database_that_is_away_is_no_failure():
    away = await Database.connect("bolt://127.0.0.1:9", "neo4j", "nothing", "neo4j", pool_size=2)
    try:
        assert await plan_ahead(away, ROOMS) == 0
    finally:
        await away.close()


async def test_only_the_rooms_of_tools_are_planned(database: Database):
    assert await plan_ahead(database, ()) == 0
    assert {"graph", *(tool.toolset for tool in TOOLS)} == ROOMS


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_gateway_plans_at_its_start_unless_it_is_told_not_to(
    neo4j_server: Server, tmp_path: Path, capfd: pytest.CaptureFixture[str], wanted: bool
) -> None:
    planned: list[int] = []
    async with running(settings_for(neo4j_server, tmp_path, plan_ahead=wanted), ""), asyncio.timeout(120):
        while not planned:
            await asyncio.sleep(0.1)
            lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
            planned = [line["statements"] for line in lines if line.get("event") == "planned"]
    assert (planned[0] > 10) is wanted, planned

"""The SDK's client as Claude's connectors use it, over everything that may happen to a gateway between two requests."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from app.store.database import Database
from tests.conftest import Server
from tests.e2e.houses import RESTARTED, InProcess, Processes
from tests.e2e.lives import KINDS, Life, live_together

LIVES = 10
SOAKED = 200


def told(lives: Sequence[Life], seconds: float) -> str:
    durations = sorted(duration for life in lives for duration in life.durations)
    return (
        f"{len(lives)} lives of the SDK's client, none failed, {seconds:.0f} s; authorize to token, p50 of "
        f"{len(durations)}: {statistics.median(durations) * 1000:.0f} ms"
    )


async def test_ten_lives_over_restarts_and_two_replicas(
    neo4j_server: Server, database: Database, tmp_path: Path, show: Callable[[str], None]
) -> None:
    began = time.monotonic()
    async with InProcess.opened(neo4j_server, [tmp_path / "a", tmp_path / "b"]) as house:
        lives = await live_together(house, database, LIVES)
        assert house.generation > 9
    assert {life.kind for life in lives} == set(KINDS)
    show(told(lives, time.monotonic() - began))


@pytest.mark.soak
async def test_a_life_over_real_processes_that_are_stopped_and_killed(
    neo4j_server: Server, database: Database, tmp_path: Path, show: Callable[[str], None]
) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    for home in homes:
        home.mkdir()
    began = time.monotonic()
    async with Processes.opened(neo4j_server, homes) as house:
        lives = await live_together(house, database, 1, expiring=False)
        assert house.generation == 1 + len(RESTARTED)
    show(f"over real processes, {house.generation} starts of each: {told(lives, time.monotonic() - began)}")


@pytest.mark.soak
async def test_two_hundred_lives(
    neo4j_server: Server, database: Database, tmp_path: Path, show: Callable[[str], None]
) -> None:
    began = time.monotonic()
    lives: list[Life] = []
    async with InProcess.opened(neo4j_server, [tmp_path / "a", tmp_path / "b"]) as house:
        while len(lives) < SOAKED:
            lives += await live_together(house, database, LIVES, first=len(lives))
    show(told(lives, time.monotonic() - began))

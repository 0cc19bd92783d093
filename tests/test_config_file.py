"""``config.json`` of the graph-memory server is a layer under the environment, and never costs a start."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.client.reading import read_settings
from app.config_file import read, warnings
from app.contract import DeadlineClass
from app.limits.deadlines import Deadlines
from app.settings import LimitSettings, MemorySettings


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHKEEP_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(home: Path, said: object) -> None:
    read.cache_clear()
    (home / "config.json").write_text(said if isinstance(said, str) else json.dumps(said))


def test_its_keys_count_where_the_environment_says_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        home,
        {
            "weights": {"boost_on_confirm": 0.25, "weaken_on_correct": 0.4},
            "decay": {"rates": {"Person": 0.9, "Recipe": 0.99}, "prune_orphan_days": 90},
            "neo4j": {"uri": "bolt://elsewhere"},
            "query": {"colour": "red"},
        },
    )
    monkeypatch.setenv("GRAPHKEEP_WEAKEN", "0.1")
    memory = MemorySettings()
    assert (memory.boost, memory.weaken, memory.prune_orphan_days) == (0.25, 0.1, 90)
    assert (memory.rates["Person"], memory.rates["Recipe"], memory.rates["Event"]) == (0.9, 0.99, 0.993)
    assert warnings() == (
        "config.json: nothing here is set by query.colour",
        "config.json: neo4j.uri: only the environment names the database (NEO4J_URI, ...)",
    )
    assert memory.warnings() == ()


def test_what_is_out_of_range_is_clamped_with_one_warning_each(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        home,
        {
            "weights": {"boost_on_confirm": 7, "weaken_on_correct": "much"},
            "decay": {"rates": {"a b": 1}},
            "query": {"default_max_hops": 2.5, "cypher_timeout_ms": 0},
        },
    )
    memory = read_settings().memory
    assert (memory.boost, memory.weaken) == (1.0, 0.2)
    assert capsys.readouterr().err.splitlines() == [
        "warning: config.json: weights.boost_on_confirm is 7, taken as 1",
        "warning: config.json: weights.weaken_on_correct is no number; the default counts",
        "warning: config.json: query.default_max_hops is 2.5, taken as 2",
        "warning: config.json: decay.rates.a b names no type; it does not count",
        "warning: config.json: query.cypher_timeout_ms is 0, taken as 1",
    ]


@pytest.mark.parametrize("said", ["{", "[]", '"text"'])
def test_a_file_that_is_no_configuration_is_said_and_the_defaults_count(home: Path, said: str) -> None:
    write(home, said)
    assert MemorySettings().boost == 0.15
    assert len(warnings()) == 1


def test_no_file_is_no_matter(home: Path) -> None:
    read.cache_clear()
    assert (warnings(), MemorySettings().warnings()) == ((), ())


def test_the_time_of_raw_queries_is_given_in_milliseconds(home: Path) -> None:
    write(home, {"query": {"cypher_timeout_ms": 2500}})
    assert 2 < Deadlines(LimitSettings()).of(DeadlineClass.CYPHER).remaining() <= 2.5

"""The bench still runs: the small size says nothing of speed, only that every part of it works."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from bench.cases import CASES
from bench.figures import Figures, percentile, table
from bench.job import Job
from bench.load import measure
from bench.picture import drawn
from bench.report import text, verdicts
from bench.script import Step, Tape, renamed, renewed
from tests.conftest import engine_cache

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {"date": "d", "commit": "c", "cores": 2, "processor": "p", "python": "3", "load_1_5_15": [1]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The result of ``python -m bench --small``, and what it printed."""
    return bench(tmp_path_factory.mktemp("bench") / "result.json", "calls", "--small")


def bench(out, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments, "--out", str(out)],
        cwd=ROOT,
        env={**os.environ, "GRAPHKEEP_ENGINE_CACHE": str(engine_cache())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return orjson.loads(out.read_bytes()), done.stdout


@pytest.mark.soak
def test_every_case_is_measured_beside_the_bare_driver(measured):
    result, _ = measured
    by_clients = {(row["case"], row["clients"]) for row in result["cases"]}
    assert not [row["failed"] for row in result["cases"] if "failed" in row]
    assert by_clients == {(case.name, clients) for case in CASES for clients in ((1, 2) if case.crowd else (1,))}
    for row in result["cases"]:
        assert row["gateway"]["calls"] > 0 < row["gateway"]["p50"]
        assert ("driver" in row) == next(case.driver for case in CASES if case.name == row["case"])
        assert all(row[by]["p50"] > 0 for by in ("driver", "driver_and_model") if by in row)
        assert row["rss_mib"] > 50
    assert "sdk_client" in result["cases"][0]


@pytest.mark.soak
def test_the_noisy_tenant_is_refused_and_the_other_is_served(measured):
    noise = measured[0]["noisy_neighbour"]
    assert noise["quiet"]["calls"] == noise["noisy"]["calls"] > 0
    assert noise["served"] > 0


@pytest.mark.soak
def test_the_table_names_every_target_and_what_was_measured_on(measured):
    result, printed = measured
    assert all(what in printed for what, *_ in result["verdicts"])
    assert result["circumstances"]["commit"] in printed
    assert f"{result['circumstances']['cores']} cores" in printed


@pytest.mark.soak
def test_identity_is_measured_from_request_to_tokens_and_at_each_call(tmp_path):
    result, printed = bench(tmp_path / "result.json", "identity", "--small")
    found = result["identity"]
    assert found["authorize_to_token"]["calls"] == 10
    assert all(p50 > 0 for p50 in found["steps_p50_ms"].values())
    assert all(0 < one["judged before"] < one["new"] for one in found["verify_us"].values())
    assert f"p50 {found['authorize_to_token']['p50']:.2f} ms" in printed


@pytest.mark.soak
def test_an_import_is_measured_beside_the_driver_that_writes_the_same(tmp_path):
    result, printed = bench(tmp_path / "result.json", "import", "--small")
    found = result["import"]
    assert found["relations"] == 600
    assert 0 < found["of_the_drivers"] < 1
    assert f"{found['per_minute']:,} a minute" in printed
    assert [what for what, *_ in result["verdicts"]] == ["import, relations a minute"]


def test_a_retrieval_that_was_stopped_tells_what_it_has():
    figures = {"graph_search, facts alone": [0.5, 0.6, 0.4], "words alone": [0.4, 0.5, 0.3]}
    result = {"circumstances": ABOUT, "load_after": 2, "cases": [], "retrieval": {}}
    result["verdicts"] = verdicts(result)
    assert text(result)
    result["retrieval"] |= {"26.json": {"figures": figures}, "all": {"figures": figures}}
    assert [reached for *_, reached in verdicts(result)] == [True, True, True]
    assert "| 26.json" in text(result)


def test_what_identity_costs_is_told_without_the_tables_of_calls():
    identity = {
        "authorize_to_token": Figures.of([0.2] * 10, 2.0).as_dict(),
        "steps_p50_ms": {"token": 63.3},
        "verify_us": {"access token": {"judged before": 9.1, "new": 240.5}},
    }
    told = text({"circumstances": ABOUT, "load_after": 2, "cases": [], "verdicts": [], "identity": identity})
    assert "Authorize to token, 10 times: p50 200.00 ms" in told
    assert "| access token | 9.1               | 240.5                  |" in told
    assert "calls/s" not in told


def test_a_missed_target_is_said():
    slow, fast = Figures.of([0.2] * 10, 2.0).as_dict(), Figures.of([0.001] * 10, 0.01).as_dict()
    slow["cpu_ms"] = fast["cpu_ms"] = 1.0
    row = {"case": "entity by id", "target_p95": 100, "gateway": slow, "driver": fast, "rss_mib": 1}
    alone = {"case": "unmerge", "target_p95": 100, "gateway": slow, "rss_mib": 1, "clients": 1}
    failed = {"case": "search", "target_p95": 200, "clients": 1, "failed": "1 calls failed"}
    cases = [{**row, "clients": 1}, {**row, "clients": 8}, alone, failed]
    found = verdicts({"cases": cases})
    assert [reached for *_, reached in found] == [False] * 5
    told = text({"circumstances": ABOUT, "load_after": 2, "cases": cases, "verdicts": found})
    assert "| 100        | 200.00              | 1       |" in told
    assert "unmerge: p95, 1 client" in told
    picture = drawn({"circumstances": ABOUT, "cases": cases})
    assert picture.count('class="late"') == 3  # the two cases with one client, and the key
    assert "unmerge: 200 ms, target 100 ms" in picture


async def test_a_turn_makes_no_call_that_would_begin_too_late():
    async with await asyncio.start_server(_answering, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        everything = await measure(Job("http", [b"call\n"] * 6, 2, url=url))
        at_once = await measure(Job("http", [b"call\n"] * 6, 2, url=url, seconds=0))
    assert (len(everything.seconds), len(at_once.seconds)) == (6, 2)


async def _answering(reader, writer):
    while await reader.readline():
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    writer.close()


def test_entries_of_the_audit_trail_get_ids_of_their_own():
    drawn_id, own = f"au-{'a' * 24}", {"id": "ada-lovelace"}
    step = Step("write", [("RETURN 1", {"id": drawn_id, "at": 1}), ("RETURN 2", own)])
    (first,), (second,) = renewed([[step]])[0], renewed([[step]])[0]
    ids = {each.statements[0][1]["id"] for each in (step, first, second)}
    assert len(ids) == 3
    assert all(id_.startswith("au-") and len(id_) == len(drawn_id) for id_ in ids)
    assert first.statements[1][1] == own


def test_percentiles_are_those_of_the_nearest_rank():
    assert percentile([float(value) for value in range(100)], 0.95) == 95
    assert Figures.of([0.001, 0.002, 0.003], 3.0).p50 == 2.0


def test_a_table_has_aligned_columns():
    assert table(["a", "b"], [["long cell", 1]]).splitlines()[1] == "|-----------|---|"


def test_a_script_is_about_other_names_and_keeps_its_vectors():
    step = Step("write", [("RETURN 1", {"rows": [{"id": "guest-x1x", "vector": [0.5, 0.25]}]})], ["Guest x1x"])
    (changed,) = renamed([[step]], "x1x", "x2x")[0]
    assert changed.statements[0][1] == {"rows": [{"id": "guest-x2x", "vector": [0.5, 0.25]}]}
    assert (changed.texts, step.texts) == (["Guest x2x"], ["Guest x1x"])


def test_steps_that_overlapped_are_played_together():
    tape = Tape()
    first, second = tape.begin("read"), tape.begin("embed")
    first.ended = second.ended = second.began + 1
    third = tape.begin("read")
    third.began, third.ended = second.ended + 1, second.ended + 2
    assert tape.take() == [[first, second], [third]]
    assert tape.take() == []

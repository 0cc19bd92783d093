"""What was measured, on what, and whether it reaches the targets."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final

import psutil

from bench.cases import CASES
from bench.figures import table
from bench.importing import TARGET
from bench.measure import NEIGHBOURLY
from bench.retrieval import GRAPH_SEARCH

__all__ = ["circumstances", "text", "verdicts"]

ADDED_MS: Final = 2.0
SHARE: Final = 0.45
NOISE: Final = 0.25
FLAT_MIB: Final = 8.0
_CROWDED: Final = frozenset(case.name for case in CASES if case.crowd)
PACKAGES: Final = (
    "graphkeep",
    "mcp",
    "neo4j",
    "neo4j-rust-ext",
    "starlette",
    "uvicorn",
    "uvloop",
    "orjson",
    "pydantic",
)


def circumstances() -> dict[str, Any]:
    """Machine, versions, load and commit."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "python": sys.version.split()[0],
        "system": platform.platform(terse=True),
        "packages": {name: version(name) for name in PACKAGES},
        "load_1_5_15": [round(value, 2) for value in os.getloadavg()],
        "commit": _commit(),
    }


def verdicts(result: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    """(what, target, measured, reached) of every target."""
    found = [verdict for row in result["cases"] for verdict in _of_case(row)]
    if "all" in result.get("retrieval", {}):
        found += _beaten(result["retrieval"]["all"]["figures"])
    if "import" in result:
        rate = result["import"]["per_minute"]
        found.append(("import, relations a minute", f">= {TARGET:,}", f"{rate:,}", rate >= TARGET))
    noise = result.get("noisy_neighbour")
    if noise:
        moved = noise["noisy"]["p95"] / noise["quiet"]["p95"] - 1
        found.append(("noisy tenant moves another's p95", f"< {NOISE:.0%}", f"{moved:+.0%}", moved < NOISE))
    memory = result.get("handshakes")
    if memory:
        grown = memory["growth_mib"]
        what = f"memory over {memory['calls']} initialize calls"
        found.append((what, f"flat (< {FLAT_MIB:g} MiB)", f"{grown:+.1f} MiB", grown < FLAT_MIB))
    return found


def _of_case(row: dict[str, Any]) -> list[tuple[str, str, str, bool]]:
    name = row["case"]
    if "failed" in row:
        return [(f"{name}: served", "every call", row["failed"][:80], False)]
    found, gate = [], row["gateway"]
    beside = row.get("driver_and_model", row.get("driver"))
    if row["clients"] == 1:
        if name in _CROWDED and beside:
            added = gate["p50"] - beside["p50"]
            of = f"{name}: added p50, 1 client"
            found.append((of, f"<= {ADDED_MS:g} ms", f"{added:.2f} ms", added <= ADDED_MS))
        if row["target_p95"] is not None:
            most, p95 = row["target_p95"], gate["p95"]
            found.append((f"{name}: p95, 1 client", f"< {most:g} ms", f"{p95:.1f} ms", p95 < most))
    elif beside:
        share = gate["per_second"] / beside["per_second"]
        of = f"{name}: throughput, {row['clients']} clients, of the driver's"
        found.append((of, f">= {SHARE:.0%}", f"{share:.0%}", share >= SHARE))
    return found


def text(result: dict[str, Any]) -> str:
    """The result as tables for people."""
    rows = []
    for row in result["cases"]:
        for kind in ("driver", "driver_and_model", "gateway", "sdk_client"):
            if kind in row:
                one = row[kind]
                shown = [f"{one[name]:.2f}" for name in ("p50", "p95", "p99", "cpu_ms")]
                own = _beside_target(row) if kind == "gateway" else ["", "", ""]
                about = [row["case"], row["clients"], kind.replace("_", " "), one["calls"]]
                rows.append([*about, *shown, one["per_second"], *own])
    headings = ["case", "clients", "by", "calls", "p50 ms", "p95 ms", "p99 ms", "CPU ms", "calls/s"]
    headings += ["target p95", "p50 of the driver's", "RSS MiB"]
    judged = [
        [what, target, measured, "yes" if reached else "NO"] for what, target, measured, reached in result["verdicts"]
    ]
    about = result["circumstances"]
    parts = [
        f"{about['date']}, commit {about['commit']}, {about['cores']} cores ({about['processor']}), Python "
        f"{about['python']}, load {about['load_1_5_15'][0]} before and {result['load_after']} after",
        *([table(headings, rows)] if rows else []),
        *([table(["target", "to reach", "measured", "reached"], judged)] if judged else []),
        *(_identity(result["identity"]) if "identity" in result else []),
        *(_import(result["import"]) if "import" in result else []),
        *(_retrieval(result["retrieval"]) if "retrieval" in result else []),
    ]
    noise = result.get("noisy_neighbour")
    if noise:
        parts.append(
            f"Noisy neighbour ({NEIGHBOURLY.name}, default limits): p95 {noise['quiet']['p95']} ms quiet, "
            f"{noise['noisy']['p95']} ms noisy; of the noisy tenant's calls {noise['served']} served, "
            f"{noise['refused']} refused."
        )
    memory = result.get("handshakes")
    if memory:
        parts.append(f"Memory over {memory['calls']} initialize calls, MiB: {memory['rss_mib']}")
    return "\n\n".join(parts)


def _beside_target(row: dict[str, Any]) -> list[object]:
    """Of the gateway's line: target of the 95th percentile, its median as a multiple of the driver's, its memory."""
    target, beside = row["target_p95"], row.get("driver_and_model", row.get("driver"))
    shown = f"{row['gateway']['p50'] / beside['p50']:.2f}" if beside and beside["p50"] else ""
    return ["" if target is None or row["clients"] > 1 else f"{target:g}", shown, row["rss_mib"]]


def _identity(found: dict[str, Any]) -> list[str]:
    whole = found["authorize_to_token"]
    way = [[step, f"{p50:.2f}"] for step, p50 in found["steps_p50_ms"].items()]
    judging = [[kind, one["judged before"], one["new"]] for kind, one in found["verify_us"].items()]
    return [
        f"Authorize to token, {whole['calls']} times: p50 {whole['p50']:.2f} ms, p95 {whole['p95']:.2f} ms, "
        f"p99 {whole['p99']:.2f} ms.",
        table(["step", "p50 ms"], way),
        table(["verifying an", "judged before, µs", "new to the replica, µs"], judging),
    ]


def _import(found: dict[str, Any]) -> list[str]:
    return [
        f"Import of {found['relations']:,} relations among {found['entities']:,} entities: {found['seconds']} s, "
        f"{found['per_minute']:,} a minute. The driver alone writes the same records in {found['driver_seconds']} s: "
        f"the import has {found['of_the_drivers']:.0%} of its rate."
    ]


def _retrieval(found: dict[str, Any]) -> list[str]:
    rows = [
        [file, way, *(f"{figure:.3f}" for figure in figures)]
        for file, row in found.items()
        for way, figures in row["figures"].items()
    ]
    return [table(["conversation", "found by", "recall@5", "recall@10", "MRR"], rows)]


def _beaten(figures: dict[str, list[float]]) -> list[tuple[str, str, str, bool]]:
    ours = figures[GRAPH_SEARCH]
    plain = [figure for way, figure in figures.items() if not way.startswith("graph_search")]
    best = [max(figure[place] for figure in plain) for place in range(3)]
    names = ("recall@5", "recall@10", "MRR")
    return [
        (f"{name} beside the best baseline", f"> {least:.3f}", f"{found:.3f}", found > least)
        for name, least, found in zip(names, best, ours, strict=True)
    ]


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"

"""``python -m bench [PART] [--small] [--case PATTERN] [--out FILE]``: what things cost (method: docs/BENCHMARKS.md)."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from bench import identity, importing, measure, report, retrieval
from bench.measure import Size
from bench.stage import UNLIMITED, gateway, opened

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the gateway beside the bare driver.")
    parser.add_argument("part", nargs="?", choices=PARTS, default="calls", help="what is measured")
    parser.add_argument("--small", action="store_true", help="only see whether the bench runs; its figures say nothing")
    parser.add_argument("--case", default="", metavar="PATTERN", help="calls: only cases in whose name it is found")
    parser.add_argument("--out", type=Path, help="file of the JSON result; default: bench/results/<time>.json")
    chosen = parser.parse_args()
    out = chosen.out or RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"circumstances": report.circumstances(), "chosen": chosen.case, "cases": []}
    began = time.monotonic()
    try:
        asyncio.run(PARTS[chosen.part](Size.small() if chosen.small else Size.full(), result))
    finally:  # a run that was stopped leaves what it has
        result["seconds"] = round(time.monotonic() - began)
        result["load_after"] = round(os.getloadavg()[0], 2)
        result["verdicts"] = report.verdicts(result)
        out.write_bytes(orjson.dumps(result, option=orjson.OPT_INDENT_2))
        print(f"{report.text(result)}\n\n{out}")


async def run(size: Size, result: dict[str, Any]) -> None:
    """Measure everything once, into ``result``."""
    result["size"] = size.__dict__
    with tempfile.TemporaryDirectory(prefix="graphkeep-bench-") as folder:
        async with opened(
            Path(folder), tenants=size.tenants, entities=size.entities, relations=size.relations
        ) as stage:
            result["filled_seconds"] = round(stage.filled_seconds, 1)
            async with gateway(stage, limits=UNLIMITED) as running:
                async for row in measure.all_cases(stage, size, running, result["chosen"]):
                    result["cases"].append(row)
                if result["chosen"]:
                    return
                result["handshakes"] = await measure.handshakes(stage, size, running)
            result["noisy_neighbour"] = await measure.noisy_neighbour(stage, size)


async def run_identity(size: Size, result: dict[str, Any]) -> None:
    """Measure what identity costs, into ``result``. The graph has no part in it, so a small one will do."""
    small = Size.small()
    result["size"] = small.__dict__ | {"calls": size.calls}
    with tempfile.TemporaryDirectory(prefix="graphkeep-bench-") as folder:
        async with (
            opened(Path(folder), tenants=small.tenants, entities=small.entities, relations=small.relations) as stage,
            gateway(stage, limits=UNLIMITED) as running,
        ):
            result["identity"] = await identity.measured(
                stage, running, connections=size.calls, verifications=size.calls * 100
            )


async def run_retrieval(size: Size, result: dict[str, Any]) -> None:
    """Measure what a search finds again, into ``result``; a small run takes one conversation."""
    files = retrieval.conversations()[: 1 if size == Size.small() else None]
    if not files:
        raise SystemExit(
            "GRAPHKEEP_TEST_DATA names no folder with locomo/*.json; the conversations are not ours to ship"
        )
    small = Size.small()
    with tempfile.TemporaryDirectory(prefix="graphkeep-bench-") as folder:
        async with (
            opened(Path(folder), tenants=small.tenants, entities=small.entities, relations=small.relations) as stage,
            gateway(stage, limits=UNLIMITED) as running,
        ):
            await retrieval.measured(stage, running, files, result.setdefault("retrieval", {}))


async def run_import(size: Size, result: dict[str, Any]) -> None:
    """Measure how fast relations come in, into ``result``."""
    small = Size.small()
    relations = 600 if size == small else importing.TARGET
    with tempfile.TemporaryDirectory(prefix="graphkeep-bench-") as folder:
        async with opened(
            Path(folder), tenants=small.tenants, entities=small.entities, relations=small.relations
        ) as stage:
            result["import"] = await importing.measured(stage, relations)


PARTS: Final = {"calls": run, "identity": run_identity, "import": run_import, "retrieval": run_retrieval}


if __name__ == "__main__":
    main()

"""How fast another system's relations come in, beside a bare driver that writes the same records."""

from __future__ import annotations

import asyncio
import random
import time
from itertools import chain
from pathlib import Path
from typing import Any, Final

from app.memory.moving.importing import import_memory
from app.store.moving.queries import WRITE_ALIASES, WRITE_EDGES, WRITE_NODES
from bench.script import Script, play, renamed
from bench.stage import Stage, said

__all__ = ["TARGET", "measured"]

TARGET: Final = 50_000
"""Relations a minute."""
_WRITING: Final = frozenset(each.text for each in (WRITE_NODES, WRITE_ALIASES, WRITE_EDGES))
_SHOWN_SECONDS: Final = 5.0


async def measured(stage: Stage, relations: int) -> dict[str, Any]:
    """Import a table of that many relations into a new tenant, then let the driver write the same records again.

    ``{relations, entities, seconds, per_minute, driver_seconds, of_the_drivers}``; the last is the rate as a share of
    the driver's.
    """
    path = stage.home / "triplets.csv"
    await asyncio.to_thread(_write, path, relations)
    tenant = await stage.accounts.create_tenant("importing")
    stage.tape.take()
    said(f"Importing {relations:,} relations")
    began = time.perf_counter()
    done = await import_memory(
        *(stage.service.database, stage.service.settings, tenant, path, "triplets"), alone=True, shown=_shown()
    )
    seconds = time.perf_counter() - began
    script = _writes(stage.tape.take())
    (data,) = {parameters["tenant"] for step in chain(*script) for _, parameters in step.statements}
    script = renamed(script, data, f"{data}x")
    said("Writing the same records with the driver alone")
    async with stage.target.driver() as driver:
        began = time.perf_counter()
        await play(driver, stage.target.database, script, None)
        alone = time.perf_counter() - began
    return {
        "relations": done.relations,
        "entities": done.entities,
        "seconds": round(seconds, 2),
        "per_minute": round(60 * done.relations / seconds),
        "driver_seconds": round(alone, 2),
        "of_the_drivers": round(alone / seconds, 3),
    }


def _write(path: Path, relations: int) -> None:
    """A third as many things as relations, the relations spread unevenly; no two are the same."""
    told, things = random.Random(7), max(2, relations // 3)
    rows: dict[str, None] = {}
    while len(rows) < relations:
        ends = (int(things * told.random() ** 2), told.randrange(things))
        rows[f"thing {ends[0]},{told.choice(['uses', 'knows', 'depends on'])},item {ends[1]}"] = None
    path.write_text("subject,predicate,object\n" + "\n".join(rows) + "\n", encoding="utf-8")


def _writes(script: Script) -> Script:
    """Those steps that write records."""
    steps = [step for step in chain(*script) if step.statements and step.statements[0][0] in _WRITING]
    return [[step] for step in steps]


def _shown() -> Any:
    last = time.monotonic()

    def shown(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _SHOWN_SECONDS:
            last = time.monotonic()
            said(f"{done:,} records written")

    return shown

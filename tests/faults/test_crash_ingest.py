"""W-M15 for the queue: whose process dies has accepted, converted or changed a file wholly, or not at all.

Files count too: a record is never without its bytes, and bytes without a record are swept.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from app.store.database import Database
from app.store.statement import statement
from tests.faults.conftest import Process
from tests.identity import fresh_name
from tests.ingest.conftest import Agent, service_at, talk

RELEASE = statement(
    "test_crash_ingest.let_lease_expire",
    "MATCH (i:_IngestItem {tenant: $of, state: 'converting'}) SET i.due = 0.0, i.attempts = 0",
    writes=True,
    control=True,
)
ITEMS = statement(
    "test_crash_ingest.list_items",
    "MATCH (i:_IngestItem {tenant: $of}) RETURN properties(i) AS item ORDER BY i.id",
    control=True,
)
SUBTITLES = b"WEBVTT\n\n00:01.000 --> 00:02.000\nHello Ada\n"


@pytest.fixture
def sender(database: Database, tmp_path: Path) -> Agent:
    return Agent(service_at(database, tmp_path), fresh_name("crash"))


def order(sender: Agent, home: Path, work: str, **more: Any) -> dict[str, Any]:
    return {"work": work, "home": str(home), "tenant": sender.tenant, **more}


async def swept(sender: Agent) -> list[str]:
    """The files that are left when all of them are old."""
    ages_ago = time.time() - 365 * 24 * 3600
    root = sender.service.files.parts(sender.tenant).parent
    for path in (*root.glob("items/*"), *root.glob("parts/*")):
        os.utime(path, (ages_ago, ages_ago))
    await sender.service.worker.sweep()
    return sender.files()


async def test_a_process_that_dies_while_it_accepts_a_file_has_accepted_it_or_not(
    process: Process, sender: Agent, tmp_path: Path
) -> None:
    """The transcript that takes the place of its beginning is the longest of these changes."""
    held, point, steps = ["0"], 0, None
    await sender.send("s-1.jsonl", talk(*held))
    while steps is None:
        point += 1
        sent = [*held, str(point)]
        steps = await process(point, order(sender, tmp_path, "accept", texts=sent))
        (item,) = (await sender.ask("status"))["pending"]
        found = [each["text"] for each in (await sender.read(session_id="s-1"))["messages"]]
        assert found in (held, sent), f"step {point}"
        assert item["facts"]["message_count"] == len(found)
        held = found
    assert (held, point > 10) == (sent, True)
    assert await swept(sender) == [f"items/{item['id']}/original"]


async def test_a_process_that_dies_while_it_converts_leaves_the_file_to_the_next(
    process: Process, sender: Agent, database: Database, tmp_path: Path
) -> None:
    point, steps, sent = 0, None, await sender.send("0.vtt", SUBTITLES)
    while steps is None:
        point += 1
        steps = await process(point, order(sender, tmp_path, "convert"))
        (item,) = [each for each in (await sender.ask("status"))["pending"] if each["id"] == sent["id"]]
        text = sender.service.files.text(sender.tenant, sent["id"])
        if item["state"] == "pending":
            assert text.read_text() == "Hello Ada\n", f"step {point}"
            sent = await sender.send(f"{point}.vtt", SUBTITLES + b"\n" * point)
        else:
            assert item["state"] in {"received", "converting"}, f"step {point}"
            await database.control.write(lambda writing: writing.run(RELEASE, of=sender.tenant))
    done = [each["id"] for each in (await sender.ask("status"))["pending"] if each["id"] != sent["id"]]
    assert point > 5
    wanted = {f"items/{id_}/{name}" for id_ in done for name in ("original", "text")}
    assert {*await swept(sender)} == wanted | {f"items/{sent['id']}/original"}


@pytest.mark.parametrize(
    ("action", "more", "counts"),
    [
        ("claim", {}, (1, 0, 0)),
        ("complete", {"entities": 3}, (0, 1, 0)),
        ("fail", {"reason": "no"}, (0, 0, 1)),
        ("retry", {}, (1, 0, 0)),
        ("cancel", {}, (0, 0, 0)),
    ],
)
async def test_a_process_that_dies_while_a_run_changes_an_item_has_changed_it_or_not(
    process: Process,
    sender: Agent,
    database: Database,
    tmp_path: Path,
    action: str,
    more: dict[str, Any],
    counts: tuple[int, int, int],
) -> None:
    await sender.queue("a.md", "x")
    given = {"idempotency_key": "k", **more}
    if action != "claim":
        held = await sender.claimed()
        given |= {"id": held["id"], "lease": held["lease"]}
    before, files = await database.control.read(ITEMS, of=sender.tenant), sender.files()
    after, point, steps = before, 0, None
    while steps is None:
        point += 1
        steps = await process(point, order(sender, tmp_path, "queue", action=action, arguments=given))
        now = await database.control.read(ITEMS, of=sender.tenant)
        if after == before:
            after = now
        assert now == after, f"step {point} changed more than the one that came through"
        assert now != before or sender.files() == files, f"step {point}"
    status = await sender.ask("status")
    assert tuple(status[f"{key}_count"] for key in ("pending", "completed", "failed")) == counts
    assert point > 5
    answer = await sender.ask(action, **given)
    if action == "claim":  # whose process died behind its commit has the lease by asking again
        (held,) = answer["items"]
        await sender.ask("complete", id=held["id"], lease=held["lease"])
    assert await swept(sender) == ([] if action == "cancel" else files)

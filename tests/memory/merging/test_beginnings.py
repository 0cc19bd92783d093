"""``graph_merge``: since when a relation has held that both entities had."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest

from app.memory.merging.consolidate import consolidated
from app.store.database import Database
from tests.memory.conftest import Agent
from tests.memory.merging.conftest import everything, merge, undo


@pytest.mark.parametrize(
    ("times", "earlier"),
    [
        (("2020-01-01", "2024-01-01"), "2020-01-01T00:00:00Z"),
        ((None, "2024-01-01"), "2024-01-01T00:00:00Z"),
        (("2024-01-01", None), "2024-01-01T00:00:00Z"),
        ((None, None), None),
    ],
)
def test_of_two_copies_that_hold_the_earlier_known_beginning_counts_and_the_time_before_it_is_kept(
    times: tuple[str | None, str | None], earlier: str | None
) -> None:
    first, second = (
        {"properties": {"ingested_at": "2025-01-01T00:00:00Z", **({"valid_at": f"{at}T00:00:00Z"} if at else {})}}
        for at in times
    )
    whole = consolidated({**first, "moments": []}, {**second, "moments": []}, datetime.now(UTC))["properties"]
    assert whole.get("valid_at") == earlier
    past = [(each["valid_at"], each["invalid_at"]) for each in orjson.loads(whole.get("past", "[]"))]
    assert past == ([(None, earlier)] if times.count(None) == 1 else [])


async def test_an_older_fact_told_after_a_merge_does_not_end_what_began_later_by_one_of_the_two(
    database: Database, plain_agent: Agent
) -> None:
    agent = plain_agent
    await agent.relate("Robert", "WORKS_AT", "Newco", to_type="Organization", valid_at="2026-03-01")
    await agent.relate("Bob", "WORKS_AT", "Newco", to_type="Organization")
    before = await everything(database, agent)
    done = await merge(agent, "bob", "robert")
    newco, acme = ("robert", "WORKS_AT", "newco"), ("robert", "WORKS_AT", "acme")
    assert (await agent.edges("Robert"))[newco]["valid_at"] == "2026-03-01T00:00:00Z"
    assert newco in await agent.edges("Robert", as_of="2020-06-01")
    await undo(agent, done["undo_id"])
    assert await everything(database, agent) == before
    await merge(agent, "bob", "robert")
    told = await agent.relate("Robert", "WORKS_AT", "Acme", to_type="Organization", valid_at="2019-01-01")
    assert told["superseded"] == []
    assert newco in await agent.edges("Robert")
    assert acme not in await agent.edges("Robert")
    assert set(await agent.edges("Robert", as_of="2020-06-01")) == {acme}

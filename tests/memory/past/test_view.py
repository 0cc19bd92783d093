"""What was true at a moment, and what was believed at it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.memory.past.queries import (
    ENTITY_AT,
    EXPANSION_AT,
    NEIGHBOURHOOD_AT,
    PAGE_AT,
    PICKED_AT,
    WIDE_NEIGHBOURHOOD_AT,
)
from app.store.database import Database
from app.store.planning import EXAMPLES
from app.store.statement import Statement
from tests.memory.conftest import Agent
from tests.memory.test_reading import SCANS
from tests.plans import assert_plan


def now() -> str:
    return datetime.now(UTC).isoformat()


async def employers(agent: Agent, **looking: str) -> set[str]:
    return {target for _, verb, target in await agent.edges("Ann", **looking) if verb == "WORKS_AT"}


async def career(agent: Agent) -> tuple[str, str, str]:
    """Ann was at Acme from 2020, at Globex from 2022 and at Acme again from 2024; each became known after the other.

    The moments before the first, after the first, and after the second was told.
    """
    before = now()
    await agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2020-01-01")
    first = now()
    await agent.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-01-01")
    second = now()
    await agent.relate("Ann", "WORKS_AT", "Acme", valid_at="2024-01-01")
    return before, first, second


@pytest.mark.shows("graph_query", 6, 9)
async def test_what_was_true_at_a_moment_is_shown_with_the_time_in_which_it_was(agent: Agent) -> None:
    await career(agent)
    for moment, employer in (("2021-06-01", {"acme"}), ("2023-06-01", {"globex"}), ("2025-01-01", {"acme"})):
        assert await employers(agent, as_of=moment) == employer
    assert await employers(agent, as_of="2019-12-31") == set()
    assert await employers(agent, as_of="2022-01-01") == {"globex"}  # an end is the first moment that is outside
    edge = (await agent.edges("Ann", as_of="2021-06-01"))["ann", "WORKS_AT", "acme"]
    assert (edge["valid_at"], edge["invalid_at"]) == ("2020-01-01T00:00:00Z", "2022-01-01T00:00:00Z")
    assert await employers(agent) == {"acme"}


@pytest.mark.shows("graph_query", 10)
async def test_what_was_believed_at_a_moment_leaves_out_what_was_learnt_later(agent: Agent) -> None:
    before, first, second = await career(agent)
    assert await employers(agent, as_of=first, as_of_basis="ingestion") == {"acme"}
    assert await employers(agent, as_of=second, as_of_basis="ingestion") == {"globex"}
    assert await employers(agent, as_of=now(), as_of_basis="ingestion") == {"acme"}
    unknown = await agent.query("Ann", as_of=before, as_of_basis="ingestion")
    assert (unknown["found"], unknown["not_found"]) == (False, ["Ann"])


async def test_what_ended_before_the_moment_is_shown_on_demand_and_what_had_not_begun_never(agent: Agent) -> None:
    await career(agent)
    every = await employers(agent, as_of="2023-06-01", current_only=False)  # type: ignore[arg-type]
    assert every == {"acme", "globex"}
    assert await employers(agent, as_of="2019-06-01", current_only=False) == set()  # type: ignore[arg-type]


@pytest.mark.shows("graph_entities", 4)
async def test_the_catalogue_of_a_moment_has_what_was_known_by_then(agent: Agent) -> None:
    _, first, _ = await career(agent)
    then: dict[str, str] = {"as_of": first, "as_of_basis": "ingestion"}
    listed = await agent.entities(**then)
    assert ({one["id"] for one in listed["entities"]}, listed["total"]) == ({"ann", "acme"}, 2)
    assert {one["id"]: one["edge_count"] for one in listed["entities"]} == {"ann": 1, "acme": 1}
    assert (await agent.entities(search="Globex", **then))["entities"] == []
    assert (await agent.entities(id="Globex", **then))["found"] is False
    assert (await agent.entities(id="Globex", as_of="2021-01-01"))["entities"][0]["edge_count"] == 0


@pytest.mark.shows("graph_search", 4)
async def test_a_search_looks_back_too(agent: Agent) -> None:
    _, first, _ = await career(agent)
    found = await agent.search("Ann", as_of="2023-01-01", min_similarity=0)
    assert {(edge["from"], edge["to"]) for edge in found["expansion"]["edges"]} == {("ann", "globex")}
    found = await agent.search("Globex", as_of=first, as_of_basis="ingestion", min_similarity=0)
    assert "globex" not in {seed["id"] for seed in found["seeds"]}


async def test_a_relation_without_a_beginning_was_true_ever_since(agent: Agent) -> None:
    await agent.relate("Ann", "WORKS_AT", "Acme")
    await agent.relate("Ann", "WORKS_AT", "Globex", valid_at="2022-01-01")
    assert await employers(agent, as_of="1999-01-01") == {"acme"}
    assert await employers(agent, as_of="2022-06-01") == {"globex"}


@pytest.mark.parametrize(
    "statement",
    [ENTITY_AT, EXPANSION_AT, NEIGHBOURHOOD_AT, PAGE_AT, PICKED_AT, WIDE_NEIGHBOURHOOD_AT],
    ids=lambda statement: statement.name,
)
async def test_looking_back_reads_no_more_than_looking_at_the_present(database: Database, statement: Statement) -> None:
    await assert_plan(database, statement, {name: EXAMPLES[name] for name in statement.parameters}, SCANS)

"""What the tools accept, and how they refuse the rest."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from datetime import UTC, datetime
from functools import partial

import pytest
from pydantic import ValidationError

from app.errors import InvalidInput
from app.memory.moments import moment, read_properties
from app.memory.plan import plan_of
from app.memory.schemas import QueryInput, RelateInput
from app.memory.tools import TOOLS
from app.protocol.registry import Registry
from tests.memory.conftest import Agent

ONE = {"from_name": "Ann", "from_type": "Person", "relation": "USES", "to_name": "Vim", "to_type": "Object"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", datetime(2026, 3, 1, tzinfo=UTC)),
        ("2026-03-01T09:30Z", datetime(2026, 3, 1, 9, 30, tzinfo=UTC)),
        ("2026-03-01 09:30:15", datetime(2026, 3, 1, 9, 30, 15, tzinfo=UTC)),
        ("2026-03-01T09:30:15.5+02:00", datetime(2026, 3, 1, 7, 30, 15, 500_000, tzinfo=UTC)),
    ],
)
def test_a_moment_is_read_as_utc_unless_it_says_otherwise(text: str, expected: datetime) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "tomorrow", "1772357400", "2026", "03/01/2026", "2026-02-30", "2026-03-01T25:00Z", "2026-W10-1"),
        *("0001-01-01T00:00+14:00", "2026-03-01T09:30:00Z; DROP", "２０２６-03-01", 1772357400, 1.5, True, None, []),
    ],
)
def test_any_other_form_of_a_moment_is_refused_with_an_example(value: object) -> None:
    with pytest.raises(ValueError, match="2026-03-01T09:30:00Z"):
        moment(value)


def test_the_servers_spelling_of_moments_becomes_the_stores() -> None:
    read = read_properties([["valid_at", "2020-01-01T00:00Z"], ["last_seen", "2020-01-01T00:00:01.500Z"], ["a", "1Z"]])
    assert read == {"valid_at": "2020-01-01T00:00:00Z", "last_seen": "2020-01-01T00:00:01.5Z", "a": "1Z"}


def test_all_tools_pass_the_registry() -> None:
    names = {"graph_relate", "graph_query", "graph_entities", "graph_search", "graph_stats"}
    assert {tool.name for tool in Registry(TOOLS)} >= names


@pytest.mark.shows("graph_relate", 1)
def test_single_mode_names_what_is_missing() -> None:
    with pytest.raises(InvalidInput, match="Single mode requires from_name, from_type, to_name, to_type, and relation"):
        plan_of(RelateInput.model_validate({"from_name": "Ann"}))


def test_a_type_or_relation_that_is_no_plain_word_is_refused() -> None:
    for broken in ("A`) DETACH DELETE n //", "WORKS ON", "A\n", "1A", "Ä", "A" * 65, "a-b"):
        for field in ("from_type", "to_type", "relation"):
            with pytest.raises(InvalidInput, match="letters"):
                plan_of(RelateInput.model_validate(ONE | {field: broken}))


@pytest.mark.parametrize(
    "name",
    ["tenant", "tenant_id", "layer", "id", "name", "embedding", "first_seen", "valid_at", "weight", "_x", "extra"],
)
def test_protected_properties_are_refused_on_entities_and_relations(name: str) -> None:
    entity = {"name": "Ann", "type": "Person", "properties": {name: "x"}}
    with pytest.raises(InvalidInput, match=f"properties.{name}"):
        plan_of(RelateInput.model_validate({"batch": {"entities": [entity]}}))
    with pytest.raises(InvalidInput, match=f"properties.{name}"):
        plan_of(RelateInput.model_validate(ONE | {"properties": {name: "x"}}))


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), "much", None, []])
def test_a_weight_that_is_no_number_is_refused(weight: object) -> None:
    with pytest.raises((ValidationError, InvalidInput)):
        plan_of(RelateInput.model_validate(ONE | {"weight": weight}))


def test_sizes_are_bounded() -> None:
    for broken in (
        ONE | {"from_name": "x" * 513},
        ONE | {"from_name": ""},
        ONE | {"evidence": "ä" * 17_000},
        {"batch": {"entities": [{"name": "a", "type": "b"}] * 501}},
    ):
        with pytest.raises(ValidationError):
            RelateInput.model_validate(broken)
    with pytest.raises(ValidationError):
        QueryInput.model_validate({"entities": ["a"], "max_hops": 5})


def test_items_of_a_batch_are_strict() -> None:
    with pytest.raises(ValidationError):
        RelateInput.model_validate({"batch": {"entities": [{"name": "a", "type": "b", "colour": "red"}]}})


def test_an_entity_is_not_related_to_itself() -> None:
    with pytest.raises(InvalidInput, match="one entity"):
        plan_of(RelateInput.model_validate(ONE | {"to_name": "ANN"}))


async def test_one_entity_does_not_grow_without_end_by_many_small_calls(agent: Agent) -> None:
    for number in range(4):
        await agent.batch([{"name": "Ann", "type": "Person", "properties": {f"note{number}": "x" * 31_000}}])
    with pytest.raises(InvalidInput, match="128 KiB together"):
        await agent.batch([{"name": "Ann", "type": "Person", "properties": {"note4": "x" * 31_000}}])
    properties = {f"note{number}": "x" * 31_000 for number in range(5)}
    with pytest.raises(InvalidInput, match="128 KiB together"):
        await agent.relate("Ann", "USES", "Vim", properties=properties)
    assert "note4" not in (await agent.entity("Ann"))["properties"]
    await agent.batch([{"name": "Ann", "type": "Person", "properties": {"note0": None, "note4": "y"}}])
    assert (await agent.entity("Ann"))["properties"]["note4"] == "y"


async def test_other_calls_get_their_turn_while_a_large_batch_is_cut_into_words(plain_agent: Agent) -> None:
    text = " ".join(f"word{number}" for number in range(2_000))
    facts = [{"name": f"fact {number}", "type": "Fact", "properties": {"content": text}} for number in range(20)]
    gaps: list[float] = []

    async def watch() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - began)

    watching = asyncio.create_task(watch())
    began = time.thread_time()
    answer = await plain_agent.batch(facts)
    spent = time.thread_time() - began
    watching.cancel()
    assert answer["entities_created"] == 20
    assert max(gaps) < spent / 4


async def test_a_property_of_an_unusual_type_breaks_no_question_of_others(agent: Agent) -> None:
    await agent.batch(
        [
            {"name": "One", "type": "Project", "properties": {"directory": 5, "source_file": 7, "subtype": True}},
            {"name": "Two", "type": "Project", "properties": {"directory": "/home/two", "source_file": "two.md"}},
        ],
        [{"from": "One", "to": "Two", "relation": "DEPENDS_ON"}],
    )
    answer = await agent.query("One", project_context="/home/two/src")
    assert answer["project"] == "two"
    assert answer["source_files"] == ["7", "two.md"]
    assert all(isinstance(node.get("subtype", ""), str) for node in answer["nodes"])


@pytest.mark.parametrize(
    "position",
    [[], ["x"], [None, None], [True, "x"], [[], []], [{}, "x"], [2**70, "x"], [float("nan"), "x"], [0.5, "\ud800"]],
)
async def test_a_cursor_whose_position_was_rewritten_is_refused_and_reaches_no_statement(
    agent: Agent, position: list[object]
) -> None:
    await agent.batch([{"name": name, "type": "Fact"} for name in ("a", "b")])
    await agent.relate("a", "USES", "b")
    for ask in (agent.entities, partial(agent.query, "a")):
        cursor = (await ask(limit=1))["next_cursor"]
        digest = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))[0]
        forged = base64.urlsafe_b64encode(json.dumps([digest, position]).encode()).decode().rstrip("=")
        with pytest.raises(InvalidInput, match="not one that this tool gave out"):
            await ask(limit=1, cursor=forged)

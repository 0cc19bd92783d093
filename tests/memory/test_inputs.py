"""What the tools accept, and how they refuse the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from app.errors import InvalidInput
from app.memory.moments import moment, read_properties
from app.memory.plan import plan_of
from app.memory.schemas import QueryInput, RelateInput
from app.memory.tools import TOOLS
from app.protocol.registry import Registry

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

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import InvalidInput
from app.protocol.arguments import arguments_digest, validated
from app.protocol.registry import Registry
from tests.protocol.fixture_tools import TOOLS, EchoInput

REGISTRY = Registry(TOOLS)


def check(arguments: dict[str, Any], name: str = "echo") -> Any:
    tool = REGISTRY.get(name)
    assert tool is not None
    return validated(tool, arguments, REGISTRY.input_schema(name) or {})


def refused(arguments: dict[str, Any], name: str = "echo") -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check(arguments, name)
    return caught.value


def test_right_arguments_become_the_tools_own_model() -> None:
    given_ = check({"text": "hello", "times": 3, "points": [{"x": 1}], "layers": ["work"], "weight": 1})
    assert isinstance(given_, EchoInput)
    assert (given_.text, given_.times, given_.weight, given_.layers) == ("hello", 3, 1.0, ["work"])


def test_an_optional_argument_may_be_null() -> None:
    assert check({"text": "hello", "points": None, "layers": None}).points is None


def test_a_whole_number_written_with_a_point_is_an_integer() -> None:
    assert check({"text": "hello", "times": 3.0}).times == 3
    assert refused({"text": "hello", "times": 3.5}).field == "times"
    assert refused({"text": "hello", "times": 3.0, "zzz": 1}).field is not None


@pytest.mark.parametrize(
    ("arguments", "field", "rule"),
    [
        ({}, "text", "text is required"),
        ({"text": 5}, "text", "should be a valid string"),
        ({"text": "x", "times": "3"}, "times", "came in quotes"),
        ({"text": "x", "weight": "0.5"}, "weight", "came in quotes"),
        ({"text": "x", "weight": True}, "weight", "valid number"),
        ({"text": "x", "times": True}, "times", "valid integer"),
        ({"text": "x", "times": 0}, "times", "greater than or equal to 1"),
        ({"text": "x", "times": 1e30}, "times", "integer"),
        ({"text": "x", "kind": "shouted"}, "kind", "'plain' or 'loud'"),
        ({"text": "x", "points": [{"x": 1}, {"x": "1"}]}, "points[1].x", "came in quotes"),
        ({"text": "x", "points": [{}]}, "points[0].x", "is required"),
        ({"text": "x", "points": {}}, "points", "array"),
        ({"text": "x", "values": []}, "values", "object"),
        ({"text": "x", "tenant": "other"}, "tenant", "no argument of this tool; it takes layers, text"),
        ({"text": "x" * 1001}, "text", "at most 1000"),
        ({"text": "x", "layers": ["l"] * 101}, "layers", "at most 100"),
        ({"text": "x", "points": [{"x": 1}] * 10_000}, "points", "at most 500"),
        ({"text": "x", "values": {"deep": {"list": [1] * 501}}}, "values.deep.list", "501 items; at most 500"),
        ({"text": "x", "values": {"big": [2**63]}}, "values.big[0]", "largest integer"),
        ({"text": "x", "values": {"long": "y" * 32_769}}, "values.long", "at most 32768"),
    ],
)
def test_a_wrong_argument_is_named_with_its_rule(arguments: dict[str, Any], field: str, rule: str) -> None:
    error = refused(arguments)
    assert error.field == field
    assert field in error.message
    assert rule in error.message
    assert "Nothing was applied." in error.message
    assert error.outcome == "not_applied"


def test_the_refusal_shows_a_correct_call() -> None:
    assert 'A correct call: {"text":"hello","times":2}' in refused({}).message


def test_many_broken_rules_are_counted_not_listed() -> None:
    error = refused({"text": 1, "times": "1", "kind": 1, "weight": "1", "values": 1})
    assert "and 2 more" in error.message
    assert len(error.message) < 1000


def test_the_digest_ignores_order_and_the_key_alone() -> None:
    one = arguments_digest({"a": 1, "b": [1, 2], "idempotency_key": "k"})
    assert (
        one
        == arguments_digest({"b": [1, 2], "a": 1, "idempotency_key": "other"})
        == arguments_digest({"a": 1, "b": [1, 2]})
    )
    assert one != arguments_digest({"a": 1, "b": [2, 1]})


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)


@given(
    st.dictionaries(st.sampled_from([*EchoInput.model_fields, "zzz", "a.b", "\x00"]), json_values, max_size=6),
)
def test_any_arguments_are_either_right_or_refused_with_a_sentence(arguments: dict[str, Any]) -> None:
    message = ""
    try:
        assert isinstance(check(arguments), EchoInput)
    except InvalidInput as error:
        message = error.message
        assert message.startswith("echo: ")

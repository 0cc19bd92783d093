from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from app.protocol.schema import SchemaError, input_schema, output_schema


class Kind(StrEnum):
    A = "a"
    B = "b"


class Inner(BaseModel):
    """Words for people."""

    name: str
    when: datetime | None = None


class Model(BaseModel):
    required: str = Field(min_length=1, description="Needed.")
    optional: int | None = Field(default=None, ge=1, description="Not needed.")
    inner: Inner
    many: list[Inner] | None = None
    by_name: dict[str, Inner] = Field(default_factory=dict)
    free: dict[str, Any] = Field(default_factory=dict)
    kind: Kind = Kind.A
    one: Literal["x"] = "x"
    choice: Literal["p", "q"] | None = None
    either: str | list[str] | None = Field(default=None, max_length=9)
    pair: tuple[int, str] | None = None


FORBIDDEN = ("anyOf", "oneOf", "allOf", "$ref", "$defs")


@pytest.mark.parametrize("make", [input_schema, output_schema])
def test_no_schema_has_a_union_or_a_reference(make: Any) -> None:
    text = json.dumps(make(Model))
    assert not [word for word in FORBIDDEN if f'"{word}"' in text]
    jsonschema.Draft202012Validator.check_schema(make(Model))


def test_an_optional_argument_is_one_that_is_not_required() -> None:
    schema = input_schema(Model)
    assert schema["required"] == ["required", "inner"]
    assert schema["properties"]["optional"] == {"type": "integer", "minimum": 1, "description": "Not needed."}
    assert schema["properties"]["many"]["items"]["properties"]["when"] == {"type": "string", "format": "date-time"}
    assert "null" not in json.dumps(schema)


def test_kinds_that_differ_in_json_type_are_folded_into_one_node() -> None:
    either = input_schema(Model)["properties"]["either"]
    assert either["type"] == ["string", "array"]
    assert either["items"] == {"type": "string"}


def test_enumerations_and_constants_are_kept() -> None:
    properties = input_schema(Model)["properties"]
    assert properties["kind"]["enum"] == ["a", "b"]
    assert properties["choice"]["enum"] == ["p", "q"]
    assert properties["one"]["const"] == "x"


def test_a_result_may_say_null_and_more_than_was_declared() -> None:
    validator = jsonschema.Draft202012Validator(output_schema(Model))
    result = {"ok": True, "required": "r", "inner": {"name": "n", "when": None, "more": 1}, "choice": None, "extra": 5}
    assert validator.is_valid(result)
    assert not validator.is_valid({"ok": True, "inner": {"name": 5}})


def test_a_failure_fits_the_output_schema_too() -> None:
    failed = {"ok": False, "reason": "conflict", "message": "m", "retryable": False, "outcome": "not_applied"}
    assert jsonschema.Draft202012Validator(output_schema(Model)).is_valid(failed)
    assert not jsonschema.Draft202012Validator(output_schema(Model)).is_valid({"required": "no ok"})


class Tree(BaseModel):
    children: list[Tree]


class Shapes(BaseModel):
    either: Inner | Model


class Numbers(BaseModel):
    either: dict[str, int] | Inner


class Names(BaseModel):
    bad: str = Field(alias="not allowed")


class Clash(BaseModel):
    reason: int


@pytest.mark.parametrize(
    ("model", "make", "rule"),
    [
        (Tree, input_schema, "contains itself"),
        (Shapes, input_schema, "share a JSON type"),
        (Numbers, input_schema, "share a JSON type"),
        (Names, input_schema, "property name"),
        (Clash, output_schema, "differs in type"),
    ],
)
def test_what_cannot_be_said_safely_is_refused(model: type[BaseModel], make: Any, rule: str) -> None:
    with pytest.raises(SchemaError, match=rule):
        make(model)

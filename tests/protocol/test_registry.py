from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field, create_model

from app.contract import Cost, DeadlineClass, ReadArguments
from app.protocol.registry import MAX_SCHEMA, Registry, RegistryError
from tests.protocol.fixture_tools import TOOLS, Nothing, tool, writer


class SaysOk(BaseModel):
    ok: bool


class Wide(ReadArguments):
    text: str = Field(default="", description="d" * (MAX_SCHEMA + 1))


def test_a_tool_is_found_by_its_name_in_the_order_of_declaration() -> None:
    registry = Registry(TOOLS)
    assert [found.name for found in registry] == [declared.name for declared in TOOLS]
    assert registry.get("echo") is TOOLS[0]
    assert registry.get("nothing") is None
    assert registry.input_schema("nothing") is None


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"name": "dotted.name"}, "letters, digits"),
        ({"name": "n" * 65}, "letters, digits"),
        ({"name": "echo\n"}, "letters, digits"),
        ({"name": ""}, "letters, digits"),
        ({"title": " "}, "title"),
        ({"description": ""}, "description"),
        ({"description": "d" * 2049}, "2048"),
        ({"scope": "memory:everything"}, "not a scope"),
        ({"destructive": True}, "destroys nothing"),
        ({"scope": "memory:write"}, "no scope to write"),
        ({"read_only": False}, "needs a scope to write"),
        ({"read_only": None}, "true or false"),
        ({"open_world": None}, "true or false"),
        ({"operators_only": True}, "use instead"),
        ({"example": {}}, "example"),
        ({"example": {"text": "x", "times": 0}}, "example"),
        ({"output": SaysOk}, "adds ok"),
        ({"input": Wide, "example": {}}, "over 16384"),
    ],
)
def test_a_declaration_that_breaks_a_rule_stops_the_start(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(RegistryError, match=rule):
        Registry([tool(**changes)])


def test_two_tools_never_have_one_name() -> None:
    with pytest.raises(RegistryError, match="two tools"):
        Registry([tool(), tool()])


def test_all_schemas_together_are_bounded() -> None:
    big = create_model("Big", __base__=ReadArguments, text=(str, Field(default="", description="d" * 15_000)))
    with pytest.raises(RegistryError, match="together"):
        Registry([tool(name=f"t{number}", input=big, example={}) for number in range(7)])


def test_a_listing_has_both_titles_and_all_four_annotations() -> None:
    (found,) = Registry([writer(destructive=True, idempotent=True)]).listing(lambda _: True)
    assert found["title"] == "Store"
    assert found["annotations"] == {
        "title": "Store",
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }
    assert found["outputSchema"]["required"] == ["ok"]


def test_a_listing_has_only_what_is_shown() -> None:
    registry = Registry(TOOLS)
    assert [found["name"] for found in registry.listing(lambda found: not found.read_only)] == ["store"]


def test_the_table_tells_scope_cost_deadline_and_kind() -> None:
    heavy = tool(cost=Cost.WHOLE_GRAPH, deadline=DeadlineClass.WHOLE_GRAPH, input=Nothing, example={})
    table = Registry([heavy, writer(), tool(name="repair", operators_only=True, instead="x", scope="admin")]).table()
    assert "| `echo` | Echo | `memory:read` | 20 | whole_graph | read |" in table
    assert "| `store` | Store | `memory:write` | 1 | write | write |" in table
    assert "| `repair` | Echo | `admin` | 1 | read | read, operators |" in table

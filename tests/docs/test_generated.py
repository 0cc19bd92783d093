from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.client.variables import variables
from app.cli.documents import PAGES
from app.cli.toolsets import every_tool
from app.memory.merging.schemas import EdgeToMove
from app.memory.schemas import BatchEntity, BatchRelation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "write"), PAGES.items(), ids=list(PAGES))
def test_a_generated_document_is_the_one_that_the_code_writes(name: str, write: Callable[[], str]) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == write(), f"{name} is out of date: run `make docs`"


def test_every_setting_is_explained() -> None:
    for variable in variables():
        assert variable.words.endswith("."), variable.name
        assert variable.room_words.endswith("."), variable.room


def test_no_example_line_takes_effect_by_itself() -> None:
    lines = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


def test_every_tool_and_each_of_its_arguments_is_in_the_documentation() -> None:
    page = (ROOT / "docs" / "TOOLS.md").read_text(encoding="utf-8")
    for tool in every_tool():
        assert f"## {tool.name}\n" in page
        section = page.split(f"## {tool.name}\n", 1)[1].split("\n## ", 1)[0]
        for argument in tool.input.model_fields:
            assert f"| `{argument}`" in section


def test_the_fields_of_what_stands_in_an_argument_are_in_the_documentation_too() -> None:
    page = (ROOT / "docs" / "TOOLS.md").read_text(encoding="utf-8")
    for name, model, field in (
        ("relate", BatchEntity, "batch.entities[]."),
        ("relate", BatchRelation, "batch.relations[]."),
        ("unmerge", EdgeToMove, "edges_to_move[]."),
    ):
        section = page.split(f"## graph_{name}\n", 1)[1].split("\n## ", 1)[0]
        for argument, info in model.model_fields.items():
            assert f"| `{field}{info.alias or argument}`" in section
